/* Scores: golden losses on any number of ranks, and questions against log-probabilities that decoding gives. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "checkpoint/bytes_tokenizer.h"
#include "run/decoder.h"
#include "run/score.h"

#include "support/comm_ranks.h"

#define GOLDEN SW_SOURCE_FOLDER "/tests/golden/"

/* The loss before the first step, over one step's rows, is that of PyTorch in fp64 (fp64.steps[0].loss of expect.json). */
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
            const sw_score_options options = {.model = model,
                                              .paths = paths,
                                              .n_paths = 1,
                                              .sequence_length = cases[i].length,
                                              .most_rows = cases[i].rows,
                                              .chat_format = "auto",
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

/* ---- questions ---- */

static const char *const prompt = "Of these";
static const char *const texts[] = {" a", " short one", " one that is much longer than all of the others", "!"};
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
    char folder[] = "/tmp/shardwise-score-XXXXXX", path[600], command[700];
    sw_error err;
    asked a;
    sw_launch_options launch = SW_LAUNCH_OPTIONS_INIT;
    assert_non_null(mkdtemp(folder));
    copy_file(GOLDEN "llama-tied/model", folder, "config.json");
    copy_file(GOLDEN "llama-tied/model", folder, "model.safetensors");
    assert_int_equal(sw_bytes_tokenizer_write(folder, &err), SW_OK);
    a.totals = mmap(NULL, N_CHOICES * sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(a.totals, MAP_FAILED);
    const sw_decoder_choice choice = {folder, 1, 1, 100, SW_F32};
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
    fprintf(file, "{\"prompt\": \"%s\", \"choices\": [\"%s\", \"%s\"], \"answer\": 0}\n", prompt, texts[best_of(a.totals, true)],
            texts[(best_of(a.totals, true) + 1) % N_CHOICES]);
    fclose(file);
    for (int n_ranks = 1; n_ranks <= 3; n_ranks++) {
        sw_choices_score score;
        const sw_score_options options = {
            .model = folder, .choices = path, .chat_format = "auto", .n_ranks = n_ranks, .parameter_dtype = SW_F32};
        if (sw_score(&options, NULL, &score, &err))
            fail_msg("%s", err.message);
        assert_int_equal(score.n_questions, N_CHOICES + 1);
        assert_int_equal(score.n_right, 2); /* the one of four with the best choice, and the last */
        assert_int_equal(score.n_right_by_byte, 2);
        const int best = best_of(a.totals, true), other = (best + 1) % N_CHOICES;
        assert_int_equal(score.n_right_by_total, 1 + (a.totals[best] > a.totals[other]));
    }
    munmap(a.totals, N_CHOICES * sizeof(double));
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_of_pytorch_on_any_number_of_ranks),
        cmocka_unit_test(questions_are_won_by_the_likeliest_choice),
    };
    return cmocka_run_group_tests_name("score", tests, NULL, NULL);
}
