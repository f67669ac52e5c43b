/* test_damage.c: what is damaged, cut, missing, of another model, or not where it should be is
 * refused by name, and the checkpoint before it is taken.
 */
#include "checkpoint/saved_run.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "checkpoint/manifest.h"
#include "checkpoint/manifest_format.h"

/* Open and verify, as a start does. */
static sw_status look(const char *path, sw_error *err) {
    sw_checkpoint *checkpoint;
    sw_status status = sw_checkpoint_open(path, &checkpoint, err);
    if (status == SW_OK) {
        status = sw_checkpoint_verify(checkpoint, 1, err);
        sw_checkpoint_close(checkpoint);
    }
    return status;
}

static const char *join(const char *folder, const char *name) {
    static char paths[4][SW_PATH_BYTES];
    static int n;
    char *path = paths[n++ % 4];
    assert_int_equal(sw_path_join(path, folder, name, NULL), SW_OK);
    return path;
}

/* 10,000 bits, each in a file by chance: found, with the file and the parameter that it belongs
 * to. */
static void any_bit_that_flips_is_found(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    uint64_t chance = 1;
    begin_run_of(&run, 3, SKINNY_ROWS);
    save_step(&run, 10);
    sw_checkpoint *checkpoint = open_step(&run, 10);
    for (int i = 0; i < 10000; i++) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        sw_state_kind kind = (sw_state_kind)(chance >> 33) % 3;
        const char *path = join(step_folder(&run, 10), sw_state_file_name(kind));
        int fd = open(path, O_RDWR);
        int64_t bytes = lseek(fd, 0, SEEK_END);
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        int64_t offset = (int64_t)((chance >> 20) % (uint64_t)bytes);
        unsigned char byte, flipped;
        assert_int_equal(pread(fd, &byte, 1, offset), 1);
        flipped = byte ^ (unsigned char)(1 << (chance >> 17) % 8);
        assert_int_equal(pwrite(fd, &flipped, 1, offset), 1);
        if (sw_checkpoint_verify(checkpoint, 1 + i % 2, &err) != SW_BAD_FILE)
            fail_msg("%s: a flip of byte %lld is not found", path, (long long)offset);
        assert_non_null(strstr(err.message, path));
        assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
        close(fd);
    }
    assert_int_equal(sw_checkpoint_verify(checkpoint, 2, &err), SW_OK);
    sw_checkpoint_close(checkpoint);
    end_run(&run);
}

static void flip(const char *path, int64_t offset) {
    unsigned char byte;
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, offset), 1);
    byte ^= 16;
    assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
    close(fd);
}

static sw_status put_nowhere(void *to, sw_state_kind kind, int group, const sw_piece *piece,
                             int64_t first, int64_t n, float *values, sw_error *err) {
    (void)to, (void)kind, (void)group, (void)piece, (void)first, (void)n, (void)values, (void)err;
    return SW_OK;
}

/* The parameter is named, loading finds it too, and other parts can be read. */
static void damage_is_named(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    sw_checkpoint_reader *reader;
    float values[8];
    begin_run(&run, 2);
    save_step(&run, 10);
    sw_checkpoint *checkpoint = open_step(&run, 10);
    const char *path = join(step_folder(&run, 10), "second_moment.safetensors");
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    flip(path, info.st_size - 1 - 4 * 40); /* before "layers.1.one" and "norm", the last */
    assert_int_equal(sw_checkpoint_verify(checkpoint, 2, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "layers.1.big"));
    assert_non_null(strstr(err.message, "damaged"));
    sw_status status = SW_OK;
    for (int rank = 0; rank < 2 && status == SW_OK; rank++)
        status = sw_checkpoint_load(checkpoint, &run.layout, rank, ALL_ADAMW, put_nowhere, NULL,
                                    NULL, &err);
    assert_int_equal(status, SW_BAD_FILE);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(sw_checkpoint_reader_open(checkpoint, &reader, &err), SW_OK);
    assert_int_equal(sw_checkpoint_read(reader, SW_STATE_SECOND_MOMENT, 0, 0, 8, values, &err),
                     SW_OK);
    assert_int_equal(sw_checkpoint_read(reader, SW_STATE_MASTER, 5, 600 * 701, 8, values, &err),
                     SW_OK);
    sw_checkpoint_reader_close(reader);
    flip(path, 20); /* its header: a range more */
    assert_int_equal(sw_checkpoint_verify(checkpoint, 1, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "its header"));
    assert_non_null(strstr(err.message, "and 1 more"));
    sw_checkpoint_close(checkpoint);
    assert_int_equal(look(step_folder(&run, 10), &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "header is damaged"));
    end_run(&run);
}

