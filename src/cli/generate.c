/* generate.c: shardwise generate: text from a trained model, as it is produced. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/stop_signal.h"
#include "cli/command.h"
#include "cli/fresh_line.h"
#include "cli/show_texts.h"

/* What the signal handler tells. */
static volatile sig_atomic_t stop_signal;

static void take_signal(int signal_number) {
    if (stop_signal)
        _exit(128 + signal_number);
    stop_signal = signal_number;
}

static sw_status generate(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, is_greedy = false, goes_on;
    bool passes_end = false, is_chat = false, is_json = false;
    const char *prompts_path = NULL, *adapter = NULL, *dtype = "fp32", *system_text = NULL;
    sw_chat_options chat = {.format = "auto"};
    sw_flag_texts set = {.n = 0};
    sw_flag_texts prompts = {.n = 0}, stops = {.n = 0};
    sw_prompts list = {.n = 0};
    int64_t max_tokens = 200, top_k = 0, seed = 1234, n_ranks = 1, n_rows = 0, n_samples = 1;
    double temperature = -1, top_p = 1, min_p = 0,
           penalty = 1; /* a temperature that is not given is 1, or 0 with --greedy */
    const sw_flag flags[] = {
        {"--adapter", "DIR", "a PEFT adapter for the model; it is added to the weights in memory",
         SW_FLAG_TEXT, &adapter},
        {"--prompt", "TEXT",
         "the text to continue, taken as it is; may be given several times; without it, or with -: "
         "standard input",
         SW_FLAG_TEXTS, &prompts},
        {"--prompts", "FILE", "more prompts, one on each line; -: from standard input",
         SW_FLAG_TEXT, &prompts_path},
        {"-n", "N", "texts for each prompt (default 1)", SW_FLAG_COUNT, &n_samples, 1, 1e6},
        {"--max-tokens", "N", "stop after N tokens (default 200)", SW_FLAG_COUNT, &max_tokens, 1,
         1e9},
        {"--temperature", "X",
         "below 1: more predictable text, above 1: more varied text (default 1)", SW_FLAG_REAL,
         &temperature, 0, 100},
        {"--top-k", "K", "choose among the K likeliest tokens (default 0: all)", SW_FLAG_COUNT,
         &top_k, 0, 1e9},
        {"--top-p", "P",
         "choose among the likeliest tokens whose probabilities add up to P (default 1: all)",
         SW_FLAG_REAL, &top_p, 0, 1},
        {"--min-p", "P",
         "choose among the tokens at least P times as likely as the likeliest one (default 0: all)",
         SW_FLAG_REAL, &min_p, 0, 1},
        {"--repetition-penalty", "X",
         "above 1: tokens that are in the text already become less likely (default 1)",
         SW_FLAG_REAL, &penalty, 0, 1000},
        {"--seed", "S", "the same seed gives the same text (default 1234)", SW_FLAG_COUNT, &seed, 0,
         9e18},
        {"--greedy", NULL, "always choose the likeliest token", SW_FLAG_SWITCH, &is_greedy},
        {"--chat", NULL, "the prompt is a user's message to a chat model; print the answer",
         SW_FLAG_SWITCH, &is_chat},
        {"--system", "TEXT", "the system message, with --chat", SW_FLAG_TEXT, &system_text},
        {"--chat-format", "NAME",
         "chatml, llama2, llama3, mistral, mistral-v1, zephyr or gemma (default auto: the model's "
         "own)",
         SW_FLAG_TEXT, &chat.format},
        {"--chat-template", "FILE", "a Jinja template to use in place of the model's", SW_FLAG_TEXT,
         &chat.template_path},
        {"--set", "NAME=VALUE",
         "a variable for the chat template, such as enable_thinking=false; may be given several "
         "times",
         SW_FLAG_TEXTS, &set},
        {"--stop", "TEXT", "stop before this text; may be given several times", SW_FLAG_TEXTS,
         &stops},
        {"--ignore-end", NULL, "continue after the model's end-of-text token", SW_FLAG_SWITCH,
         &passes_end},
        {"--ranks", "N", "split the model over N processes (default 1)", SW_FLAG_COUNT, &n_ranks, 1,
         256},
        {"--batch", "N", "texts generated at the same time on each rank (default 8)", SW_FLAG_COUNT,
         &n_rows, 1, 256},
        {"--dtype", "TYPE", "of the weights in memory: fp32 or bf16 (default fp32)", SW_FLAG_TEXT,
         &dtype},
        {"--json", NULL, "print one JSON object for each text", SW_FLAG_SWITCH, &is_json},
        {"--help", NULL, "print this help", SW_FLAG_SWITCH, &help},
    };
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    const char **others;
    int n_others;
    sw_status status = sw_arguments_begin(&sw_verb_generate, n_arguments, arguments, flags, N_FLAGS,
                                          1, "shardwise generate runs/x/model --prompt \"Once\"",
                                          &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&sw_verb_generate, flags, N_FLAGS);
    if (status || !goes_on)
        goto done;
    if (n_others > 1)
        status = sw_fail(
            err, SW_BAD_CONFIG,
            "%.100s: only one folder can be given · shardwise generate · put the prompt in quotes",
            others[1]);
    else if (strcmp(dtype, "fp32") && strcmp(dtype, "bf16"))
        status = sw_fail(err, SW_BAD_CONFIG,
                         "--dtype is fp32 or bf16, not %.100s · shardwise generate", dtype);
    else if (is_greedy && temperature > 0)
        status = sw_fail(
            err, SW_BAD_CONFIG,
            "--greedy and --temperature are both given · shardwise generate · keep one of them");
    else if (is_greedy && n_samples > 1)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "--greedy gives the same text every time, and -n asks for %" PRId64
                         " · shardwise generate · keep one of them",
                         n_samples);
    else if (penalty == 0)
        status =
            sw_fail(err, SW_BAD_CONFIG,
                    "--repetition-penalty takes a number above 0 (1: none) · shardwise generate");
    if (!status)
        status = sw_prompts_collect(&prompts, prompts_path, &list, err);
    if (status)
        goto done;
    sw_stop_watch(take_signal);
    sw_text_line_watch();
    signal(SIGPIPE, SIG_IGN); /* a reader that leaves is an error of writing */
    chat.set = set.item;
    chat.n_set = set.n;
    sw_text_output out = {.prompts = &list,
                          .n_samples = n_samples,
                          .seed = (uint64_t)seed,
                          .is_chat = is_chat,
                          .is_json = is_json};
    sw_generate_options options = {
        .model = {.folder = others[0], .adapter = adapter},
        .prompts = list.item,
        .n_prompts = list.n,
        .n_samples = n_samples,
        .max_tokens = max_tokens,
        .temperature = is_greedy         ? 0
                       : temperature < 0 ? 1
                                         : temperature,
        .top_k = top_k,
        .top_p = top_p,
        .min_p = min_p,
        .repetition_penalty = penalty,
        .seed = (uint64_t)seed,
        .stops = stops.item,
        .n_stops = stops.n,
        .is_chat = is_chat,
        .system = system_text,
        .chat = chat,
        .passes_end = passes_end,
        .n_ranks = (int)n_ranks,
        .n_rows = n_rows,
        .parameter_dtype = strcmp(dtype, "bf16") ? SW_F32 : SW_BF16,
        .sink = sw_text_output_sink(&out),
        .stop_signal = &stop_signal,
    };
    status = sw_generate(&options, err);
done:
    sw_prompts_free(&list);
    free(others);
    return status;
}

const sw_verb sw_verb_generate = {"generate", "MODEL_DIR --prompt TEXT",
                                  "generate text with a trained model", generate};
