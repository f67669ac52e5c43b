/* test_save.c: a checkpoint of any number of ranks is the same files, whole or not there, and is
 * read by any number of ranks. */
#include "checkpoint/saved_run.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>

static const int RANKS[] = {1, 2, 3, 4, 7};

/* {1,2,3,4,7} ranks write, and the data files are equal byte for byte; sizes are those of the
 * model, without padding. */
static void files_do_not_depend_on_ranks(void **state) {
    (void)state;
    char *first[SW_N_STATE_KINDS] = {0};
    int64_t first_bytes[SW_N_STATE_KINDS];
    for (size_t i = 0; i < sizeof RANKS / sizeof *RANKS; i++) {
        saved_run run;
        begin_run(&run, RANKS[i]);
        save_step(&run, 20);
        for (int kind = 0; kind <= SW_STATE_SECOND_MOMENT; kind++) {
            int64_t bytes;
            char *text =
                file_bytes(step_folder(&run, 20), sw_state_file_name((sw_state_kind)kind), &bytes);
            if (!first[kind]) {
                first[kind] = text;
                first_bytes[kind] = bytes;
                continue;
            }
            assert_int_equal(bytes, first_bytes[kind]);
            assert_memory_equal(text, first[kind], (size_t)bytes);
            free(text);
        }
        check_step(&run, 20);
        end_run(&run);
    }
    uint64_t header;
    memcpy(&header, first[SW_STATE_MASTER], sizeof header);
    int64_t elements = 257 * 33 + 33 + 33 * 71 + 71 * 33 + 3 + 601 * 701 + 1 + 33;
    assert_int_equal(first_bytes[SW_STATE_MASTER], 8 + (int64_t)header + 4 * elements);
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
        free(first[kind]);
}

typedef struct loaded {
    const saved_run *run;
    int64_t n; /* elements that arrived */
    bool *has[SW_N_STATE_KINDS][16];
} loaded;

static sw_status put_state(void *to, sw_state_kind kind, int group, const sw_piece *piece,
                           int64_t first, int64_t n, float *values, sw_error *err) {
    loaded *l = to;
    (void)err;
    assert_int_equal(l->run->layout.parameters[piece->parameter->id].group, group);
    for (int64_t i = 0; i < n; i++) {
        int64_t element = piece->first + first + i;
        uint32_t bits = state_bits(kind, piece->parameter->id, element, 20);
        assert_memory_equal(&values[i], &bits, sizeof bits);
        bool *has = &l->has[kind][piece->parameter->id][element];
        assert_false(*has);
        *has = true;
        l->n++;
    }
    return SW_OK;
}

/* What N ranks saved, M ranks load: each element once, with its bits, and little more than a rank's
 * own bytes is read. */
static void any_number_of_ranks_loads_it(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    begin_run(&run, 4);
    for (size_t from = 0; from < sizeof RANKS / sizeof *RANKS; from++) {
        change_ranks(&run, RANKS[from]);
        save_step(&run, 20);
        for (size_t into = 0; into < sizeof RANKS / sizeof *RANKS; into++) {
            change_ranks(&run, RANKS[into]);
            sw_checkpoint *checkpoint = open_step(&run, 20);
            loaded l = {.run = &run};
            int64_t elements = 0, total = 0, bytes;
            for (int p = 0; p < run.graph->parameters.n; p++) {
                elements += run.graph->parameters.item[p]->n_elements *
                            (run.graph->parameters.item[p]->is_trainable ? 3 : 1);
                for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
                    l.has[kind][p] =
                        calloc((size_t)run.graph->parameters.item[p]->n_elements, sizeof(bool));
            }
            assert_int_equal(sw_checkpoint_compare(checkpoint, run.graph, ALL_ADAMW, &err), SW_OK);
            for (int rank = 0; rank < run.n_ranks; rank++) {
                if (sw_checkpoint_load(checkpoint, &run.layout, rank, ALL_ADAMW, put_state, &l,
                                       &bytes, &err) != SW_OK)
                    fail_msg("%s", err.message);
                total += bytes;
            }
            assert_int_equal(l.n, elements);
            /* A stretch has two ends, a range at each; groups x kinds stretches a rank, the root's
             * being two. */
            assert_true(total >= 4 * elements &&
                        total <= 4 * elements + (int64_t)run.n_ranks * 12 * 2 * SW_RANGE_BYTES);
            for (int p = 0; p < run.graph->parameters.n; p++)
                for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
                    free(l.has[kind][p]);
            sw_checkpoint_close(checkpoint);
        }
    }
    end_run(&run);
}