typedef struct rejections {
    int n;
    int64_t step[8];
    char message[8][SW_MESSAGE_BYTES];
} rejections;

static void reject(void *to, int64_t step, const char *message) {
    rejections *r = to;
    assert_true(r->n < 8);
    r->step[r->n] = step;
    snprintf(r->message[r->n++], SW_MESSAGE_BYTES, "%s", message);
}

/* Newest first: one whose manifest is damaged, one that lacks a file, one that is cut, one with a
 * damaged byte, a good one. */
static void the_newest_good_one_is_taken(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    rejections r = {0};
    int64_t step;
    begin_run_of(&run, 2, SKINNY_ROWS);
    assert_int_equal(newest_good_step(run.folder, 2, reject, &r, &step, &err), SW_OK);
    assert_int_equal(step, -1);
    for (int i = 1; i <= 6; i++)
        save_step(&run, i * 100000000ll / 4); /* numbers of 8 and of 9 digits */
    flip(join(step_folder(&run, 150000000), "manifest.json"), 50);
    assert_int_equal(unlink(join(step_folder(&run, 125000000), "first_moment.safetensors")), 0);
    assert_int_equal(truncate(join(step_folder(&run, 100000000), "parameters.safetensors"), 3000),
                     0);
    flip(join(step_folder(&run, 75000000), "parameters.safetensors"), 2000);
    assert_int_equal(newest_good_step(run.folder, 2, reject, &r, &step, &err), SW_OK);
    assert_int_equal(step, 50000000);
    assert_int_equal(r.n, 4);
    assert_int_equal(r.step[0], 150000000);
    assert_int_equal(r.step[3], 75000000);
    assert_non_null(strstr(r.message[0], "checksum is wrong"));
    assert_non_null(strstr(r.message[1], "missing"));
    assert_non_null(strstr(r.message[2], "cut"));
    assert_non_null(strstr(r.message[3], "damaged"));
    /* Going on from there, the others are removed before the first save. */
    assert_int_equal(sw_steps_remove_after(run.storage, run.folder, step, &err), SW_OK);
    sw_steps steps;
    assert_int_equal(sw_steps_list(run.folder, &steps, &err), SW_OK);
    assert_int_equal(steps.n, 2);
    sw_steps_free(&steps);
    end_run(&run);
}

/* Half of a folder, in every way that half can be. */
static void half_deleted_folders(void **state) {
    (void)state;
    static const char *const names[] = {"manifest.json", "parameters.safetensors",
                                        "first_moment.safetensors", "second_moment.safetensors"};
    saved_run run;
    sw_error err;
    begin_run_of(&run, 1, SKINNY_ROWS);
    for (unsigned removed = 1; removed < 16; removed++) {
        save_step(&run, 10);
        for (int i = 0; i < 4; i++)
            if (removed >> i & 1)
                assert_int_equal(unlink(join(step_folder(&run, 10), names[i])), 0);
        assert_int_equal(look(step_folder(&run, 10), &err), SW_BAD_FILE);
        assert_non_null(strstr(err.message, names[__builtin_ctz(removed)]));
    }
    assert_int_equal(look(join(run.folder, "steps/00000011"), &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "No such file"));
    assert_int_equal(look(join(step_folder(&run, 10), "manifest.json"), &err), SW_BAD_FILE);
    end_run(&run);
}

/* Links do not lead out of a checkpoint, nor out of a run's folder; nothing behind one is
 * removed. */
