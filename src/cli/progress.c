/* progress.c: step, loss, tokens/s, memory, time left. */
#include "cli/progress.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/command.h"

/* A terminal is written at most so often. */
static const double seconds_between_drawings = 0.1;

sw_show sw_show_for(FILE *out, bool is_quiet, bool is_json) {
    return is_json               ? SW_SHOW_JSON
           : is_quiet            ? SW_SHOW_NOTHING
           : isatty(fileno(out)) ? SW_SHOW_LIVE
                                 : SW_SHOW_LINES;
}

char *sw_progress_line(const sw_progress *progress, char *buffer, size_t bytes) {
    char loss[SW_TEXT_NUMBER_BYTES], speed[SW_TEXT_NUMBER_BYTES], memory[SW_TEXT_NUMBER_BYTES],
        left[SW_TEXT_NUMBER_BYTES], rate[SW_TEXT_NUMBER_BYTES];
    double seconds_left = progress->step > 0 ? progress->seconds / (double)progress->step *
                                                   (double)(progress->n_steps - progress->step)
                                             : 0;
    snprintf(rate, sizeof rate, "%.3g", progress->learning_rate);
    snprintf(
        buffer, bytes,
        "step %" PRId64 "/%" PRId64 " · loss %s · norm %.3g · rate %s · %s tokens/s · %s · %s left",
        progress->step, progress->n_steps, sw_text_loss(progress->loss, loss, sizeof loss),
        progress->grad_norm, rate, sw_text_count(progress->tokens_per_second, speed, sizeof speed),
        sw_text_bytes(progress->memory_bytes, memory, sizeof memory),
        sw_text_duration(seconds_left, left, sizeof left));
    return buffer;
}

/* Cut UTF-8 text to so many characters. */
static void cut(char *text, int n_characters) {
    for (; *text; text++)
        if (((unsigned char)*text & 0xC0) != 0x80 && n_characters-- == 0) {
            *text = 0;
            return;
        }
}

static int columns_of(FILE *out) {
    struct winsize size;
    return ioctl(fileno(out), TIOCGWINSZ, &size) || size.ws_col < 20 ? 80 : size.ws_col;
}

static void clear_live_line(const sw_display *display) {
    if (display->show == SW_SHOW_LIVE)
        fputs("\r\033[K", display->out);
}

/* A reader that pauses (a pager, Ctrl-S) must not hold up the ranks: then steps go unshown, as
 * between two lines of the log. */
static bool would_wait(FILE *out) {
    struct pollfd room = {.fd = fileno(out), .events = POLLOUT};
    return poll(&room, 1, 0) == 0;
}

static void show_step(void *to, const sw_progress *progress) {
    sw_display *display = to;
    char line[320];
    if (display->show != SW_SHOW_JSON && would_wait(display->out))
        return;
    if (display->show == SW_SHOW_JSON && progress->metrics)
        fprintf(display->out, "%.*s\n", (int)strcspn(progress->metrics, "\n"), progress->metrics);
    if (display->show == SW_SHOW_LIVE || display->show == SW_SHOW_LINES) {
        if (progress->skipped) {
            clear_live_line(display);
            fprintf(display->out, "step %" PRId64 " · update skipped: %s\n", progress->step,
                    progress->skipped);
        }
        if (progress->has_validation) {
            clear_live_line(display);
            char loss[SW_TEXT_NUMBER_BYTES];
            fprintf(display->out, "step %" PRId64 " · validation loss %s\n", progress->step,
                    sw_text_loss(progress->validation_loss, loss, sizeof loss));
        }
    }
    bool is_last = progress->step == progress->n_steps;
    if (display->show == SW_SHOW_LINES && progress->is_logged)
        fprintf(display->out, "%s\n", sw_progress_line(progress, line, sizeof line));
    if (display->show == SW_SHOW_LIVE &&
        (is_last || progress->skipped || progress->has_validation || progress->step == 1 ||
         progress->seconds - display->last_drawn >= seconds_between_drawings)) {
        sw_progress_line(progress, line, sizeof line);
        cut(line, columns_of(display->out) - 1);
        fprintf(display->out, "\r%s\033[K%s", line, is_last ? "\n" : "");
        display->last_drawn = progress->seconds;
    }
    fflush(display->out); /* a rank that ends leaves no buffer behind */
}

static void show_line(void *to, const char *text) {
    sw_display *display = to;
    if (display->show != SW_SHOW_LIVE && display->show != SW_SHOW_LINES)
        return;
    clear_live_line(display);
    fprintf(display->out, "%s\n", text);
    fflush(display->out);
}

/* Where lines are not shown, on stderr: a person must hear of it, and who reads objects must not
 * read it. */
void sw_display_warn(sw_display *display, const char *text) {
    if (display->show == SW_SHOW_LIVE || display->show == SW_SHOW_LINES)
        show_line(display, text);
    else
        sw_print_warning(text);
}

sw_listener sw_display_listener(sw_display *display) {
    return (sw_listener){.step = show_step, .line = show_line, .to = display};
}

void sw_display_end(const sw_display *display) {
    clear_live_line(display);
    fflush(display->out);
}