/* Ranks that share nothing but the folder may be anywhere in their part at any time. */
static void *save_one_rank(void *arg) {
    sw_save *save = arg;
    sw_error err;
    assert_int_equal(sw_save_begin(save, 300, &err), SW_OK);
    for (int g = 0; g < 4; g++)
        assert_int_equal(sw_save_group(save, g, &err), SW_OK);
    assert_int_equal(sw_save_finish(save, &err), SW_OK);
    return NULL;
}

static void ranks_as_threads_write_at_the_same_time(void **state) {
    (void)state;
    saved_run run;
    pthread_t thread[4];
    sw_error err;
    begin_run(&run, 4);
    assert_int_equal(run.layout.n_groups, 4);
    assert_int_equal(open_saves(&run, &err), SW_OK);
    run.step = 300;
    for (int r = 0; r < 4; r++)
        assert_int_equal(pthread_create(&thread[r], NULL, save_one_rank, run.save[r]), 0);
    for (int r = 0; r < 4; r++)
        pthread_join(thread[r], NULL);
    assert_int_equal(sw_save_publish(run.save[0], &(sw_save_facts){"{}", 2.5}, &run.remark, &err),
                     SW_OK);
    check_step(&run, 300);
    sw_checkpoint *checkpoint = open_step(&run, 300);
    assert_int_equal(sw_checkpoint_verify(checkpoint, 3, &err), SW_OK);
    assert_true(sw_checkpoint_validation_loss(checkpoint) == 2.5);
    sw_checkpoint_close(checkpoint);
    end_run(&run);
}

/* State, settings and the model's configuration come back as they were given. */
static void what_else_is_saved_comes_back(void **state) {
    (void)state;
    saved_run run;
    begin_run(&run, 2);
    run.model_config = "{\"model_type\": \"llama\",\n \"n\": 1e40}";
    save_step(&run, 12345678901);
    sw_checkpoint *checkpoint = open_step(&run, 12345678901);
    assert_string_equal(sw_checkpoint_model_config(checkpoint), run.model_config);
    assert_string_equal(sw_checkpoint_state(checkpoint),
                        "{\"tokens\": 12345678901000, \"text\": \"}\\\"{\"}");
    assert_int_equal(sw_checkpoint_n_settings(checkpoint), 2);
    assert_string_equal(sw_checkpoint_find_setting(checkpoint, "train.seed"), "1234");
    assert_string_equal(sw_checkpoint_find_setting(checkpoint, "data.train"), "[\"a\", \"b\\c\"]");
    assert_null(sw_checkpoint_find_setting(checkpoint, "data"));
    assert_true(isnan(sw_checkpoint_validation_loss(checkpoint)));
    assert_int_equal(sw_checkpoint_kinds(checkpoint), ALL_ADAMW);
    sw_checkpoint_close(checkpoint);
    end_run(&run);
}

static int count_entries(const char *folder) {
    DIR *open_folder = opendir(folder);
    int n = -2; /* . and .. */
    assert_non_null(open_folder);
    while (readdir(open_folder))
        n++;
    closedir(open_folder);
    return n;
}

/* A checkpoint has its files and no others, `latest` names the newest, and nothing else is in the
 * folder. */
static void nothing_is_left_beside_it(void **state) {
    (void)state;
    saved_run run;
    char path[SW_PATH_BYTES], target[64] = "";
    begin_run(&run, 3);
    save_step(&run, 10);
    save_step(&run, 20);
    assert_int_equal(count_entries(step_folder(&run, 20)), 4);
    assert_int_equal(count_entries(run.folder), 2);
    snprintf(path, sizeof path, "%s/steps", run.folder);
    assert_int_equal(count_entries(path), 2);
    snprintf(path, sizeof path, "%s/latest", run.folder);
    assert_int_equal(readlink(path, target, sizeof target - 1), 14);
    assert_string_equal(target, "steps/00000020");
    end_run(&run);
}

/* A save of a step that is there already (a run that went back) replaces it. */
static void a_step_is_saved_again(void **state) {
    (void)state;
    saved_run run;
    begin_run(&run, 2);
    save_step(&run, 10);
    run.model_config = "{}";
    save_step(&run, 20);
    change_ranks(&run, 3);
    run.model_config = "{\"a\": 1}";
    save_step(&run, 20);
    sw_checkpoint *checkpoint = open_step(&run, 20);
    assert_string_equal(sw_checkpoint_model_config(checkpoint), "{\"a\": 1}");
    sw_checkpoint_close(checkpoint);
    check_step(&run, 20);
    check_step(&run, 10);
    end_run(&run);
}

