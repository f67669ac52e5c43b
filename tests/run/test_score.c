/* Scores: golden losses on any number of ranks, and questions against log-probabilities that
 * decoding gives. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "formats/npy.h"
#include "formats/npy_writer.h"
#include "hf/bytes_tokenizer.h"
#include "infer/decoder.h"
#include "infer/score.h"

#include "support/comm_ranks.h"
#include "support/folder.h"

#define GOLDEN SW_SOURCE_FOLDER "/tests/golden/"

/* The loss before the first step, over one step's rows, is that of PyTorch in fp64
 * (fp64.steps[0].loss of expect.json). */
static void losses_are_those_of_pytorch_on_any_number_of_ranks(void **state) {
    static const struct {
        const char *folder;
        int64_t length, rows;
        double loss;
    } cases[] = {
        {GOLDEN "llama-untied", 64, 8, 6.090617847555789},
        {GOLDEN "llama-tied", 64, 12, 6.757576064992515},
        {GOLDEN "gpt2", 64, 12, 5.588030346976243},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char model[512], data[512];
        const char *const paths[] = {data};
        double first = 0;
        snprintf(model, sizeof model, "%s/model", cases[i].folder);
        snprintf(data, sizeof data, "%s/tokens.npy", cases[i].folder);
        for (int n_ranks = 1; n_ranks <= 4; n_ranks++) {
            sw_error err;
            sw_source_score score;
            sw_choices_score choices;
            const sw_score_options options = {.model = {.folder = model},
                                              .paths = paths,
                                              .n_paths = 1,
                                              .sequence_length = cases[i].length,
                                              .most_rows = cases[i].rows,
                                              .chat = {.format = "auto"},
                                              .n_ranks = n_ranks,
                                              .parameter_dtype = SW_F32};
            if (sw_score(&options, &score, &choices, &err))
                fail_msg("%s", err.message);
            assert_int_equal(score.n_targets, cases[i].length * cases[i].rows);
            assert_int_equal(score.n_bytes, -1); /* no tokenizer */
            double loss = score.loss / (double)score.n_targets;
            if (!(fabs(loss - cases[i].loss) < 1e-5))
                fail_msg("%s: loss %.9f, not %.9f", model, loss, cases[i].loss);
            first = n_ranks == 1 ? score.loss : first;
            assert_memory_equal(&score.loss, &first, sizeof first); /* to the bit */
        }
    }
}

/* ---- windows ---- */

/* Model, is_causal, tokens, length, stride, loss in nats: what tests/run/make_windows.py prints. */
static const struct {
    const char *model;
    bool is_causal;
    int64_t n_tokens, length, stride;
    double loss;
} WINDOWS[] = {
    {"llama-tied", true, 200, 64, 64, 1340.6689636329493},
    {"llama-tied", true, 200, 64, 24, 1330.3775396076985},
    {"llama-tied", true, 200, 64, 63, 1318.2129975682271},
    {"llama-tied", true, 200, 17, 1, 1347.034279944803},
    {"llama-tied", true, 40, 64, 64, 252.66762820393245},
    {"llama-tied", false, 200, 64, 64, 1368.5076880002114},
    {"llama-tied", false, 200, 64, 24, 1367.8778948619054},
    {"llama-tied", false, 200, 64, 63, 1360.5322685026297},
    {"llama-tied", false, 200, 17, 1, 1346.8393377930784},
    {"llama-tied", false, 40, 64, 64, 266.4253758996525},
    {"gpt2", false, 200, 64, 64, 1105.8643985855476},
    {"gpt2", false, 200, 64, 24, 1111.0264277676963},
    {"gpt2", false, 200, 64, 63, 1112.2305265973596},
    {"gpt2", false, 200, 17, 1, 1112.5959571598357},
    {"gpt2", false, 40, 64, 64, 218.8750201782278},
    {"mistral-window", false, 200, 64, 64, 1228.5347087064306},
    {"mistral-window", false, 200, 64, 24, 1217.0867004208262},
    {"mistral-window", false, 200, 64, 63, 1221.0461153166118},
    {"mistral-window", false, 200, 17, 1, 1207.0351426819298},
    {"mistral-window", false, 40, 64, 64, 240.37256804432408},
};

static void in_folder(const char *folder, const char *name, char path[600]) {
    snprintf(path, 600, "%s/%s", folder, name);
}

