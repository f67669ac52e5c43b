/* test_verbs.c: shardwise checkpoint list, verify, diff, prune and export, as who calls them sees
 * it. */
#include "checkpoint/saved_run.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "checkpoint/run_lock.h"
#include "formats/safetensors.h"
#include "model/model.h"

static char printed[1 << 16];

/* Exit code of the command; what it prints, on both streams, is left in `printed`. */
static int run_command(const char *format, ...) {
    char arguments[1024], command[2048];
    va_list list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    snprintf(command, sizeof command, "'%s/shardwise' checkpoint %s 2>&1 </dev/null",
             SW_BUILD_FOLDER, arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    printed[fread(printed, 1, sizeof printed - 1, pipe)] = 0;
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void says(const char *words) {
    if (!strstr(printed, words))
        fail_msg("'%s' is not in: %s", words, printed);
}

static void flip(const saved_run *run, int64_t step, const char *name, int64_t offset) {
    char path[SW_PATH_BYTES];
    unsigned char byte;
    assert_int_equal(sw_path_join(path, step_folder(run, step), name, NULL), SW_OK);
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, offset), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
    close(fd);
}

static void list_and_verify(void **state) {
    (void)state;
    saved_run run;
    begin_run_of(&run, 2, SKINNY_ROWS);
    assert_int_equal(run_command("list %s", run.folder), 3);
    says("is no run's folder");
    save_step(&run, 100);
    run.validation_loss = 2.125;
    save_step(&run, 200);
    assert_int_equal(run_command("list %s", run.folder), 0);
    says("200");
    says("2.1250");
    assert_true(strstr(printed, " 200 ") < strstr(printed, " 100 "));
    assert_int_equal(run_command("verify %s", run.folder), 0);
    says("steps/00000200: good");
    assert_int_equal(run_command("verify %s/latest %s", run.folder, step_folder(&run, 100)), 0);
    flip(&run, 200, "first_moment.safetensors", 5000);
    assert_int_equal(run_command("list %s", run.folder), 0); /* which does not read data */
    assert_int_equal(run_command("verify %s", run.folder), 3);
    says("steps/00000200: damaged");
    says("steps/00000100: good");
    says("1 of 2 checkpoints is damaged");
    assert_int_equal(run_command("verify %s/latest", run.folder), 3);
    says("first_moment.safetensors: bytes ");
    flip(&run, 100, "manifest.json", 5);
    assert_int_equal(run_command("list %s", run.folder), 0);
    says("damaged: ");
    assert_int_equal(run_command("verify /nowhere"), 3);
    assert_int_equal(run_command("verify"), 2);
    assert_int_equal(run_command("list a b"), 2);
    end_run(&run);
}

static sw_status fetch_changed(void *from, sw_state_kind kind, int group, const sw_piece *piece,
                               int64_t first, int64_t n, float *values, sw_error *err) {
    sw_status status = fetch_state(from, kind, group, piece, first, n, values, err);
    for (int64_t i = 0; i < n; i++)
        values[i] = kind != SW_STATE_MASTER                                      ? values[i]
                    : piece->parameter->id == 1 && piece->first + first + i == 7 ? 1.5f
                                                                                 : 0.5f;
    return status;
}

static sw_status fetch_even(void *from, sw_state_kind kind, int group, const sw_piece *piece,
                            int64_t first, int64_t n, float *values, sw_error *err) {
    sw_status status = fetch_state(from, kind, group, piece, first, n, values, err);
    for (int64_t i = 0; i < n && kind == SW_STATE_MASTER; i++)
        values[i] = 0.5f;
    return status;
}

static void save_with(saved_run *run, sw_fetch_state_fn fetch) {
    sw_error err;
    close_saves(run);
    for (int r = 0; r < run->n_ranks; r++) {
        sw_save_options options = save_options(run, r);
        options.fetch = fetch;
        assert_int_equal(sw_save_open(&options, &run->save[r], &err), SW_OK);
    }
    save_step(run, 10);
}

/* Two ranks and three, the same state; then one element apart; then another model. */
static void diff(void **state) {
    (void)state;
    saved_run a, b;
    begin_run_of(&a, 2, SKINNY_ROWS);
    begin_run_of(&b, 3, SKINNY_ROWS);
    save_with(&a, fetch_even);
    save_with(&b, fetch_even);
    assert_int_equal(run_command("diff %s %s/latest", a.folder, b.folder), 0);
    assert_string_equal(printed,
                        "equal: 22 tensors, every bit\n"); /* 8 parameters, 7 of them with two
                                                              moments; and nothing more */
    assert_int_equal(run_command("diff %s %s/latest --json", a.folder, b.folder), 0);
    assert_string_equal(
        printed,
        "{\"equal\": true, \"step\": [10, 10], \"state\": {}, \"settings\": {}, \"tensors\": 22, "
        "\"different\": []}\n");
    save_with(&b, fetch_changed);
    assert_int_equal(run_command("diff %s %s", a.folder, b.folder), 0);
    says("parameters layers.0.norm: 1 of 33 elements differs, by 1 at most\n");
    says("1 of 22 tensors differ\n");
    assert_int_equal(run_command("diff %s %s --json", a.folder, b.folder), 0);
    says("\"different\": [{\"state\": \"parameters\", \"name\": \"layers.0.norm\", \"difference\": "
         "\"values\", \"elements\": 33, "
         "\"different\": 1, \"largest\": 1.0}]}\n");
    end_run(&b);
    begin_run_of(&b, 1, SKINNY_ROWS + 1);
    b.kinds = 1u << SW_STATE_MASTER;
    save_step(&b, 20);
    assert_int_equal(run_command("diff %s %s", a.folder, b.folder), 0);
    says("step: 10 and 20\n");
    says("state tokens: 10000 and 20000\n");
    says("parameters layers.1.big: other shape");
    says("second_moment norm: only in the first");
    flip(&b, 20, "parameters.safetensors", 5000);
    assert_int_equal(run_command("diff %s %s/latest", a.folder, b.folder), 3);
    says("are damaged");
    assert_int_equal(run_command("diff %s %s", a.folder, b.folder), 3);
    says("has no checkpoint that is good");
    end_run(&a);
    end_run(&b);
}

/* Damage that a manifest does not show does not count as a checkpoint either: the last good one
 * stays. */
static void prune_leaves_a_good_one(void **state) {
    (void)state;
    saved_run run;
    begin_run_of(&run, 1, SKINNY_ROWS);
    for (int i = 1; i <= 4; i++)
        save_step(&run, i * 10);
    flip(&run, 30, "parameters.safetensors", 5000);
    flip(&run, 40, "parameters.safetensors", 5000);
    assert_int_equal(run_command("prune %s --keep 1", run.folder), 0);
    says("steps/00000040/parameters.safetensors: bytes");
    says("steps/00000030/parameters.safetensors: bytes");
    says("removed: step 10\n");
    check_step(&run, 20);
    assert_true(sw_file_exists(step_folder(&run, 30)) && sw_file_exists(step_folder(&run, 40)));
    end_run(&run);
}

static void prune(void **state) {
    (void)state;
    saved_run run;
    sw_steps steps;
    sw_run_lock lock;
    sw_error err;
    begin_run_of(&run, 1, SKINNY_ROWS);
    for (int i = 1; i <= 6; i++) {
        run.validation_loss = i == 2 ? 1 : 3;
        save_step(&run, i * 10);
    }
    flip(&run, 10, "manifest.json", 100);
    assert_int_equal(run_command("prune %s", run.folder), 2);
    says("--keep is missing");
    assert_int_equal(run_command("prune %s --keep 1 --keep-every 40 --dry-run", run.folder), 0);
    says("would be removed: step 30\n");
    assert_int_equal(sw_run_lock_take(run.folder, &lock, &err), SW_OK);
    assert_int_equal(run_command("prune %s --keep 1", run.folder), 2);
    says("a run is using it");
    sw_run_lock_release(&lock);
    assert_int_equal(run_command("prune %s --keep 1 --keep-every 40", run.folder), 0);
    says("removed: step 50\n");
    assert_int_equal(sw_steps_list(run.folder, &steps, &err), SW_OK);
    assert_int_equal(
        steps.n, 4); /* the newest, a multiple, the best, and the damaged one, which is nobody's */
    assert_int_equal(steps.item[1].step, 40);
    assert_int_equal(steps.item[2].step, 20);
    sw_steps_free(&steps);
    assert_int_equal(run_command("prune %s --keep 1 --keep-every 40", run.folder), 0);
    says("nothing to remove");
    end_run(&run);
}

/* A checkpoint of a model that Hugging Face knows becomes its folder, masters to the bit. */
static void export_of_a_model(void **state) {
    (void)state;
    static const sw_model_config config = {SW_LLAMA, 2,     12,  2,    1,    6, 10, 11,
                                           16,       false, 1e4, 1e-5, 0.02, 1, 2};
    saved_run run;
    sw_graph *graph;
    sw_error err;
    char *config_json, path[SW_PATH_BYTES];
    sw_safetensors *file;
    assert_int_equal(sw_graph_create(1, 8, &graph, &err), SW_OK);
    assert_int_equal(sw_model_trace(&config, SW_ENDS_IN_LOSS, graph, &err), SW_OK);
    sw_parameter_freeze(graph->parameters.item[3]);
    begin_run_with(&run, 3, graph, true);
    assert_int_equal(sw_model_config_write(&config, SW_F32, &config_json, &err), SW_OK);
    run.model_config = config_json;
    save_step(&run, 10);
    assert_int_equal(run_command("export %s %s/out", run.folder, run.folder), 0);
    assert_int_equal(sw_path_join(path, run.folder, "out/model.safetensors", NULL), SW_OK);
    assert_int_equal(sw_safetensors_open(path, &file, &err), SW_OK);
    assert_int_equal(sw_safetensors_count(file), graph->parameters.n);
    for (int p = 0; p < graph->parameters.n; p++) {
        const sw_parameter *parameter = graph->parameters.item[p];
        const sw_tensor_entry *tensor = sw_safetensors_find(file, parameter->name);
        assert_non_null(tensor);
        float *values = malloc((size_t)tensor->n_bytes);
        assert_int_equal(sw_safetensors_read(file, tensor, 0, tensor->n_elements, values, &err),
                         SW_OK);
        for (int64_t i = 0; i < tensor->n_elements; i++) {
            uint32_t bits = state_bits(SW_STATE_MASTER, p, i, 10);
            assert_memory_equal(&values[i], &bits, sizeof bits);
        }
        free(values);
    }
    sw_safetensors_close(file);
    assert_int_equal(run_command("export %s %s/out", run.folder, run.folder), 2);
    says("exists already");
    assert_int_equal(run_command("export %s/latest %s/half --type BF16 --max-shard-size 2000",
                                 run.folder, run.folder),
                     0);
    assert_int_equal(sw_path_join(path, run.folder, "half/model.safetensors.index.json", NULL),
                     SW_OK);
    assert_true(sw_file_exists(path));
    assert_int_equal(run_command("export %s %s/out.gguf", run.folder, run.folder), 2);
    says("shardwise checkpoint export");
    close_saves(&run);
    run.model_config = NULL;
    save_step(&run, 20);
    assert_int_equal(run_command("export %s %s/no", run.folder, run.folder), 3);
    says("Hugging Face has no name for");
    free(config_json);
    end_run(&run);
}

/* Memory that is the command's own: heap, stacks, what it maps for itself. Sanitizers need more
 * than any limit. */
static void limit_memory(rlim_t bytes) {
#ifdef SW_SANITIZED
    (void)bytes;
#else
    setrlimit(RLIMIT_DATA, &(struct rlimit){bytes, bytes});
#endif
}

/* A model of 96 MiB in two tensors goes through 24 MiB: slice by slice, whatever the size of model
 * or tensor. */
static void export_in_little_memory(void **state) {
    (void)state;
    static const sw_model_config config = {SW_LLAMA, 1,     12,  2,    1,    6, 10, 1 << 20,
                                           16,       false, 1e4, 1e-5, 0.02, 1, 2};
    saved_run run;
    sw_graph *graph;
    sw_error err;
    char *config_json, to[SW_PATH_BYTES];
    struct stat info;
    int status;
    assert_int_equal(sw_graph_create(1, 8, &graph, &err), SW_OK);
    assert_int_equal(sw_model_trace(&config, SW_ENDS_IN_LOSS, graph, &err), SW_OK);
    begin_run_with(&run, 1, graph, true);
    run.kinds = 1u << SW_STATE_MASTER;
    assert_int_equal(sw_model_config_write(&config, SW_F32, &config_json, &err), SW_OK);
    run.model_config = config_json;
    save_step(&run, 10);
    assert_int_equal(sw_path_join(to, run.folder, "out", NULL), SW_OK);
    const char *from = step_folder(&run, 10);
    pid_t child = fork();
    if (child == 0) {
        limit_memory(24 << 20);
        execl(SW_BUILD_FOLDER "/shardwise", "shardwise", "checkpoint", "export", from, to,
              (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(sw_path_join(to, run.folder, "out/model.safetensors", NULL), SW_OK);
    assert_int_equal(stat(to, &info), 0);
    assert_true(info.st_size > 96 << 20);
    free(config_json);
    end_run(&run);
}

/* What is imported is a checkpoint of the other run, whole; into a new folder, or behind what a run
 * has. */
static void import_of_a_checkpoint(void **state) {
    (void)state;
    saved_run a, b;
    sw_run_lock lock;
    sw_error err;
    begin_run_of(&a, 3, SKINNY_ROWS);
    begin_run_of(&b, 1, SKINNY_ROWS);
    save_step(&a, 10);
    save_step(&a, 20);
    save_step(&b, 15);
    assert_int_equal(run_command("import %s/latest %s", a.folder, b.folder), 0);
    says("steps/00000020");
    check_step(&b, 15);
    check_step(&b, 20);
    assert_int_equal(run_command("list %s/latest/..", b.folder), 3);
    assert_int_equal(run_command("diff %s/latest %s", b.folder, a.folder), 0);
    says("equal: 22 tensors, every bit");
    assert_int_equal(run_command("import %s %s", step_folder(&a, 10), b.folder),
                     2); /* from which it would not go on */
    says("has a checkpoint of step 20 already");
    assert_int_equal(run_command("import %s %s --dtype bf16", a.folder, b.folder), 2);
    says("--dtype");
    assert_int_equal(run_command("import %s %s", a.folder, step_folder(&a, 10)), 2);
    says("is not the folder of a run");
    /* a new folder is there whole or not at all */
    assert_int_equal(run_command("import %s %s/new", a.folder, b.folder), 0);
    assert_int_equal(run_command("verify %s/new", b.folder), 0);
    says("steps/00000020: good");
    /* so is an empty one, or what an import leaves that was killed at its beginning */
    static const char *const begun[] = {"empty", "locked", "with-steps"};
    for (size_t i = 0; i < sizeof begun / sizeof *begun; i++) {
        char folder[SW_PATH_BYTES], within[SW_PATH_BYTES];
        assert_int_equal(sw_path_join(folder, b.folder, begun[i], NULL), SW_OK);
        assert_int_equal(mkdir(folder, 0777), 0);
        assert_int_equal(sw_path_join(within, folder, i == 1 ? ".lock" : "steps", NULL), SW_OK);
        if (i == 1)
            close(open(within, O_WRONLY | O_CREAT, 0666));
        else if (i == 2)
            assert_int_equal(mkdir(within, 0777), 0);
        assert_int_equal(run_command("import %s %s", a.folder, folder), 0);
        assert_int_equal(run_command("verify %s", folder), 0);
        says("steps/00000020: good");
    }
    flip(&a, 20, "parameters.safetensors", 5000);
    assert_int_equal(run_command("import %s %s/none", step_folder(&a, 20), b.folder), 3);
    says("are damaged");
    assert_int_equal(run_command("import %s %s/one/two", step_folder(&a, 10), b.folder), 4);
    says("cannot be made");
    assert_int_equal(run_command("list %s/none", b.folder), 3);
    says("No such file or directory");
    assert_int_equal(run_command("import %s %s/new2", a.folder, b.folder),
                     0); /* the newest that is good */
    says("passed over: ");
    says("new2/steps/00000010");
    assert_int_equal(sw_run_lock_take(b.folder, &lock, &err), SW_OK);
    assert_int_equal(run_command("import %s %s", step_folder(&a, 10), b.folder), 2);
    says("a run is using it");
    sw_run_lock_release(&lock);
    end_run(&a);
    end_run(&b);
}

/* The command that is printed works from anywhere: train counts a relative path from RUN.yaml's
 * folder. */
static void import_names_the_whole_path(void **state) {
    (void)state;
    saved_run run;
    char words[SW_PATH_BYTES + 64], here[SW_PATH_BYTES];
    begin_run_of(&run, 1, SKINNY_ROWS);
    save_step(&run, 10);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(run.folder), 0);
    assert_int_equal(run_command("import %s new", run.folder), 0);
    snprintf(words, sizeof words, " checkpoint.path=%s/new continues from it", run.folder);
    says(words);
    assert_int_equal(chdir(here), 0);
    end_run(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_and_verify),
        cmocka_unit_test(diff),
        cmocka_unit_test(prune),
        cmocka_unit_test(prune_leaves_a_good_one),
        cmocka_unit_test(export_of_a_model),
        cmocka_unit_test(export_in_little_memory),
        cmocka_unit_test(import_of_a_checkpoint),
        cmocka_unit_test(import_names_the_whole_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