static void links_are_not_followed(void **state) {
    (void)state;
    saved_run run, other;
    sw_error err;
    sw_steps steps;
    begin_run_of(&run, 1, SKINNY_ROWS);
    begin_run_of(&other, 1, SKINNY_ROWS);
    save_step(&run, 10);
    save_step(&other, 10);
    save_step(&other, 20);
    char outside[SW_PATH_BYTES];
    strcpy(outside, step_folder(&other, 10));
    const char *file = join(step_folder(&run, 10), "parameters.safetensors");
    assert_int_equal(unlink(file), 0);
    assert_int_equal(symlink(join(outside, "parameters.safetensors"), file), 0);
    assert_int_equal(look(step_folder(&run, 10), &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "link"));
    /* a step, and a left-over, that are links */
    assert_int_equal(symlink(step_folder(&other, 20), join(run.folder, "steps/00000020")), 0);
    assert_int_equal(symlink(outside, join(run.folder, "steps/.00000030.partial")), 0);
    assert_int_equal(sw_steps_list(run.folder, &steps, &err), SW_OK);
    assert_int_equal(steps.n, 2);
    assert_false(steps.item[0].is_whole);
    assert_non_null(strstr(steps.item[0].reason, "link"));
    sw_steps_free(&steps);
    assert_int_equal(sw_steps_clean(run.storage, run.folder, NULL, NULL, &err), SW_OK);
    assert_int_equal(sw_step_remove(run.storage, run.folder, 20, &err), SW_OK);
    assert_false(sw_file_exists(join(run.folder, "steps/.00000030.partial")));
    assert_true(sw_file_exists(join(run.folder, "steps/00000020"))); /* no run has made it */
    check_step(&other, 10);
    check_step(&other, 20);
    /* steps/ itself */
    char steps_path[SW_PATH_BYTES];
    strcpy(steps_path, join(run.folder, "steps"));
    assert_int_equal(rename(steps_path, join(run.folder, "elsewhere")), 0);
    assert_int_equal(symlink(join(other.folder, "steps"), steps_path), 0);
    assert_int_equal(sw_steps_list(run.folder, &steps, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "link"));
    sw_steps_free(&steps);
    end_run(&run);
    end_run(&other);
}

/* `latest` is for people; who gives it as a path means what it names. */
static void latest_may_be_given(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    sw_checkpoint *checkpoint;
    begin_run_of(&run, 1, SKINNY_ROWS);
    save_step(&run, 10);
    save_step(&run, 20);
    assert_int_equal(sw_checkpoint_open(join(run.folder, "latest"), &checkpoint, &err), SW_OK);
    assert_int_equal(sw_checkpoint_step(checkpoint), 20);
    sw_checkpoint_close(checkpoint);
    end_run(&run);
}

/* A folder that was renamed holds another step than its name says. */
static void a_renamed_folder_is_not_taken(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    int64_t step;
    rejections r = {0};
    begin_run_of(&run, 1, SKINNY_ROWS);
    save_step(&run, 10);
    save_step(&run, 20);
    char from[SW_PATH_BYTES];
    strcpy(from, step_folder(&run, 20));
    assert_int_equal(rename(from, step_folder(&run, 30)), 0);
    assert_int_equal(newest_good_step(run.folder, 1, reject, &r, &step, &err), SW_OK);
    assert_int_equal(step, 10);
    assert_int_equal(r.n, 1);
    assert_non_null(strstr(r.message[0], "step 20"));
    end_run(&run);
}

static void count(void *to, const char *path) {
    assert_non_null(strstr(path, "steps/.00000030.partial"));
    (*(int *)to)++;
}

/* Names that are nobody's are neither read nor removed; a left-over that holds something else is
 * not removed, and said, and does not stand in the way of the others. */