/* The golden model in a folder of its own, with another mask, and its first tokens. */
static void make_window_case(const char *folder, const char *model, bool is_causal,
                             int64_t n_tokens) {
    char from[600], to[600];
    sw_error err;
    uint8_t bytes[SW_NPY_HEADER + 2 * 256]; /* of uint16 */
    sw_npy_writer writer;
    snprintf(from, sizeof from, GOLDEN "%s/model/model.safetensors", model);
    in_folder(folder, "model.safetensors", to);
    unlink(to);
    assert_int_equal(symlink(from, to), 0);
    snprintf(from, sizeof from, GOLDEN "%s/model/config.json", model);
    json_t *config = json_load_file(from, 0, NULL);
    json_object_set_new(config, "is_causal", json_boolean(is_causal));
    in_folder(folder, "config.json", to);
    assert_int_equal(json_dump_file(config, to, 0), 0);
    json_decref(config);
    snprintf(from, sizeof from, GOLDEN "%s/tokens.npy", model);
    in_folder(folder, "ids.npy", to);
    unlink(to);
    FILE *file = fopen(from, "rb");
    assert_non_null(file);
    assert_true(fread(bytes, 1, sizeof bytes, file) == sizeof bytes);
    fclose(file);
    assert_int_equal(sw_npy_open(&writer, to, SW_I32, &err), SW_OK);
    for (int64_t i = 0; i < n_tokens; i++)
        assert_int_equal(
            sw_npy_put(&writer, sw_npy_element(SW_U16, bytes + SW_NPY_HEADER, i), &err), SW_OK);
    assert_int_equal(sw_npy_finish(&writer, &err), SW_OK);
    assert_int_equal(sw_npy_publish(&writer, &err), SW_OK);
    sw_npy_close(&writer);
}

/* Of any length and stride, every token but the first is scored once, by both masks, and as
 * transformers does it; padding behind a short window is seen by nobody. */
static void windows_are_scored_as_transformers_does(void **state) {
    (void)state;
    char folder[FOLDER_BYTES], data[600];
    assert_true(folder_make(folder));
    in_folder(folder, "ids.npy", data);
    const char *const paths[] = {data};
    for (size_t i = 0; i < sizeof WINDOWS / sizeof *WINDOWS; i++) {
        make_window_case(folder, WINDOWS[i].model, WINDOWS[i].is_causal, WINDOWS[i].n_tokens);
        double first = 0;
        for (int n_ranks = 1; n_ranks <= 2; n_ranks++) {
            sw_error err;
            sw_source_score score;
            sw_choices_score choices;
            const sw_score_options options = {.model = {.folder = folder},
                                              .paths = paths,
                                              .n_paths = 1,
                                              .sequence_length = WINDOWS[i].length,
                                              .stride = WINDOWS[i].stride,
                                              .chat = {.format = "auto"},
                                              .n_ranks = n_ranks,
                                              .parameter_dtype = SW_F32};
            if (sw_score(&options, &score, &choices, &err))
                fail_msg("%s", err.message);
            assert_int_equal(score.n_targets, WINDOWS[i].n_tokens - 1);
            if (!(fabs(score.loss - WINDOWS[i].loss) < 2e-6 * WINDOWS[i].loss))
                fail_msg("%s, %s, length %d, stride %d: loss %.9f, not %.9f", WINDOWS[i].model,
                         WINDOWS[i].is_causal ? "causal" : "full", (int)WINDOWS[i].length,
                         (int)WINDOWS[i].stride, score.loss, WINDOWS[i].loss);
            first = n_ranks == 1 ? score.loss : first;
            assert_memory_equal(&score.loss, &first, sizeof first);
        }
    }
    assert_int_equal(folder_remove(folder), 0);
}

/* ---- questions ---- */

static const char *const prompt = "Of these";
static const char *const texts[] = {" a", " short one",
                                    " one that is much longer than all of the others", "!"};
enum { N_CHOICES = sizeof texts / sizeof *texts };

typedef struct asked {
    sw_decoder decoder;
    double *totals; /* [N_CHOICES], shared: log-probabilities of the choices */
} asked;

