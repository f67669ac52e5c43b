/* Decoding over a cache gives the numbers of the forward pass over the whole row, however prompts
 * are cut into pieces, whatever rows lie beside a row, and on any number of ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "data/dataset.h"
#include "execute/masters.h"
#include "hf/model_files.h"
#include "infer/decoder.h"

#include "device/cpu/open.h"
#include "support/comm_ranks.h"

static const char *const models[] = {SW_SOURCE_FOLDER "/tests/golden/llama-untied",
                                     SW_SOURCE_FOLDER "/tests/golden/llama-tied",
                                     SW_SOURCE_FOLDER "/tests/golden/gpt2"};
enum {
    N_MODELS = sizeof models / sizeof *models,
    N_TOKENS = 60,
    MOST_VOCABULARY = 300,
    N_ROWS = 3
};

typedef struct logits_table {
    float at[N_ROWS][N_TOKENS][MOST_VOCABULARY]; /* after token t of row r; shared by all ranks */
} logits_table;

typedef struct decoding {
    char model[512];
    sw_model_config config;
    int32_t tokens[N_ROWS][N_TOKENS];
    sw_decoder decoder;
    sw_program whole; /* the forward pass over a row, without a cache */
    sw_states states;
    logits_table *reference, *decoded; /* shared */
} decoding;

static void read_tokens(decoding *c, const char *folder) {
    char path[600];
    const char *const paths[] = {path};
    sw_dataset *dataset;
    sw_error err;
    int32_t targets[N_TOKENS];
    snprintf(path, sizeof path, "%s/tokens.npy", folder);
    const sw_dataset_options options = {.paths = paths, .n_paths = 1, .sequence_length = N_TOKENS};
    assert_int_equal(sw_dataset_open(&options, &dataset, &err), SW_OK);
    for (int row = 0; row < N_ROWS; row++)
        assert_int_equal(sw_dataset_row(dataset, row, c->tokens[row], targets, NULL, &err), SW_OK);
    sw_dataset_close(dataset);
}

static sw_status whole_in_rank(sw_comm *comm, void *arg, sw_error *err) {
    decoding *c = arg;
    sw_device *device;
    sw_executor *executor;
    const sw_program *programs[] = {&c->whole};
    RANK_TRY(sw_cpu_open(&(sw_cpu_options){.set = sw_kernel_set_best(), .gemm = SW_GEMM_BLAS},
                         &device, err));
    RANK_TRY(sw_executor_create(comm, device, &c->states, programs, 1, &executor, err));
    sw_masters masters = {executor, &c->states, 0};
    RANK_TRY(sw_model_files_load(c->model, &c->config, c->states.layout, 0, sw_masters_put,
                                 &masters, NULL, err));
    RANK_TRY(sw_executor_publish(executor, err));
    for (int row = 0; row < N_ROWS; row++)
        for (int t = 0; t < N_TOKENS; t++) {
            sw_scalars scalars = {.position = t};
            memcpy(sw_executor_port(executor, 0, SW_PORT_TOKENS), c->tokens[row],
                   sizeof c->tokens[row]);
            RANK_TRY(sw_executor_forward(executor, 0, true, &scalars, err));
            memcpy(c->reference->at[row][t], sw_executor_port(executor, 0, SW_PORT_LOGITS),
                   (size_t)c->config.vocabulary * sizeof(float));
        }
    sw_executor_free(executor);
    device->close(device);
    return SW_OK;
}

/* The logits after every token by the forward pass alone. */
static void make_reference(decoding *c) {
    sw_error err = {SW_OK, ""};
    sw_graph *graph;
    sw_layout layout;
    const sw_sharding sharding = {.mesh = sw_mesh_flat(1),
                                  .n_threads = 1,
                                  .stage = 3,
                                  .accumulate_sharded = true,
                                  .parameter_dtype = SW_F32};
    sw_launch_options launch = SW_LAUNCH_OPTIONS_INIT;
    assert_int_equal(sw_graph_create(1, N_TOKENS, &graph, &err), SW_OK);
    assert_int_equal(sw_model_trace(&c->config, SW_ENDS_IN_LOGITS, graph, &err), SW_OK);
    assert_int_equal(sw_layout_create(graph, (sw_mesh[]){sw_mesh_flat(1)}, (sw_wrap){0}, SW_BLOCK,
                                      &layout, &err),
                     SW_OK);
    assert_int_equal(sw_states_create(&layout, &sharding, false, &c->states, &err), SW_OK);
    assert_int_equal(sw_program_create(graph, &c->states, &c->whole, &err), SW_OK);
    if (sw_launch(&launch, whole_in_rank, c, &err))
        fail_msg("%s", err.message);
    sw_program_free(&c->whole);
    sw_states_free(&c->states);
    sw_layout_free(&layout);
    sw_graph_free(graph);
}