/* SGD without momentum saves parameters alone, with it momentum; frozen parameters have no
 * moments. */
static void kinds_follow_the_optimizer(void **state) {
    (void)state;
    sw_optimizer_spec sgd = {.kind = SW_OPTIMIZER_SGD},
                      momentum = {.kind = SW_OPTIMIZER_SGD, .momentum = 0.9};
    sw_optimizer_spec adamw = {.kind = SW_OPTIMIZER_ADAMW};
    assert_int_equal(sw_state_kinds_of(&sgd), 1u << SW_STATE_MASTER);
    assert_int_equal(sw_state_kinds_of(&momentum), 1u << SW_STATE_MASTER | 1u << SW_STATE_MOMENTUM);
    assert_int_equal(sw_state_kinds_of(&adamw), ALL_ADAMW);
    saved_run run;
    sw_error err;
    begin_run(&run, 2);
    run.kinds = sw_state_kinds_of(&momentum);
    save_step(&run, 5);
    assert_int_equal(count_entries(step_folder(&run, 5)), 3);
    check_step(&run, 5);
    sw_checkpoint *checkpoint = open_step(&run, 5);
    assert_int_equal(sw_checkpoint_compare(checkpoint, run.graph, ALL_ADAMW, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "first_moment.safetensors"));
    sw_checkpoint_close(checkpoint);
    end_run(&run);
}

/* Frozen parameters that are left out are in no file; what is there is loaded by any number of
 * ranks, and nothing is asked of them. */
static sw_status put_trained(void *to, sw_state_kind kind, int group, const sw_piece *piece,
                             int64_t first, int64_t n, float *values, sw_error *err) {
    (void)kind, (void)group, (void)first, (void)values, (void)err;
    assert_true(piece->parameter->is_trainable);
    *(int64_t *)to += n;
    return SW_OK;
}

static void frozen_parameters_may_be_left_out(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    int64_t n_loaded = 0, n_trained = 0, with, without;
    begin_run_of(&run, 3, SKINNY_ROWS);
    save_step(&run, 10);
    close_saves(&run);
    run.leaves_out_frozen = true;
    save_step(&run, 20);
    free(file_bytes(step_folder(&run, 10), "parameters.safetensors", &with));
    free(file_bytes(step_folder(&run, 20), "parameters.safetensors", &without));
    assert_true(with - without > 4 * 71 * 33 &&
                with - without < 4 * 71 * 33 + 200); /* its bytes and its line in the header */
    for (int p = 0; p < run.graph->parameters.n; p++)
        n_trained += run.graph->parameters.item[p]->is_trainable
                         ? run.graph->parameters.item[p]->n_elements
                         : 0;
    change_ranks(&run, 2);
    sw_checkpoint *checkpoint = open_step(&run, 20);
    assert_int_equal(sw_checkpoint_compare(checkpoint, run.graph, ALL_ADAMW, &err), SW_OK);
    assert_int_equal(sw_checkpoint_verify(checkpoint, 2, &err), SW_OK);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(sw_checkpoint_load(checkpoint, &run.layout, rank, ALL_ADAMW, put_trained,
                                            &n_loaded, NULL, &err),
                         SW_OK);
    assert_int_equal(n_loaded, 3 * n_trained);
    sw_checkpoint_close(checkpoint);
    end_run(&run);
}

/* Python reads it without our code. */
static void python_reads_it(void **state) {
    (void)state;
    saved_run run;
    char command[2 * SW_PATH_BYTES];
    if (system("python3 -c '' 2>/dev/null") != 0)
        skip();
    begin_run_of(&run, 3, SKINNY_ROWS);
    save_step(&run, 70);
    snprintf(command, sizeof command, "python3 '%s/tests/checkpoint/check_safetensors.py' '%s'",
             SW_SOURCE_FOLDER, step_folder(&run, 70));
    assert_int_equal(system(command), 0);
    end_run(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_do_not_depend_on_ranks),
        cmocka_unit_test(any_number_of_ranks_loads_it),
        cmocka_unit_test(ranks_as_threads_write_at_the_same_time),
        cmocka_unit_test(what_else_is_saved_comes_back),
        cmocka_unit_test(nothing_is_left_beside_it),
        cmocka_unit_test(a_step_is_saved_again),
        cmocka_unit_test(kinds_follow_the_optimizer),
        cmocka_unit_test(frozen_parameters_may_be_left_out),
        cmocka_unit_test(python_reads_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
