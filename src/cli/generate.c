/* generate.c: shardwise generate: text from a trained model, as it is produced. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
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
    const char *prompt; /* shown before the first token; NULL then */
} text_out;

/* A terminal is spared what would move its cursor; a file gets the bytes as they are. */
static void put_bytes(FILE *file, const char *bytes, int64_t n_bytes) {
    bool is_terminal = isatty(fileno(file));
    for (int64_t i = 0; i < n_bytes; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        bool is_control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
        fputc(is_terminal && is_control ? '?' : byte, file);
    }
}

/* Called in a rank, which is another process. */
static sw_status put_token(void *to, const char *bytes, int64_t n_bytes, sw_error *err) {
    text_out *out = to;
    if (out->prompt)
        put_bytes(out->file, out->prompt, (int64_t)strlen(out->prompt));
    out->prompt = NULL;
    put_bytes(out->file, bytes, n_bytes);
    if (fflush(out->file))
        return sw_fail(err, SW_NO_SPACE, "the text could not be written: %s · standard output · %s", strerror(errno),
                       errno == EPIPE ? "its reader is gone" : "is the disk full?");
    return SW_OK;
}

static sw_status generate(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, is_greedy = false, goes_on;
    const char *prompt = NULL;
    int64_t max_tokens = 200, top_k = 0, seed = 1234;
    double temperature = -1, top_p = 1; /* a temperature that is not given is 1, or 0 with --greedy */
    const sw_flag flags[] = {
        {"--prompt", "TEXT", "the text to go on from", SW_FLAG_TEXT, &prompt},
        {"--max-tokens", "N", "tokens to produce at most; 200", SW_FLAG_COUNT, &max_tokens, 1, 1e9},
        {"--temperature", "X", "below 1 likelier text, above 1 more varied; 1", SW_FLAG_REAL, &temperature, 0, 100},
        {"--top-k", "K", "choose among the K likeliest tokens; 0: all", SW_FLAG_COUNT, &top_k, 0, 1e9},
        {"--top-p", "P", "choose among the likeliest tokens that together reach P; 1: all", SW_FLAG_REAL, &top_p, 0, 1},
        {"--seed", "S", "the same seed gives the same text; 1234", SW_FLAG_COUNT, &seed, 0, 9e18},
        {"--greedy", NULL, "always the likeliest token", SW_FLAG_SWITCH, &is_greedy},
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
    else if (!prompt || !*prompt)
        status = sw_fail(err, SW_BAD_CONFIG, "there is no text to go on from · shardwise generate · write --prompt TEXT");
    else if (is_greedy && temperature > 0)
        status = sw_fail(err, SW_BAD_CONFIG, "--greedy and --temperature are both given · shardwise generate · keep one of them");
    if (status)
        goto done;
    struct sigaction action = {.sa_handler = take_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN); /* a reader that leaves is an error of writing */
    text_out out = {stdout, prompt};
    sw_generate_options options = {
        .model = others[0],
        .prompt = prompt,
        .max_tokens = max_tokens,
        .temperature = is_greedy         ? 0
                       : temperature < 0 ? 1
                                         : temperature,
        .top_k = top_k,
        .top_p = top_p,
        .seed = (uint64_t)seed,
        .produce = put_token,
        .to = &out,
        .stop_signal = &stop_signal,
    };
    status = sw_generate(&options, err);
    if (!status)
        putchar('\n');
done:
    free(others);
    return status;
}

const sw_verb sw_verb_generate = {"generate", "MODEL_DIR --prompt TEXT", "text from a trained model, sampled or greedy",
                                  generate};
