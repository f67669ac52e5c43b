/* saved_run.h: a small model whose state is a formula, saved by any number of ranks.
 *
 * Every element of every state is a hash of what it is (kind, parameter, element, step), any bits
 * that 32 can be, so whoever reads it knows what it must be, and nothing that is out of place can
 * look right.
 */
#ifndef TESTS_CHECKPOINT_SAVED_RUN_H
#define TESTS_CHECKPOINT_SAVED_RUN_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "checkpoint/steps.h"

enum { MOST_RANKS = 8 };
static const unsigned ALL_ADAMW =
    1u << SW_STATE_MASTER | 1u << SW_STATE_FIRST_MOMENT | 1u << SW_STATE_SECOND_MOMENT;

typedef struct saved_run {
    sw_graph *graph;
    sw_layout layout; /* of n_ranks */
    int n_ranks;
    char folder[64];
    const sw_storage *storage;
    sw_retention retention;
    const char *model_config;
    unsigned kinds;
    bool leaves_out_frozen;
    /* of the save that goes on */
    int64_t step;
    double validation_loss;
    sw_error remark;
    sw_save *save[MOST_RANKS];
} saved_run;

static const sw_setting_text RUN_SETTINGS[] = {{"train.seed", "1234"},
                                               {"data.train", "[\"a\", \"b\\c\"]"}};

static inline uint32_t state_bits(sw_state_kind kind, int parameter, int64_t element,
                                  int64_t step) {
    uint64_t x = (uint64_t)element * 0x9e3779b97f4a7c15u ^ (uint64_t)parameter << 40 ^
                 (uint64_t)kind << 56 ^ (uint64_t)step << 20;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(x >> 32);
}

static inline sw_status fetch_state(void *from, sw_state_kind kind, int group,
                                    const sw_piece *piece, int64_t first, int64_t n, float *values,
                                    sw_error *err) {
    const saved_run *run = from;
    (void)err;
    assert_int_equal(run->layout.parameters[piece->parameter->id].group, group);
    assert_true(first >= 0 && n > 0 && first + n <= piece->length &&
                (kind == SW_STATE_MASTER || piece->parameter->is_trainable));
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = state_bits(kind, piece->parameter->id, piece->first + first + i, run->step);
        memcpy(&values[i], &bits, sizeof bits);
    }
    return SW_OK;
}

/* Odd sizes, a parameter smaller than a rank's part, one of several ranges (or of few bytes, where
 * there are many states to look at), a frozen one, and a name that JSON must escape. */
static inline sw_graph *make_run_graph(int64_t big_rows) {
    const struct {
        int unit;
        const char *name;
        int n_dimensions;
        int64_t dimension[2];
        bool is_frozen;
    } list[] = {
        {0, "wte.weight", 2, {257, 33}, false},      {1, "layers.0.norm", 1, {33}, false},
        {1, "layers.0.w\"1\"é", 2, {33, 71}, false}, {1, "layers.0.frozen", 2, {71, 33}, true},
        {1, "layers.0.tiny", 1, {3}, false},         {2, "layers.1.big", 2, {big_rows, 701}, false},
        {2, "layers.1.one", 1, {1}, false},          {0, "norm", 1, {33}, false},
    };
    sw_graph *graph;
    sw_error err;
    assert_int_equal(sw_graph_create(1, 8, &graph, &err), SW_OK);
    sw_unit *root = sw_unit_declare(graph, NULL, "model");
    sw_unit *units[] = {root, sw_unit_declare(graph, root, "layers.0"),
                        sw_unit_declare(graph, root, "layers.1")};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        sw_parameter *p =
            sw_parameter_declare(graph, units[list[i].unit], list[i].name, list[i].n_dimensions,
                                 list[i].dimension, SW_INIT_ZEROS, 0);
        assert_non_null(p);
        if (list[i].is_frozen)
            sw_parameter_freeze(p);
    }
    return graph;
}

enum { BIG_ROWS = 601, SKINNY_ROWS = 2 };

