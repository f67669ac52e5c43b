/* generate.c: shardwise generate: text from a trained model, as it is produced. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/stop_signal.h"
#include "cli/command.h"
#include "cli/fresh_line.h"
#include "run/generate.h"

/* What the signal handler tells. */
static volatile sig_atomic_t stop_signal;

static void take_signal(int signal_number) {
    if (stop_signal)
        _exit(128 + signal_number);
    stop_signal = signal_number;
}

typedef struct text_out {
    FILE *file;
    const sw_prompt *prompts;
    int64_t n_prompts;
    bool is_chat;
    bool has_slid; /* a text, and it was said */
} text_out;

/* A terminal is spared what would move its cursor; a file gets the bytes as they are. */
static void put_bytes(FILE *file, const char *bytes, size_t n_bytes) {
    bool is_terminal = isatty(fileno(file));
    for (size_t i = 0; i < n_bytes; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        bool is_control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
        fputc(is_terminal && is_control ? '?' : byte, file);
    }
}

/* These four are called in a rank, which is another process. */
static sw_status put_text(void *to, int64_t prompt, const char *bytes, size_t n_bytes, sw_error *err) {
    text_out *out = to;
    (void)prompt;
    put_bytes(out->file, bytes, n_bytes);
    if (n_bytes)
        sw_text_line_ended(bytes[n_bytes - 1] == '\n');
    if (fflush(out->file))
        return sw_fail(err, SW_NO_SPACE, "the text could not be written: %s · standard output · %s", strerror(errno),
                       errno == EPIPE ? "its reader is gone" : "is the disk full?");
    return SW_OK;
}

static sw_status begin_text(void *to, int64_t prompt, sw_error *err) {
    const text_out *out = to;
    const sw_prompt *p = &out->prompts[prompt];
    return out->is_chat ? SW_OK : put_text(to, prompt, p->text, p->n_bytes, err);
}

static void end_text(void *to, int64_t prompt, sw_text_end end) {
    text_out *out = to;
    (void)end;
    put_bytes(out->file, "\n---\n", prompt + 1 < out->n_prompts ? 5 : 1);
    sw_text_line_ended(true);
    fflush(out->file);
}

static void tell_of_slide(void *to, int64_t prompt, int64_t n_positions) {
    text_out *out = to;
    char text[SW_MESSAGE_BYTES];
    if (out->has_slid)
        return;
    snprintf(text, sizeof text,
             "the text of prompt %" PRId64 " has outgrown the model's %" PRId64
             " positions: from there on each token follows from the latest half of it alone · fewer --max-tokens or a shorter "
             "prompt keep all of it in sight",
             prompt + 1, n_positions);
    sw_print_warning(text);
    out->has_slid = true;
}

/* Prompts of --prompt, then the lines of the file. Ownership: free() *prompts and *text. */
static sw_status collect_prompts(const sw_flag_texts *given, const char *path, sw_prompt **prompts, int64_t *n_prompts,
                                 char **text, sw_error *err) {
    int64_t n_lines = 0, n_bytes = 0;
    sw_status status = path ? sw_file_read(path, INT64_C(1) << 30, text, &n_bytes, err) : SW_OK;
    for (int64_t i = 0; i < n_bytes && !status; i++)
        n_lines += (*text)[i] == '\n';
    *prompts = calloc((size_t)(given->n + n_lines + 1), sizeof **prompts);
    if (!status && !*prompts)
        status = sw_fail(err, SW_NO_MEMORY, "no memory for %" PRId64 " prompts · shardwise generate", given->n + n_lines);
    *n_prompts = 0;
    for (int i = 0; i < given->n && !status; i++)
        (*prompts)[(*n_prompts)++] = (sw_prompt){.text = given->item[i], .n_bytes = strlen(given->item[i])};
    for (char *line = *text, *end = line ? line + n_bytes : NULL; line < end && !status;) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        if (stop > line)
            (*prompts)[(*n_prompts)++] = (sw_prompt){.text = line, .n_bytes = (size_t)(stop - line)};
        line = stop + 1;
    }
    return status;
}

