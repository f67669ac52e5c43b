/* show_texts.c: see show_texts.h. */
#include "cli/show_texts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/fresh_line.h"

/* A terminal is spared what would move its cursor; a file gets the bytes as they are. */
static void put_bytes(FILE *file, const char *bytes, size_t n_bytes) {
    bool is_terminal = isatty(fileno(file));
    for (size_t i = 0; i < n_bytes; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        bool is_control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
        fputc(is_terminal && is_control ? '?' : byte, file);
    }
}

static sw_status flush(sw_error *err) {
    if (fflush(stdout))
        return sw_fail(err, SW_NO_SPACE, "the text could not be written: %s · standard output · %s",
                       strerror(errno),
                       errno == EPIPE ? "its reader is gone" : "is the disk full?");
    return SW_OK;
}

/* ---- as it is produced; these are called in a rank, which is another process ---- */

static const sw_prompt *prompt_of(const sw_text_output *out, int64_t text) {
    return &out->prompts->item[text / out->n_samples];
}

static sw_status put_text(void *to, int64_t text, const char *bytes, size_t n_bytes,
                          sw_error *err) {
    (void)to;
    (void)text;
    put_bytes(stdout, bytes, n_bytes);
    if (n_bytes)
        sw_text_line_ended(bytes[n_bytes - 1] == '\n');
    return flush(err);
}

static sw_status begin_text(void *to, int64_t text, sw_error *err) {
    const sw_text_output *out = to;
    const sw_prompt *p = prompt_of(out, text);
    return out->is_chat ? SW_OK : put_text(to, text, p->text, p->n_bytes, err);
}

static sw_status end_text(void *to, int64_t text, const sw_text_result *result, sw_error *err) {
    const sw_text_output *out = to;
    (void)result;
    put_bytes(stdout, "\n---\n", text + 1 < out->prompts->n * out->n_samples ? 5 : 1);
    sw_text_line_ended(true);
    return flush(err);
}

static void tell_of_slide(void *to, int64_t number, int64_t n_positions) {
    sw_text_output *out = to;
    char text[SW_MESSAGE_BYTES];
    if (out->has_slid)
        return;
    snprintf(text, sizeof text,
             "the text of prompt %" PRId64 " has outgrown the model's %" PRId64
             " positions: from there on each token depends only on the latest half of the text · "
             "use fewer --max-tokens or a "
             "shorter prompt to keep all of it in view",
             number / out->n_samples + 1, n_positions);
    sw_print_warning(text);
    out->has_slid = true;
}

/* ---- JSON: one object for each text, when it is over ---- */

static sw_status keep_text(void *to, int64_t text, const char *bytes, size_t n_bytes,
                           sw_error *err) {
    sw_text_output *out = to;
    (void)text;
    if (out->n_bytes + n_bytes + 1 > out->capacity) {
        size_t capacity = 2 * (out->n_bytes + n_bytes) + 256;
        char *grown = realloc(out->text, capacity);
        if (!grown)
            return sw_fail(err, SW_NO_MEMORY,
                           "no memory for %zu bytes of text · shardwise generate", capacity);
        out->text = grown;
        out->capacity = capacity;
    }
    memcpy(out->text + out->n_bytes, bytes, n_bytes);
    out->n_bytes += n_bytes;
    return SW_OK;
}

static sw_status print_quoted(const char *text, size_t n_bytes, sw_error *err) {
    char *quoted = malloc(6 * n_bytes + 3);
    if (!quoted)
        return sw_fail(err, SW_NO_MEMORY, "no memory for %zu bytes of text · shardwise generate",
                       n_bytes);
    fwrite(quoted, 1, sw_json_quote_bytes(text, n_bytes, quoted), stdout);
    free(quoted);
    return SW_OK;
}

static sw_status print_object(void *to, int64_t text, const sw_text_result *result, sw_error *err) {
    static const char *const reasons[] = {[SW_END_TOKENS] = "length",
                                          [SW_END_OF_TEXT] = "end",
                                          [SW_END_STOP] = "stop",
                                          [SW_END_SIGNAL] = "interrupted"};
    sw_text_output *out = to;
    const sw_prompt *p = prompt_of(out, text);
    const int64_t prompt = text / out->n_samples;
    fputs("{\"prompt\": ", stdout);
    sw_status status = print_quoted(p->text, p->n_bytes, err);
    fputs(", \"text\": ", stdout);
    if (!status)
        status = print_quoted(out->text ? out->text : "", out->n_bytes, err);
    printf(", \"prompt_index\": %" PRId64 ", \"sample\": %" PRId64 ", \"prompt_tokens\": %" PRId64
           ", \"tokens\": %" PRId64
           ", \"finish_reason\": \"%s\", \"context_slid\": %s, \"seed\": %" PRIu64 "}\n",
           prompt, text % out->n_samples, result->n_prompt_tokens, result->n_tokens,
           reasons[result->end], result->has_slid ? "true" : "false", out->seed + (uint64_t)prompt);
    free(out->text);
    out->text = NULL;
    out->n_bytes = out->capacity = 0;
    return status ? status : flush(err);
}

sw_text_sink sw_text_output_sink(sw_text_output *output) {
    if (output->is_json)
        return (sw_text_sink){
            .to = output, .text = keep_text, .end = print_object, .slides = tell_of_slide};
    return (sw_text_sink){.to = output,
                          .begin = begin_text,
                          .text = put_text,
                          .end = end_text,
                          .slides = tell_of_slide};
}