static void what_is_not_ours_stays(void **state) {
    (void)state;
    static const char *const names[] = {
        "steps/notes",    "steps/0000010",   "steps/0000000010",      "steps/.x.partial",
        "steps/.partial", "steps/.00000010", "steps/00000010.partial"};
    saved_run run;
    sw_error err;
    sw_steps steps;
    begin_run_of(&run, 1, SKINNY_ROWS);
    save_step(&run, 20);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(mkdir(join(run.folder, names[i]), 0777), 0);
    assert_int_equal(sw_steps_clean(run.storage, run.folder, NULL, NULL, &err), SW_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(sw_file_exists(join(run.folder, names[i])));
    assert_int_equal(sw_steps_list(run.folder, &steps, &err), SW_OK);
    assert_int_equal(steps.n, 1);
    sw_steps_free(&steps);
    assert_int_equal(mkdir(join(run.folder, "steps/.00000030.partial"), 0777), 0);
    assert_int_equal(mkdir(join(run.folder, "steps/.00000030.partial/notes"), 0777), 0);
    for (int i = 29; i <= 31; i += 2) { /* before and behind it, whatever the order */
        char name[64];
        snprintf(name, sizeof name, "steps/.%08d.removed", i);
        assert_int_equal(mkdir(join(run.folder, name), 0777), 0);
    }
    int n_stay = 0;
    assert_int_equal(sw_steps_clean(run.storage, run.folder, count, &n_stay, &err), SW_OK);
    assert_int_equal(n_stay, 1);
    assert_true(sw_file_exists(join(run.folder, "steps/.00000030.partial/notes")));
    assert_false(sw_file_exists(join(run.folder, "steps/.00000029.removed")));
    assert_false(sw_file_exists(join(run.folder, "steps/.00000031.removed")));
    end_run(&run);
}

static void count_removed(void *to, const char *path) {
    assert_non_null(strstr(path, "steps/.00000010.removed"));
    (*(int *)to)++;
}

/* Somebody's file in a checkpoint outlives it under another name, which is told at the next start,
 * and no save fails for it: not even for the second of the same step. */
static void notes_in_a_checkpoint_outlive_it(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    begin_run_of(&run, 1, SKINNY_ROWS);
    run.retention = (sw_retention){1, 0};
    for (int i = 1; i <= 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "notes%d", i);
        save_step(&run, 10);
        assert_int_equal(mkdir(join(step_folder(&run, 10), name), 0777), 0);
        save_step(&run, 20);
        assert_false(sw_file_exists(step_folder(&run, 10)));
        assert_int_equal(sw_step_remove(run.storage, run.folder, 20, &err), SW_OK);
        close_saves(&run);
    }
    assert_true(sw_file_exists(join(run.folder, "steps/.00000010.removed/notes1")));
    assert_true(sw_file_exists(join(run.folder, "steps/.00000010.removed.1/notes2")));
    int n_stay = 0;
    assert_int_equal(mkdir(join(run.folder, "steps/.00000010.removed.12"), 0777), 0);
    assert_int_equal(mkdir(join(run.folder, "steps/.00000010.removed.x"), 0777), 0);
    assert_int_equal(sw_steps_clean(run.storage, run.folder, count_removed, &n_stay, &err), SW_OK);
    assert_int_equal(n_stay, 2);
    assert_false(sw_file_exists(join(run.folder, "steps/.00000010.removed.12")));
    assert_true(sw_file_exists(join(run.folder, "steps/.00000010.removed.x"))); /* nobody's */
    save_step(&run, 10);
    check_step(&run, 10);
    end_run(&run);
}

/* `latest` and the name under which it is made may be links, or nothing. Anything else is
 * somebody's, and said before a save. */
static void only_links_give_way_to_latest(void **state) {
    (void)state;
    static const char *const names[] = {"latest", ".latest.partial"};
    saved_run run;
    sw_error err;
    begin_run_of(&run, 1, SKINNY_ROWS);
    save_step(&run, 10);
    for (int i = 0; i < 4; i++) {
        const char *path = join(run.folder, names[i / 2]);
        unlink(path);
        FILE *file = i % 2 ? fopen(path, "w") : NULL;
        assert_true(i % 2 ? file && fclose(file) == 0 : mkdir(path, 0777) == 0);
        assert_int_equal(sw_steps_clean(run.storage, run.folder, NULL, NULL, &err), SW_BAD_CONFIG);
        assert_non_null(strstr(err.message, path));
        assert_non_null(strstr(err.message, i % 2 ? "is a file" : "is a folder"));
        assert_int_equal(remove(path), 0);
        assert_int_equal(sw_steps_clean(run.storage, run.folder, NULL, NULL, &err), SW_OK);
    }
    end_run(&run);
}

static int no_link(void *self, const char *target, const char *path) {
    (void)self, (void)target, (void)path;
    return -EOPNOTSUPP;
}

/* As on a stick: there is no `latest` then, and all else is as it is. */
static void a_file_system_without_links(void **state) {
    (void)state;
    saved_run run;
    sw_storage storage = *sw_storage_system();
    begin_run_of(&run, 2, SKINNY_ROWS);
    storage.link = no_link;
    run.storage = &storage;
    save_step(&run, 10);
    save_step(&run, 20);
    check_step(&run, 20);
    assert_false(sw_file_exists(join(run.folder, "latest")));
    end_run(&run);
}

