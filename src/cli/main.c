/* main.c: the command: picks the verb, says what went wrong, and turns a status into an exit
 * code. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/stop_signal.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/fresh_line.h"

static const sw_verb *const verbs[] = {&sw_verb_train,    &sw_verb_generate, &sw_verb_eval,
                                       &sw_verb_tokenize, &sw_verb_plan,     &sw_verb_checkpoint,
                                       &sw_verb_doctor,   &sw_verb_bench};
enum { N_VERBS = sizeof verbs / sizeof *verbs };

/* Verbs that are known and not built yet. */
static const char *const unbuilt_verbs[] = {"profile"};

bool sw_is_coloured(FILE *stream) {
    const char *no_color = getenv("NO_COLOR");
    return isatty(fileno(stream)) && !(no_color && *no_color);
}

/* Names of files may hold what moves a terminal's cursor. */
static void make_harmless(const char *message, char text[SW_MESSAGE_BYTES]) {
    size_t n = 0;
    for (; n < SW_MESSAGE_BYTES - 1 && message[n]; n++) {
        unsigned char byte = (unsigned char)message[n];
        text[n] = byte < 0x20 || byte == 0x7F ? '?' : (char)byte;
    }
    text[n] = 0;
}

void sw_print_warning(const char *message) {
    char text[SW_MESSAGE_BYTES];
    bool is_coloured = sw_is_coloured(stderr);
    make_harmless(message, text);
    fflush(stdout);
    sw_fresh_line(STDERR_FILENO);
    fprintf(stderr, "shardwise: %swarning:%s %s\n", is_coloured ? "\033[33m" : "",
            is_coloured ? "\033[0m" : "", text);
}

void sw_print_error(const sw_error *err) {
    char text[SW_MESSAGE_BYTES];
    make_harmless(err->message, text);
    bool is_coloured = sw_is_coloured(stderr);
    bool is_stopped = sw_status_is_stop(err->status); /* as asked, so no error */
    fflush(stdout);
    sw_fresh_line(STDERR_FILENO);
    if (is_stopped)
        fprintf(stderr, "shardwise: %s\n", *text ? text : "stopped by a signal");
    else
        fprintf(stderr, "shardwise: %serror:%s %s\n", is_coloured ? "\033[31m" : "",
                is_coloured ? "\033[0m" : "", text);
    if (sw_status_exit_code(err->status) == 1)
        fprintf(stderr,
                "This is a bug in shardwise %s. Please report it with this message, the command "
                "and RUN.yaml.\n",
                sw_version());
}

static void print_help(FILE *out) {
    fprintf(out, "shardwise %s: train and fine-tune transformers, split over ranks\n\n",
            sw_version());
    for (int i = 0; i < N_VERBS; i++)
        fprintf(out, "  %-10s %-47s %s\n", verbs[i]->name, verbs[i]->arguments, verbs[i]->about);
    fprintf(out,
            "\nMore about one of them: shardwise help VERB. The version: shardwise --version\n");
}

static sw_status unknown_verb(const char *name, sw_error *err) {
    const char *names[N_VERBS + 4] = {"help", "--help", "--version", "-V"};
    for (int i = 0; i < N_VERBS; i++)
        names[4 + i] = verbs[i]->name;
    for (size_t i = 0; i < sizeof unbuilt_verbs / sizeof *unbuilt_verbs; i++)
        if (!strcmp(name, unbuilt_verbs[i]))
            return sw_fail(
                err, SW_BAD_CONFIG,
                "%s is not built yet · shardwise %s · shardwise --help lists what there is", name,
                name);
    const char *nearest = sw_text_nearest(name, names, N_VERBS + 4);
    if (nearest)
        return sw_fail(err, SW_BAD_CONFIG, "there is no %s %.100s · shardwise · did you mean %s?",
                       *name == '-' ? "option" : "verb", name, nearest);
    return sw_fail(err, SW_BAD_CONFIG,
                   "there is no verb %.100s · shardwise · shardwise --help lists what there is",
                   name);
}

static const sw_verb *find_verb(const char *name) {
    for (int i = 0; i < N_VERBS; i++)
        if (!strcmp(name, verbs[i]->name))
            return verbs[i];
    return NULL;
}

/* help; help VERB; help VERB PART, as in help checkpoint list. */
static sw_status help(int n_arguments, char **arguments, sw_error *err) {
    char help_flag[] = "--help";
    if (n_arguments < 1 || !strcmp(arguments[0], "help")) {
        print_help(stdout);
        return SW_OK;
    }
    const sw_verb *verb = find_verb(arguments[0]);
    if (!verb)
        return unknown_verb(arguments[0], err);
    if (n_arguments > 2)
        return sw_fail(err, SW_BAD_CONFIG,
                       "%.100s: a verb and a part of it are taken · shardwise help", arguments[2]);
    char *asked[] = {n_arguments > 1 ? arguments[1] : help_flag, help_flag};
    return verb->run(n_arguments, asked, err);
}

static sw_status run(int n_arguments, char **arguments, sw_error *err) {
    if (n_arguments < 1) {
        print_help(stderr);
        return sw_fail(err, SW_BAD_CONFIG,
                       "no verb is given · shardwise · for example: shardwise train RUN.yaml");
    }
    if (!strcmp(arguments[0], "--help") || !strcmp(arguments[0], "-h")) {
        print_help(stdout);
        return SW_OK;
    }
    if (!strcmp(arguments[0], "help"))
        return help(n_arguments - 1, arguments + 1, err);
    if (!strcmp(arguments[0], "--version") || !strcmp(arguments[0], "-V")) {
        printf("shardwise %s\n", sw_version());
        return SW_OK;
    }
    const sw_verb *verb = find_verb(arguments[0]);
    return verb ? verb->run(n_arguments - 1, arguments + 1, err) : unknown_verb(arguments[0], err);
}

/* The number of a closed standard stream would go to the next file that is opened, and what is
 * printed into that file. So it is taken by a file that cannot be written (0: read), as the closed
 * stream could not. */
static void occupy_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
            return;
}

/* Where the stack is too small a process dies without a word. */
static sw_status check_stack(sw_error *err) {
    const rlim_t least = 1 << 20;
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= least)
        return SW_OK;
    return sw_fail(err, SW_NO_MEMORY,
                   "the stack is limited to %ju KiB · ulimit -s · at least %ju KiB are needed",
                   (uintmax_t)limit.rlim_cur >> 10, (uintmax_t)least >> 10);
}

/* SIGUSR1 asks a run to save, and may come before it can listen: then it waits. No other verb has
 * anything to save. */
static void keep_wishes(void) {
    sigset_t save_now;
    sigemptyset(&save_now);
    sigaddset(&save_now, SIGUSR1);
    sigprocmask(SIG_BLOCK, &save_now, NULL);
}

int main(int argc, char **argv) {
    keep_wishes();
    occupy_standard_streams();
    signal(SIGXFSZ, SIG_IGN); /* a write beyond ulimit -f fails with a reason */
    sw_error err = {0};
    sw_status status = check_stack(&err);
    if (!status)
        status = run(argc - 1, argv + 1, &err);
    if (!status && (fflush(stdout) || ferror(stdout)))
        status = sw_fail(&err, SW_NO_SPACE,
                         "the output could not be written · standard output · is the disk full, or "
                         "has its reader ended?");
    if (status)
        sw_print_error(&err);
    return sw_status_exit_code(status);
}
