/* eval.c: shardwise eval: loss, perplexity and bits per byte of text; accuracy on multiple-choice
 * questions. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/stop_signal.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/eval_scores.h"
#include "config/check.h"
#include "embed/of_run.h"
#include "infer/score.h"
#include "train/train.h"

/* What the signal handler tells. */
static volatile sig_atomic_t stop_signal;

static void take_signal(int signal_number) {
    if (stop_signal)
        _exit(128 + signal_number);
    stop_signal = signal_number;
}

/* Called in a rank, which is another process. A terminal shows how far it is. */
static void show_progress(void *to, int64_t n_done, int64_t n_all) {
    if (isatty(fileno(to)))
        fprintf(to, "\r%" PRId64 " of %" PRId64 " %s%s", n_done, n_all,
                sw_text_noun(n_all, "row", "rows"), n_done == n_all ? "\r\033[K" : "");
}

static void tell(void *told, const char *line) {
    (void)told;
    sw_print_warning(line);
}

/* What the run says; whatever the flags say stays. */
static sw_status from_run(const char *path, sw_settings *settings, char model[SW_PATH_BYTES],
                          char day[SW_CHAT_TIME_BYTES], sw_score_options *o, sw_error *err) {
    sw_status status = sw_settings_read(path, NULL, 0, settings, err);
    return status ? status : sw_score_of_run(settings, model, day, o, err);
}

static bool is_run(const char *path) {
    size_t n = strlen(path);
    return (n > 5 && !strcmp(path + n - 5, ".yaml")) || (n > 4 && !strcmp(path + n - 4, ".yml"));
}

static sw_status eval(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, goes_on, as_json = false;
    sw_flag_texts data = {.n = 0};
    const char *choices_path = NULL, *adapter = NULL, *dtype = "fp32";
    int64_t sequence_length = 0, stride = 0, n_ranks = 1, most_rows = 0;
    sw_chat_options chat = {.format = NULL};
    const sw_flag flags[] = {
        {"--adapter", "DIR", "a PEFT adapter for the model; it is added to the weights in memory",
         SW_FLAG_TEXT, &adapter},
        {"--data", "FILE",
         "text (.txt, .jsonl) or tokens (.npy) to predict; may be given several times",
         SW_FLAG_TEXTS, &data},
        {"--choices", "FILE", "a .jsonl file of {\"prompt\", \"choices\", \"answer\"}",
         SW_FLAG_TEXT, &choices_path},
        {"--sequence-length", "L", "tokens in a row (default 1024, or as many as the model takes)",
         SW_FLAG_COUNT, &sequence_length, 1, 1e9},
        {"--stride", "N",
         "tokens from the start of one row to the start of the next (default L: rows do not "
         "overlap); with fewer, all but "
         "the first N tokens are predicted from at least L - N before them",
         SW_FLAG_COUNT, &stride, 1, 1e9},
        {"--rows", "N", "at most N rows of each file (default: all)", SW_FLAG_COUNT, &most_rows, 1,
         1e18},
        {"--ranks", "N", "split the model over N processes (default 1)", SW_FLAG_COUNT, &n_ranks, 1,
         256},
        {"--dtype", "TYPE", "of the weights in memory: fp32 or bf16 (default fp32)", SW_FLAG_TEXT,
         &dtype},
        {"--chat-format", "NAME", "the format of conversations (default auto: the model's own)",
         SW_FLAG_TEXT, &chat.format},
        {"--chat-template", "FILE", "a Jinja template to use in place of the model's", SW_FLAG_TEXT,
         &chat.template_path},
        {"--now", "TIME",
         "the time that a chat template sees as now: 2025-06-30 or 2025-06-30 12:00:00 (default: "
         "the run's, else today)",
         SW_FLAG_TEXT, &chat.now},
        {"--json", NULL, "print one JSON object", SW_FLAG_SWITCH, &as_json},
        {"--help", NULL, "print this help", SW_FLAG_SWITCH, &help},
    };
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    sw_settings settings = {0};
    sw_source_score *scores = NULL;
    sw_choices_score choices = {0};
    char model[SW_PATH_BYTES], day[SW_CHAT_TIME_BYTES];
    const char **others;
    int n_others;
    sw_status status = sw_arguments_begin(&sw_verb_eval, n_arguments, arguments, flags, N_FLAGS, 1,
                                          "shardwise eval runs/x/model --data held-out.txt",
                                          &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&sw_verb_eval, flags, N_FLAGS);
    if (status || !goes_on)
        goto done;
    sw_score_options options = {.model = {.folder = others[0], .adapter = adapter},
                                .paths = data.item,
                                .n_paths = data.n,
                                .choices = choices_path,
                                .sequence_length = sequence_length,
                                .stride = stride,
                                .most_rows = most_rows,
                                .chat = chat,
                                .n_ranks = (int)n_ranks,
                                .parameter_dtype = strcmp(dtype, "bf16") ? SW_F32 : SW_BF16,
                                .progress = show_progress,
                                .progress_to = stderr,
                                .tell = tell,
                                .stop_signal = &stop_signal};
    if (n_others > 1)
        status =
            sw_fail(err, SW_BAD_CONFIG,
                    "%.100s: only one model can be given · shardwise eval · give data with --data",
                    others[1]);
    else if (strcmp(dtype, "fp32") && strcmp(dtype, "bf16"))
        status = sw_fail(err, SW_BAD_CONFIG, "--dtype is fp32 or bf16, not %.100s · shardwise eval",
                         dtype);
    else if (is_run(others[0]))
        status = from_run(others[0], &settings, model, day, &options, err);
    if (!status && !options.n_paths && !options.choices)
        status = sw_fail(
            err, SW_BAD_CONFIG,
            "there is nothing to evaluate · shardwise eval · write --data FILE or --choices FILE");
    if (!status && !(scores = calloc((size_t)options.n_paths + 1, sizeof *scores)))
        status = sw_fail(err, SW_NO_MEMORY, "no memory for the scores · shardwise eval");
    if (status)
        goto done;
    sw_stop_watch(take_signal);
    status = sw_score(&options, scores, &choices, err);
    if (!status && as_json)
        status = sw_print_scores_json(&options, scores, &choices, err);
    else if (!status)
        sw_print_scores(&options, scores, &choices);
done:
    free(scores);
    sw_settings_free(&settings);
    free(others);
    return status;
}

const sw_verb sw_verb_eval = {"eval", "MODEL_DIR|RUN.yaml --data FILE",
                              "loss, perplexity, bits per byte; accuracy on choices", eval};