/* Of a newer version: nobody falls back from it to an older one, and `latest` is left to who wrote
 * it. */
static void a_newer_version_is_not_passed_over(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    sw_steps steps;
    int64_t step, bytes;
    rejections r = {0};
    begin_run_of(&run, 1, SKINNY_ROWS);
    save_step(&run, 10);
    save_step(&run, 20);
    char path[SW_PATH_BYTES], checksum[32], target[64] = "", *text = NULL;
    strcpy(path, join(step_folder(&run, 20), "manifest.json"));
    assert_int_equal(sw_file_read(path, 1 << 20, &text, &bytes, &err), SW_OK);
    char *version = strstr(text, "\"version\": 1") + 11,
         *end = strstr(text, "\"checksum\": \"") + 13;
    *version = '2';
    snprintf(checksum, sizeof checksum, "%016llx",
             (unsigned long long)sw_checksum(text, end - text));
    memcpy(end, checksum, 16);
    assert_int_equal(sw_file_write(path, text, bytes, &err), SW_OK);
    free(text);
    assert_int_equal(look(step_folder(&run, 20), &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "newer"));
    assert_int_equal(sw_steps_list(run.folder, &steps, &err), SW_OK);
    assert_true(steps.item[0].is_unknown && !steps.item[0].is_whole && steps.item[1].is_whole &&
                !steps.item[1].is_unknown);
    sw_steps_free(&steps);
    assert_int_equal(newest_good_step(run.folder, 1, reject, &r, &step, &err), SW_BAD_CONFIG);
    assert_int_equal(r.n, 0);
    assert_int_equal(sw_steps_clean(run.storage, run.folder, NULL, NULL, &err), SW_OK);
    assert_true(readlink(join(run.folder, "latest"), target, sizeof target - 1) > 0);
    assert_string_equal(target, "steps/00000020");
    end_run(&run);
}

/* What a killed run leaves is removed, and `latest` is set right, wherever it pointed. */
static void left_overs_are_cleaned(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    char target[64] = "";
    begin_run_of(&run, 2, SKINNY_ROWS);
    save_step(&run, 10);
    save_step(&run, 20);
    run.step = 30;
    for (int r = 0; r < 2; r++) { /* killed while it writes */
        assert_int_equal(sw_save_begin(run.save[r], 30, &err), SW_OK);
        assert_int_equal(sw_save_group(run.save[r], 0, &err), SW_OK);
    }
    assert_true(sw_file_exists(join(run.folder, "steps/.00000030.partial/parameters.safetensors")));
    char from[SW_PATH_BYTES];
    strcpy(from, step_folder(&run, 10));
    assert_int_equal(rename(from, join(run.folder, "steps/.00000010.removed")),
                     0); /* killed while it removes */
    assert_int_equal(unlink(join(run.folder, "latest")), 0);
    assert_int_equal(symlink("/etc", join(run.folder, ".latest.partial")), 0);
    assert_int_equal(symlink("steps/00000010", join(run.folder, "latest")), 0);
    assert_int_equal(sw_steps_clean(run.storage, run.folder, NULL, NULL, &err), SW_OK);
    assert_false(sw_file_exists(join(run.folder, "steps/.00000030.partial")));
    assert_false(sw_file_exists(join(run.folder, "steps/.00000010.removed")));
    assert_false(sw_file_exists(join(run.folder, ".latest.partial")));
    assert_true(readlink(join(run.folder, "latest"), target, sizeof target - 1) > 0);
    assert_string_equal(target, "steps/00000020");
    check_step(&run, 20);
    end_run(&run);
}

/* A process that may open no more files learns nothing of a checkpoint, and does not fall back from
 * it. */