/* Many small saves go where a sync costs nothing. Takes the graph over. */
static inline void begin_run_with(saved_run *run, int n_ranks, sw_graph *graph, bool is_small) {
    sw_error err;
    *run = (saved_run){.n_ranks = n_ranks,
                       .storage = sw_storage_system(),
                       .kinds = ALL_ADAMW,
                       .validation_loss = NAN};
    run->graph = graph;
    assert_int_equal(sw_layout_create(run->graph, (sw_mesh[]){sw_mesh_flat(n_ranks)}, (sw_wrap){0},
                                      SW_BLOCK, &run->layout, &err),
                     SW_OK);
    is_small = is_small && access("/dev/shm", W_OK) == 0;
    strcpy(run->folder, is_small ? "/dev/shm/shardwise-run-XXXXXX" : "/tmp/shardwise-run-XXXXXX");
    assert_non_null(mkdtemp(run->folder));
}

static inline void begin_run_of(saved_run *run, int n_ranks, int64_t big_rows) {
    begin_run_with(run, n_ranks, make_run_graph(big_rows), big_rows < BIG_ROWS);
}

static inline void begin_run(saved_run *run, int n_ranks) {
    begin_run_of(run, n_ranks, BIG_ROWS);
}

static inline void close_saves(saved_run *run) {
    for (int r = run->n_ranks - 1; r >= 0; r--) {
        sw_save_close(run->save[r]);
        run->save[r] = NULL;
    }
}

static inline void end_run(saved_run *run) {
    char command[128];
    close_saves(run);
    snprintf(command, sizeof command, "rm -rf '%s'", run->folder);
    assert_int_equal(system(command), 0);
    sw_layout_free(&run->layout);
    sw_graph_free(run->graph);
}

/* The same folder and model, other ranks. */
static inline void change_ranks(saved_run *run, int n_ranks) {
    sw_error err;
    close_saves(run);
    sw_layout_free(&run->layout);
    run->n_ranks = n_ranks;
    assert_int_equal(sw_layout_create(run->graph, (sw_mesh[]){sw_mesh_flat(n_ranks)}, (sw_wrap){0},
                                      SW_BLOCK, &run->layout, &err),
                     SW_OK);
}

static inline sw_save_options save_options(saved_run *run, int rank) {
    return (sw_save_options){.storage = run->storage,
                             .folder = run->folder,
                             .graph = run->graph,
                             .layout = &run->layout,
                             .owner = rank,
                             .kinds = run->kinds,
                             .leaves_out_frozen = run->leaves_out_frozen,
                             .fetch = fetch_state,
                             .from = run,
                             .settings = RUN_SETTINGS,
                             .n_settings = 2,
                             .model_config = run->model_config,
                             .retention = run->retention};
}

static inline sw_status open_saves(saved_run *run, sw_error *err) {
    sw_status status = SW_OK;
    for (int r = 0; r < run->n_ranks && status == SW_OK; r++) {
        sw_save_options options = save_options(run, r);
        if (!run->save[r])
            status = sw_save_open(&options, &run->save[r], err);
    }
    return status;
}

/* The state with which a step is saved. */
enum { SAVED_STATE_BYTES = 64 };
static inline void saved_state(int64_t step, char state[SAVED_STATE_BYTES]) {
    snprintf(state, SAVED_STATE_BYTES, "{\"tokens\": %lld, \"text\": \"}\\\"{\"}",
             (long long)(step * 1000));
}