/* Each rank decodes all rows: row r has a prompt of its own length, given piece by piece; then rows
 * grow side by side. */
static sw_status decode_in_rank(sw_comm *comm, void *arg, sw_error *err) {
    static const int64_t prompt[N_ROWS] = {1, 13,
                                           47}; /* within a short piece, two of them, a long one */
    decoding *c = arg;
    sw_decoder decoder = c->decoder;
    const size_t bytes = (size_t)c->config.vocabulary * sizeof(float);
    const float *logits;
    int64_t n[N_ROWS];
    RANK_TRY(sw_decoder_open(&decoder, comm, err));
    for (int row = 0; row < N_ROWS; row++)
        for (int64_t at = 0, n_taken; at < prompt[row]; at += n_taken) {
            RANK_TRY(sw_decoder_prompt(&decoder, row, at, prompt[row] - at, c->tokens[row] + at,
                                       &n_taken, &logits, err));
            if (comm->rank == comm->n_ranks - 1)
                memcpy(c->decoded->at[row][at + n_taken - 1], logits, bytes);
            n[row] = at + n_taken;
        }
    for (bool goes_on = true; goes_on;) {
        int32_t tokens[N_ROWS], positions[N_ROWS];
        goes_on = false;
        for (int row = 0; row < N_ROWS; row++) {
            positions[row] = n[row] < N_TOKENS ? (int32_t)n[row] : -1;
            tokens[row] = n[row] < N_TOKENS ? c->tokens[row][n[row]] : 0;
            goes_on = goes_on || n[row] < N_TOKENS;
        }
        if (goes_on)
            RANK_TRY(sw_decoder_step(&decoder, tokens, positions, &logits, err));
        for (int row = 0; row < N_ROWS; row++)
            if (positions[row] >= 0) {
                if (comm->rank == comm->n_ranks - 1)
                    memcpy(c->decoded->at[row][n[row]], logits + row * c->config.vocabulary, bytes);
                n[row]++;
            }
    }
    sw_decoder_close(&decoder);
    return SW_OK;
}

static void *shared(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

static void decode(decoding *c, int n_ranks) {
    sw_error err = {SW_OK, ""};
    sw_launch_options launch = SW_LAUNCH_OPTIONS_INIT;
    const sw_decoder_choice choice = {{.folder = c->model}, n_ranks, N_ROWS, N_TOKENS, SW_F32};
    launch.n_ranks = n_ranks;
    memset(c->decoded, 0, sizeof *c->decoded);
    if (sw_decoder_create(&choice, &c->decoder, &err) ||
        sw_launch(&launch, decode_in_rank, c, &err))
        fail_msg("%s", err.message);
    sw_decoder_free(&c->decoder);
}

static bool is_filled(const float *logits, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (logits[i] != 0)
            return true;
    return false;
}

static void cached_logits_are_those_of_the_whole_row(void **state) {
    (void)state;
    for (int m = 0; m < N_MODELS; m++) {
        decoding c = {.reference = shared(sizeof(logits_table)),
                      .decoded = shared(sizeof(logits_table))};
        logits_table *alone = malloc(sizeof *alone);
        sw_error err;
        snprintf(c.model, sizeof c.model, "%s/model", models[m]);
        read_tokens(&c, models[m]);
        assert_int_equal(sw_model_config_read(c.model, &c.config, &err), SW_OK);
        assert_in_range(c.config.vocabulary, 1, MOST_VOCABULARY);
        make_reference(&c);
        for (int n_ranks = 1; n_ranks <= 3; n_ranks++) {
            int n_compared = 0;
            decode(&c, n_ranks);
            for (int row = 0; row < N_ROWS; row++)
                for (int t = 0; t < N_TOKENS; t++) {
                    const float *expected = c.reference->at[row][t], *found = c.decoded->at[row][t];
                    if (!is_filled(found, c.config.vocabulary))
                        continue; /* inside a piece */
                    n_compared++;
                    for (int64_t i = 0; i < c.config.vocabulary; i++)
                        if (!(found[i] - expected[i] < 2e-4f && expected[i] - found[i] < 2e-4f))
                            fail_msg("%s, %d ranks, row %d after token %d, logit %d: %g, not %g",
                                     models[m], n_ranks, row, t, (int)i, (double)found[i],
                                     (double)expected[i]);
                }
            assert_int_equal(n_compared, 60 + 49 + 14);
            if (n_ranks == 1)
                *alone = *c.decoded;
            else
                assert_memory_equal(alone, c.decoded, sizeof *alone); /* ranks change no bit */
        }
        free(alone);
        munmap(c.reference, sizeof(logits_table));
        munmap(c.decoded, sizeof(logits_table));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cached_logits_are_those_of_the_whole_row),
    };
    return cmocka_run_group_tests_name("decoder", tests, NULL, NULL);
}