static void no_file_descriptors_are_no_damage(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    sw_steps steps;
    struct rlimit limit, less;
    rejections r = {0};
    int64_t step = -1;
    begin_run_of(&run, 1, SKINNY_ROWS);
    save_step(&run, 10);
    save_step(&run, 20);
    close_saves(&run);
    int first_free = dup(0);
    close(first_free);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    sw_status listed = SW_NO_MEMORY, found = SW_NO_MEMORY;
    for (int more = 0; found != SW_OK; more++) {
        assert_true(more < 16); /* a folder, its steps, one of these, manifest and three files */
        less = (struct rlimit){(rlim_t)(first_free + more), limit.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
        listed = sw_steps_list(run.folder, &steps, &err);
        found = newest_good_step(run.folder, 1, reject, &r, &step, &err);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_true(listed == SW_NO_MEMORY ||
                    (listed == SW_OK && steps.n == 2 && steps.item[0].is_whole));
        assert_true(found == SW_OK || (found == SW_NO_MEMORY && strstr(err.message, "ulimit -n")));
        sw_steps_free(&steps);
    }
    assert_true(step == 20 && r.n == 0);
    end_run(&run);
}

/* Another model: the parameter is named with what differs. */
static void another_model_is_named(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    begin_run_of(&run, 1, SKINNY_ROWS);
    save_step(&run, 10);
    sw_checkpoint *checkpoint = open_step(&run, 10);
    sw_parameter *norm = run.graph->parameters.item[7];
    norm->dimension[0] = 32;
    assert_int_equal(sw_checkpoint_compare(checkpoint, run.graph, ALL_ADAMW, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "norm has shape [33] in it and [32] in the model"));
    norm->dimension[0] = 33;
    norm->is_trainable = false;
    assert_int_equal(sw_checkpoint_compare(checkpoint, run.graph, ALL_ADAMW, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "norm is trained in it and frozen in the model"));
    norm->is_trainable = true;
    const char *name = norm->name;
    norm->name = "final_norm";
    assert_int_equal(sw_checkpoint_compare(checkpoint, run.graph, ALL_ADAMW, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "final_norm is not in it"));
    assert_non_null(strstr(err.message, "; norm is not in the model; is model"));
    for (int i = 0; i < 4; i++)
        run.graph->parameters.item[i]->n_dimensions++;
    assert_int_equal(sw_checkpoint_compare(checkpoint, run.graph, ALL_ADAMW, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message,
                           "wte.weight has shape [257, 33] in it and [257, 33, 0] in the model; "));
    assert_non_null(strstr(err.message, "; and 3 more parameters differ"));
    for (int i = 0; i < 4; i++)
        run.graph->parameters.item[i]->n_dimensions--;
    norm->name = name;
    run.graph->parameters.n--;
    assert_int_equal(sw_checkpoint_compare(checkpoint, run.graph, ALL_ADAMW, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "norm is not in the model"));
    run.graph->parameters.n++;
    assert_int_equal(sw_checkpoint_compare(checkpoint, run.graph, ALL_ADAMW, &err), SW_OK);
    sw_checkpoint_close(checkpoint);
    end_run(&run);
}

/* A manifest that is right by itself and does not fit to its files. */
static void files_that_their_manifest_does_not_fit(void **state) {
    (void)state;
    saved_run run, other;
    sw_error err;
    begin_run_of(&run, 1, SKINNY_ROWS);
    begin_run_of(&other, 1, SKINNY_ROWS + 1);
    save_step(&run, 10);
    save_step(&other, 10);
    char from[SW_PATH_BYTES];
    strcpy(from, join(step_folder(&other, 10), "manifest.json"));
    assert_int_equal(rename(from, join(step_folder(&run, 10), "manifest.json")), 0);
    assert_int_equal(look(step_folder(&run, 10), &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "bytes instead of"));
    end_run(&run);
    end_run(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bit_that_flips_is_found),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(the_newest_good_one_is_taken),
        cmocka_unit_test(half_deleted_folders),
        cmocka_unit_test(links_are_not_followed),
        cmocka_unit_test(latest_may_be_given),
        cmocka_unit_test(a_renamed_folder_is_not_taken),
        cmocka_unit_test(what_is_not_ours_stays),
        cmocka_unit_test(notes_in_a_checkpoint_outlive_it),
        cmocka_unit_test(only_links_give_way_to_latest),
        cmocka_unit_test(a_file_system_without_links),
        cmocka_unit_test(a_newer_version_is_not_passed_over),
        cmocka_unit_test(left_overs_are_cleaned),
        cmocka_unit_test(no_file_descriptors_are_no_damage),
        cmocka_unit_test(another_model_is_named),
        cmocka_unit_test(files_that_their_manifest_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