/* All ranks in turn. When one fails all abandon, rank 0 last. */
static inline sw_status try_save(saved_run *run, int64_t step, sw_error *err) {
    char state[SAVED_STATE_BYTES];
    run->step = step;
    saved_state(step, state);
    sw_status status = open_saves(run, err);
    if (status != SW_OK)
        return status;
    for (int r = run->n_ranks - 1; r >= 0; r--) { /* all begin, whatever happens on the others */
        sw_error other;
        sw_status begun = sw_save_begin(run->save[r], step, status == SW_OK ? err : &other);
        status = status == SW_OK ? begun : status;
    }
    for (int g = run->layout.n_groups - 1; g >= 0; g--)
        for (int r = 0; r < run->n_ranks && status == SW_OK; r++)
            status = sw_save_group(run->save[r], g, err);
    for (int r = 0; r < run->n_ranks && status == SW_OK; r++)
        status = sw_save_finish(run->save[r], err);
    if (status == SW_OK)
        status = sw_save_publish(run->save[0], &(sw_save_facts){state, run->validation_loss},
                                 &run->remark, err);
    for (int r = run->n_ranks - 1; r >= 0 && status != SW_OK; r--)
        sw_save_abandon(run->save[r]);
    return status;
}

static inline void save_step(saved_run *run, int64_t step) {
    sw_error err;
    if (try_save(run, step, &err) != SW_OK)
        fail_msg("%s", err.message);
}

static inline const char *step_folder(const saved_run *run, int64_t step) {
    static char path[SW_PATH_BYTES];
    assert_int_equal(sw_step_path(run->folder, step, path, NULL), SW_OK);
    return path;
}

static inline sw_checkpoint *open_step(const saved_run *run, int64_t step) {
    sw_checkpoint *checkpoint;
    sw_error err;
    if (sw_checkpoint_open(step_folder(run, step), &checkpoint, &err) != SW_OK)
        fail_msg("%s", err.message);
    return checkpoint;
}

/* The step of the newest good checkpoint; -1: there is none. */
static inline sw_status newest_good_step(const char *folder, int n_threads,
                                         sw_step_rejected_fn rejected, void *to, int64_t *step,
                                         sw_error *err) {
    sw_checkpoint *checkpoint;
    sw_status status = sw_steps_newest_good(folder, n_threads, rejected, to, &checkpoint, err);
    *step = checkpoint ? sw_checkpoint_step(checkpoint) : -1;
    sw_checkpoint_close(checkpoint);
    return status;
}

/* Every element of every state, read parameter by parameter. */
static inline void check_step(const saved_run *run, int64_t step) {
    sw_checkpoint *checkpoint = open_step(run, step);
    sw_checkpoint_reader *reader;
    sw_error err;
    assert_int_equal(sw_checkpoint_step(checkpoint), step);
    assert_int_equal(sw_checkpoint_compare(checkpoint, run->graph, run->kinds, &err), SW_OK);
    assert_int_equal(sw_checkpoint_reader_open(checkpoint, &reader, &err), SW_OK);
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++) {
        for (int p = 0; p < run->graph->parameters.n && run->kinds >> kind & 1; p++) {
            const sw_parameter *parameter = run->graph->parameters.item[p];
            if (kind != SW_STATE_MASTER && !parameter->is_trainable)
                continue;
            float *values = malloc((size_t)parameter->n_elements * sizeof *values);
            if (sw_checkpoint_read(reader, (sw_state_kind)kind, p, 0, parameter->n_elements, values,
                                   &err) != SW_OK)
                fail_msg("%s", err.message);
            for (int64_t i = 0; i < parameter->n_elements; i++) {
                uint32_t bits = state_bits((sw_state_kind)kind, p, i, step);
                if (memcmp(&bits, &values[i], sizeof bits) != 0)
                    fail_msg("kind %d, %s, element %lld", kind, parameter->name, (long long)i);
            }
            free(values);
        }
    }
    sw_checkpoint_reader_close(reader);
    sw_checkpoint_close(checkpoint);
}

/* The bytes of a file. Ownership: free. */
static inline char *file_bytes(const char *folder, const char *name, int64_t *bytes) {
    char path[SW_PATH_BYTES], *text;
    sw_error err;
    assert_int_equal(sw_path_join(path, folder, name, &err), SW_OK);
    if (sw_file_read(path, 1 << 30, &text, bytes, &err) != SW_OK)
        fail_msg("%s", err.message);
    return text;
}

#endif
