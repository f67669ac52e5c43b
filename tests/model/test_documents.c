/* test_documents.c: documents that share a row do not see each other: a row of two is two rows of
 * one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "device/cpu/open.h"
#include "model/model.h"
#include "support/gradient_check.h"
#include "support/small_models.h"

enum { FIRST = 4, SECOND = 5, ROW = FIRST + SECOND };

typedef struct step {
    sw_graph *graph;
    graph_interpreter it;
    double loss;
} step;

/* One step over `n_rows` rows of `n_tokens`, in double. */
static step run(const sw_device *device, const sw_model_config *config, int recompute,
                int64_t n_rows, int64_t n_tokens, const int32_t *tokens, const int32_t *targets,
                const int32_t *documents) {
    const gradient_check check = {.record = small_model_record,
                                  .about = config,
                                  .n_rows = n_rows,
                                  .n_tokens = n_tokens,
                                  .n_vocabulary = SMALL_MODEL_VOCABULARY,
                                  .recompute = recompute,
                                  .reuse_in_place = true};
    step s = {.graph = gradient_check_graph(&check, true)};
    s.it = graph_interpreter_create(s.graph, device, SW_NUMBERS_F64);
    graph_interpreter_fill_parameters(&s.it, 0.3);
    graph_interpreter_set_inputs(&s.it, tokens, targets);
    graph_interpreter_set_documents(&s.it, documents);
    s.loss = graph_interpreter_run(&s.it);
    return s;
}

static void free_step(step *s) {
    graph_interpreter_free(&s->it);
    sw_graph_free(s->graph);
}

/* 4 and 5 tokens, of which 3 and 4 are supervised. */
static const int32_t TOKENS[ROW] = {3, 1, 4, 1, 5, 9, 2, 6, 5},
                     TARGETS[ROW] = {1, 4, 1, -1, 9, 2, 6, 5, -1},
                     DOCUMENTS[ROW] = {0, 0, 0, 0, FIRST, FIRST, FIRST, FIRST, FIRST};

/* The same in two rows, the first one padded with a token that counts nothing and is of another
 * document. */
static const int32_t APART_TOKENS[2 * SECOND] = {3, 1, 4, 1, 0, 5, 9, 2, 6, 5},
                                      APART_TARGETS[2 * SECOND] = {1, 4, 1, -1, -1, 9, 2, 6, 5, -1},
                                      APART_DOCUMENTS[2 * SECOND] = {0, 0, 0, 0, 4};

static void a_row_of_two_documents_is_two_rows(void **state) {
    const sw_device *device = *state;
    for (int model = 0; model < N_SMALL_MODELS; model++)
        for (int recompute = 0; recompute < N_RECOMPUTE; recompute++) {
            sw_model_config config = SMALL_MODELS[model];
            config.keeps_documents_apart = true;
            sw_model_drop(&config, 0);
            step packed = run(device, &config, recompute, 1, ROW, TOKENS, TARGETS, DOCUMENTS);
            step apart = run(device, &config, recompute, 2, SECOND, APART_TOKENS, APART_TARGETS,
                             APART_DOCUMENTS);
            assert_true(packed.loss > 1 && fabs(packed.loss - apart.loss) <= 1e-12 * apart.loss);
            for (int p = 0; p < packed.graph->parameters.n; p++) {
                const int64_t n = packed.graph->parameters.item[p]->n_elements;
                double difference = 0, size = 0;
                for (int64_t i = 0; i < n; i++) {
                    const double a = graph_interpreter_gradient(&packed.it, p, i),
                                 b = graph_interpreter_gradient(&apart.it, p, i);
                    difference += (a - b) * (a - b);
                    size += b * b;
                }
                if (!(sqrt(difference) <= 1e-11 * (sqrt(size) + 1)))
                    fail_msg("%s: the gradient of %s differs by %g of %g", SMALL_MODEL_NAMES[model],
                             packed.graph->parameters.item[p]->name, sqrt(difference), sqrt(size));
            }
            free_step(&packed);
            free_step(&apart);
        }
}

/* The loss of the second document alone, to the bit, whatever stands in the first. */
static void tokens_of_one_document_change_no_bit_of_another(void **state) {
    const sw_device *device = *state;
    for (int model = 0; model < N_SMALL_MODELS; model++) {
        sw_model_config config = SMALL_MODELS[model];
        config.keeps_documents_apart = true;
        sw_model_drop(&config, 0);
        double loss[2];
        for (int other = 0; other < 2; other++) {
            int32_t tokens[ROW], targets[ROW];
            memcpy(tokens, TOKENS, sizeof tokens);
            memcpy(targets, TARGETS, sizeof targets);
            for (int i = 0; i < FIRST; i++) {
                tokens[i] = other ? 12 - i : tokens[i];
                targets[i] = -1;
            }
            step s = run(device, &config, RECOMPUTE_NOTHING, 1, ROW, tokens, targets, DOCUMENTS);
            loss[other] = s.loss;
            free_step(&s);
        }
        assert_memory_equal(&loss[0], &loss[1], sizeof loss[0]);
    }
}

static int open_device(void **state) {
    sw_error err = {0};
    return sw_cpu_open(&(sw_cpu_options){.set = sw_kernel_set_best()}, (sw_device **)state, &err);
}

static int close_device(void **state) {
    sw_device *device = *state;
    device->close(device);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_of_two_documents_is_two_rows),
        cmocka_unit_test(tokens_of_one_document_change_no_bit_of_another),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
