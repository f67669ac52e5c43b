/* A real model: SmolLM2-135M-Instruct, against what PyTorch makes. Runs where SW_SMOLLM2 names its
 * folder, else is skipped. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "infer/decoder.h"
#include "infer/generate.h"

#include "run/smollm2.h"
#include "support/comm_ranks.h"

#define COUNT(list) ((int64_t)(sizeof(list) / sizeof *(list)))

enum { N_PROMPTS = 3, N_NEW = COUNT(continuation_0) };

typedef struct taken {
    int32_t ids[N_PROMPTS][N_NEW];
    int n[N_PROMPTS];
} taken;

static void take_token(void *to, int64_t prompt, int32_t id) {
    taken *t = to;
    if (t->n[prompt] < N_NEW)
        t->ids[prompt][t->n[prompt]++] = id;
}

static void greedy_continuations_are_those_of_pytorch(void **state) {
    (void)state;
    const char *folder = getenv("SW_SMOLLM2");
    if (!folder)
        skip();
    const sw_prompt prompts[N_PROMPTS] = {{.ids = prompt_0, .n_ids = COUNT(prompt_0)},
                                          {.ids = prompt_1, .n_ids = COUNT(prompt_1)},
                                          {.ids = prompt_2, .n_ids = COUNT(prompt_2)}};
    const int32_t *const expected[N_PROMPTS] = {continuation_0, continuation_1, continuation_2};
    for (int n_ranks = 1; n_ranks <= 2; n_ranks++) {
        taken t = {.n = {0}};
        sw_error err;
        const sw_generate_options options = {.model = {.folder = folder},
                                             .prompts = prompts,
                                             .n_prompts = N_PROMPTS,
                                             .max_tokens = N_NEW,
                                             .top_p = 1,
                                             .passes_end = true,
                                             .n_ranks = n_ranks,
                                             .parameter_dtype = SW_F32,
                                             .as_threads = true,
                                             .sink = {.to = &t, .token = take_token}};
        if (sw_generate(&options, &err))
            fail_msg("%s", err.message);
        for (int p = 0; p < N_PROMPTS; p++) {
            assert_int_equal(t.n[p], N_NEW);
            assert_memory_equal(t.ids[p], expected[p], sizeof t.ids[p]);
        }
    }
}

static double log_probability(const float *logits, int64_t n, int32_t id) {
    double most = logits[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        most = fmax(most, (double)logits[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - most);
    return (double)logits[id] - most - log(sum);
}

static sw_status score_passage(sw_comm *comm, void *arg, sw_error *err) {
    sw_decoder *decoder = arg;
    const float *logits;
    RANK_TRY(sw_decoder_open(decoder, comm, err));
    for (int32_t t = 0; t + 1 < COUNT(passage); t++) {
        RANK_TRY(sw_decoder_step(decoder, &passage[t], &t, &logits, err));
        double found = log_probability(logits, decoder->runner.model.vocabulary, passage[t + 1]);
        if (!(fabs(found - passage_log_probabilities[t]) <= 1e-3))
            return sw_fail(err, SW_BUG, "token %d: log-probability %.6f, not %.6f", t + 1, found,
                           passage_log_probabilities[t]);
    }
    sw_decoder_close(decoder);
    return SW_OK;
}

static void log_probabilities_of_a_passage_are_those_of_pytorch(void **state) {
    (void)state;
    const char *folder = getenv("SW_SMOLLM2");
    if (!folder)
        skip();
    sw_error err;
    sw_decoder decoder;
    sw_launch_options launch = SW_LAUNCH_OPTIONS_INIT;
    const sw_decoder_choice choice = {{.folder = folder}, 1, 1, COUNT(passage), SW_F32};
    if (sw_decoder_create(&choice, &decoder, &err) ||
        sw_launch(&launch, score_passage, &decoder, &err))
        fail_msg("%s", err.message);
    sw_decoder_free(&decoder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_continuations_are_those_of_pytorch),
        cmocka_unit_test(log_probabilities_of_a_passage_are_those_of_pytorch),
    };
    return cmocka_run_group_tests_name("smollm2", tests, NULL, NULL);
}