static sw_status generate(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, is_greedy = false, goes_on;
    bool passes_end = false, is_chat = false;
    const char *prompts_path = NULL, *adapter = NULL, *dtype = "fp32", *chat_format = "auto", *system_text = NULL;
    sw_flag_texts prompts = {.n = 0}, stops = {.n = 0};
    sw_prompt *list = NULL;
    char *text = NULL;
    int64_t max_tokens = 200, top_k = 0, seed = 1234, n_ranks = 1, n_rows = 0, n_prompts = 0;
    double temperature = -1, top_p = 1; /* a temperature that is not given is 1, or 0 with --greedy */
    const sw_flag flags[] = {
        {"--adapter", "DIR", "a PEFT adapter for the model, added to its weights in memory", SW_FLAG_TEXT, &adapter},
        {"--prompt", "TEXT", "the text to go on from, taken as it is; may be given several times", SW_FLAG_TEXTS, &prompts},
        {"--prompts", "FILE", "more prompts, one a line", SW_FLAG_TEXT, &prompts_path},
        {"--max-tokens", "N", "tokens to produce at most; 200", SW_FLAG_COUNT, &max_tokens, 1, 1e9},
        {"--temperature", "X", "below 1 likelier text, above 1 more varied; 1", SW_FLAG_REAL, &temperature, 0, 100},
        {"--top-k", "K", "choose among the K likeliest tokens; 0: all", SW_FLAG_COUNT, &top_k, 0, 1e9},
        {"--top-p", "P", "choose among the likeliest tokens that together reach P; 1: all", SW_FLAG_REAL, &top_p, 0, 1},
        {"--seed", "S", "the same seed gives the same text; 1234", SW_FLAG_COUNT, &seed, 0, 9e18},
        {"--greedy", NULL, "always the likeliest token", SW_FLAG_SWITCH, &is_greedy},
        {"--chat", NULL, "a prompt is what a user says; the answer is shown", SW_FLAG_SWITCH, &is_chat},
        {"--system", "TEXT", "what the assistant is told before, with --chat", SW_FLAG_TEXT, &system_text},
        {"--chat-format", "NAME", "chatml, llama2, llama3, mistral, zephyr, gemma; auto: the model's own", SW_FLAG_TEXT,
         &chat_format},
        {"--stop", "TEXT", "end before this text; may be given several times", SW_FLAG_TEXTS, &stops},
        {"--ignore-end", NULL, "go on after the model's end-of-text token", SW_FLAG_SWITCH, &passes_end},
        {"--ranks", "N", "processes that the model is split over; 1", SW_FLAG_COUNT, &n_ranks, 1, 256},
        {"--batch", "N", "texts that grow at once on each rank; 8", SW_FLAG_COUNT, &n_rows, 1, 256},
        {"--dtype", "TYPE", "of the weights in memory: fp32 or bf16; fp32", SW_FLAG_TEXT, &dtype},
        {"--help", NULL, "this text", SW_FLAG_SWITCH, &help},
    };
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    const char **others;
    int n_others;
    sw_status status = sw_arguments_begin(&sw_verb_generate, n_arguments, arguments, flags, N_FLAGS, 1,
                                          "shardwise generate runs/x/model --prompt \"Once\"", &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&sw_verb_generate, flags, N_FLAGS);
    if (status || !goes_on)
        goto done;
    if (n_others > 1)
        status =
            sw_fail(err, SW_BAD_CONFIG, "%.100s: one folder is taken · shardwise generate · put the prompt in quotes", others[1]);
    else if (!prompts.n && !prompts_path)
        status = sw_fail(err, SW_BAD_CONFIG, "there is no text to go on from · shardwise generate · write --prompt TEXT");
    else if (strcmp(dtype, "fp32") && strcmp(dtype, "bf16"))
        status = sw_fail(err, SW_BAD_CONFIG, "--dtype is fp32 or bf16, not %.100s · shardwise generate", dtype);
    else if (is_greedy && temperature > 0)
        status = sw_fail(err, SW_BAD_CONFIG, "--greedy and --temperature are both given · shardwise generate · keep one of them");
    if (!status)
        status = collect_prompts(&prompts, prompts_path, &list, &n_prompts, &text, err);
    for (int64_t i = 0; i < n_prompts && !status; i++)
        if (!list[i].n_bytes)
            status = sw_fail(err, SW_BAD_CONFIG, "a prompt is empty · shardwise generate · write --prompt TEXT");
    if (!status && !n_prompts)
        status = sw_fail(err, SW_BAD_CONFIG, "%.200s: no line of it holds a prompt · shardwise generate", prompts_path);
    if (status)
        goto done;
    sw_stop_watch(take_signal);
    sw_text_line_watch();
    signal(SIGPIPE, SIG_IGN); /* a reader that leaves is an error of writing */
    text_out out = {stdout, list, n_prompts, is_chat, false};
    sw_generate_options options = {
        .model = others[0],
        .adapter = adapter,
        .prompts = list,
        .n_prompts = n_prompts,
        .max_tokens = max_tokens,
        .temperature = is_greedy         ? 0
                       : temperature < 0 ? 1
                                         : temperature,
        .top_k = top_k,
        .top_p = top_p,
        .seed = (uint64_t)seed,
        .stops = stops.item,
        .n_stops = stops.n,
        .is_chat = is_chat,
        .system = system_text,
        .chat_format = chat_format,
        .passes_end = passes_end,
        .n_ranks = (int)n_ranks,
        .n_rows = n_rows,
        .parameter_dtype = strcmp(dtype, "bf16") ? SW_F32 : SW_BF16,
        .sink = {&out, begin_text, put_text, end_text, NULL, tell_of_slide},
        .stop_signal = &stop_signal,
    };
    status = sw_generate(&options, err);
done:
    free(list);
    free(text);
    free(others);
    return status;
}

const sw_verb sw_verb_generate = {"generate", "MODEL_DIR --prompt TEXT", "text from a trained model, sampled or greedy",
                                  generate};