static sw_status ask(sw_comm *comm, void *arg, sw_error *err) {
    asked *a = arg;
    RANK_TRY(sw_decoder_open(&a->decoder, comm, err));
    for (int c = 0; c < N_CHOICES; c++) {
        char whole[128];
        snprintf(whole, sizeof whole, "%s%s", prompt, texts[c]);
        for (int32_t t = 0; whole[t + 1]; t++) {
            const int32_t id = (unsigned char)whole[t];
            const float *logits;
            double sum = 0;
            RANK_TRY(sw_decoder_step(&a->decoder, &id, &t, &logits, err));
            for (int64_t i = 0; i < a->decoder.runner.model.vocabulary; i++)
                sum += exp((double)logits[i]);
            if (t + 1 >= (int32_t)strlen(prompt))
                a->totals[c] += (double)logits[(unsigned char)whole[t + 1]] - log(sum);
        }
    }
    sw_decoder_close(&a->decoder);
    return SW_OK;
}

/* The likeliest by three measures; ids are bytes here. */
static int best_of(const double *totals, bool is_normalised) {
    int best = 0;
    double most = -INFINITY;
    for (int c = 0; c < N_CHOICES; c++) {
        double value = totals[c] / (is_normalised ? (double)strlen(texts[c]) : 1);
        if (value > most)
            most = value, best = c;
    }
    return best;
}

static void copy_file(const char *from, const char *folder, const char *name) {
    char to[600], command[1400];
    snprintf(to, sizeof to, "%s/%s", folder, name);
    snprintf(command, sizeof command, "cp '%s/%s' '%s'", from, name, to);
    assert_int_equal(system(command), 0);
}

static void questions_are_won_by_the_likeliest_choice(void **state) {
    (void)state;
    char folder[FOLDER_BYTES], path[600];
    sw_error err;
    asked a;
    sw_launch_options launch = SW_LAUNCH_OPTIONS_INIT;
    assert_true(folder_make(folder));
    copy_file(GOLDEN "llama-tied/model", folder, "config.json");
    copy_file(GOLDEN "llama-tied/model", folder, "model.safetensors");
    assert_int_equal(sw_bytes_tokenizer_write(folder, &err), SW_OK);
    a.totals = mmap(NULL, N_CHOICES * sizeof(double), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(a.totals, MAP_FAILED);
    const sw_decoder_choice choice = {{.folder = folder}, 1, 1, 100, SW_F32};
    if (sw_decoder_create(&choice, &a.decoder, &err) || sw_launch(&launch, ask, &a, &err))
        fail_msg("%s", err.message);
    sw_decoder_free(&a.decoder);

    snprintf(path, sizeof path, "%s/questions.jsonl", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int c = 0; c < N_CHOICES; c++) { /* each choice is the answer once */
        fprintf(file, "{\"prompt\": \"%s\", \"answer\": %d, \"choices\": [", prompt, c);
        for (int i = 0; i < N_CHOICES; i++)
            fprintf(file, "%s\"%s\"", i ? ", " : "", texts[i]);
        fprintf(file, "]}\n");
    }
    fprintf(file, "{\"prompt\": \"%s\", \"choices\": [\"%s\", \"%s\"], \"answer\": 0}\n", prompt,
            texts[best_of(a.totals, true)], texts[(best_of(a.totals, true) + 1) % N_CHOICES]);
    fclose(file);
    for (int n_ranks = 1; n_ranks <= 3; n_ranks++) {
        sw_choices_score score;
        const sw_score_options options = {.model = {.folder = folder},
                                          .choices = path,
                                          .chat = {.format = "auto"},
                                          .n_ranks = n_ranks,
                                          .parameter_dtype = SW_F32};
        if (sw_score(&options, NULL, &score, &err))
            fail_msg("%s", err.message);
        assert_int_equal(score.n_questions, N_CHOICES + 1);
        assert_int_equal(score.n_right, 2); /* the one of four with the best choice, and the last */
        assert_int_equal(score.n_right_by_byte, 2);
        const int best = best_of(a.totals, true), other = (best + 1) % N_CHOICES;
        assert_int_equal(score.n_right_by_total, 1 + (a.totals[best] > a.totals[other]));
    }
    munmap(a.totals, N_CHOICES * sizeof(double));
    assert_int_equal(folder_remove(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_of_pytorch_on_any_number_of_ranks),
        cmocka_unit_test(windows_are_scored_as_transformers_does),
        cmocka_unit_test(questions_are_won_by_the_likeliest_choice),
    };
    return cmocka_run_group_tests_name("score", tests, NULL, NULL);
}
