/* test_save_faults.c: every call that a save makes of the system fails in turn, and nothing is
 * lost.
 *
 * Whatever fails: the save says so in one message that names a path, the checkpoints that were
 * there are as they were, no part of the new one is left (or all of it is there, and then the save
 * may be one that did not fail), and the next save succeeds.
 */
#include "checkpoint/saved_run.h"

#include <errno.h>
#include <sys/stat.h>

#include "checkpoint/copy.h"

/* The system's calls, of which one, or all from one on, fail. */
typedef struct faulty {
    int n_calls, fails_at; /* from 1; 0: none */
    int error;
    bool goes_on; /* all writes, reservations and syncs from there on fail: a full disk */
    bool is_odd;  /* every other write is interrupted, and none takes more than 1000 bytes */
    bool cannot_exchange;
} faulty;

static const sw_storage *real;

static bool fails(faulty *f, bool takes_space) {
    f->n_calls++;
    return f->n_calls == f->fails_at ||
           (f->goes_on && f->fails_at && f->n_calls > f->fails_at && takes_space);
}

#define TRY(takes_space, call) (fails(self, takes_space) ? -((faulty *)self)->error : real->call)

static int call_make_folder(void *self, const char *path) {
    return TRY(true, make_folder(NULL, path));
}
static int call_open(void *self, const char *path, bool is_direct) {
    return TRY(true, open(NULL, path, is_direct));
}
static int64_t call_write(void *self, int descriptor, const void *data, int64_t bytes,
                          int64_t offset) {
    faulty *f = self;
    if (fails(f, true))
        return -f->error;
    if (f->is_odd && f->n_calls % 2)
        return -EINTR;
    return real->write(NULL, descriptor, data, f->is_odd && bytes > 1000 ? 1000 : bytes, offset);
}
static int call_reserve(void *self, int descriptor, int64_t bytes) {
    return TRY(true, reserve(NULL, descriptor, bytes));
}
static int call_sync(void *self, int descriptor) {
    return TRY(true, sync(NULL, descriptor));
}
static int call_close(void *self, int descriptor) {
    int result = real->close(NULL, descriptor); /* which never stays open */
    return fails(self, false) ? -((faulty *)self)->error : result;
}
static int call_sync_folder(void *self, const char *path) {
    return TRY(true, sync_folder(NULL, path));
}
static int call_rename(void *self, const char *from, const char *to) {
    return TRY(false, rename(NULL, from, to));
}
static int call_exchange(void *self, const char *a, const char *b) {
    if (((faulty *)self)->cannot_exchange)
        return -EINVAL;
    return TRY(false, exchange(NULL, a, b));
}
static int call_link(void *self, const char *target, const char *path) {
    return TRY(true, link(NULL, target, path));
}
static int call_remove(void *self, const char *path) {
    return TRY(false, remove(NULL, path));
}
static int call_remove_folder(void *self, const char *path) {
    return TRY(false, remove_folder(NULL, path));
}

static sw_storage faulty_storage(faulty *f) {
    real = sw_storage_system();
    return (sw_storage){.self = f, SW_STORAGE_CALLS(SW_STORAGE_FILL)};
}

/* Every checkpoint in the folder is whole, step `must` among them; returns how many there are. */
static int check_all(const saved_run *run, int64_t must) {
    sw_steps steps;
    sw_error err;
    bool is_there = false;
    assert_int_equal(sw_steps_list(run->folder, &steps, &err), SW_OK);
    int n = steps.n;
    for (int i = 0; i < n; i++) {
        if (!steps.item[i].is_whole)
            fail_msg("step %lld: %s", (long long)steps.item[i].step, steps.item[i].reason);
        check_step(run, steps.item[i].step);
        is_there |= steps.item[i].step == must;
    }
    sw_steps_free(&steps);
    assert_true(is_there);
    return n;
}

static bool is_there(const saved_run *run, const char *name) {
    char path[SW_PATH_BYTES];
    assert_int_equal(sw_path_join(path, run->folder, name, NULL), SW_OK);
    return sw_file_exists(path);
}

/* Steps 10 and 20 are there, 20 is saved again or 30 is saved, and one call of that fails. Returns
 * false when there are not so many calls: the save succeeded. */
static bool fail_once(saved_run *run, faulty *f, int fails_at, int error, bool goes_on,
                      int64_t step) {
    sw_error err = {0};
    int n_before;
    *f = (faulty){.cannot_exchange = f->cannot_exchange};
    save_step(run, 10);
    save_step(run, 20);
    n_before = check_all(run, 20);
    f->n_calls = 0;
    f->error = error;
    f->goes_on = goes_on;
    f->fails_at = fails_at;
    sw_status status = try_save(run, step, &err);
    bool failed = f->n_calls >= fails_at;
    *f = (faulty){.cannot_exchange = f->cannot_exchange};
    if (failed) { /* a removal that failed while giving up leaves files that the next start removes
                   */
        const sw_error *said = status == SW_OK ? &run->remark : &err;
        assert_int_equal(said->status, SW_NO_SPACE);
        assert_non_null(strstr(said->message, run->folder));
        assert_non_null(strstr(said->message, strerror(error)));
        assert_null(strchr(said->message, '\n'));
        assert_true(status == SW_OK || !is_there(run, "steps/.00000030.partial"));
        assert_true(check_all(run, status == SW_OK ? step : 20) >= n_before);
    }
    save_step(run, step); /* the disk is well again */
    check_all(run, step);
    assert_false(is_there(run, "steps/.00000010.removed"));
    assert_false(is_there(run, "steps/.00000020.partial"));
    return failed;
}

static void run_through(int error, bool goes_on, int64_t step, int64_t keep, bool cannot_exchange) {
    saved_run run;
    faulty f = {.cannot_exchange = cannot_exchange};
    sw_storage storage = faulty_storage(&f);
    int n = 1;
    begin_run_of(&run, 2, SKINNY_ROWS);
    run.storage = &storage;
    run.retention.keep = keep;
    for (; fail_once(&run, &f, n, error, goes_on, step); n++)
        ;
    assert_true(n > 30); /* the calls that there are, counted by hand, are more */
    end_run(&run);
}

static void each_call_runs_out_of_space(void **state) {
    (void)state;
    run_through(ENOSPC, true, 30, 0, false);
}

static void each_call_fails_once(void **state) {
    (void)state;
    run_through(EIO, false, 30, 0, false);
}

static void each_call_fails_while_a_step_is_replaced(void **state) {
    (void)state;
    run_through(EIO, false, 20, 0, false);
    run_through(EIO, false, 20, 0, true);
}

static const char RESTATED[] = "{\"rows_left_out\": 20}";

/* The checkpoint of step 20 is whole, and has its first state or the other. */
static bool check_replaced(const saved_run *run) {
    char saved[SAVED_STATE_BYTES];
    check_step(run, 20);
    sw_checkpoint *checkpoint = open_step(run, 20);
    bool is_replaced = strcmp(sw_checkpoint_state(checkpoint), RESTATED) == 0;
    saved_state(20, saved);
    assert_true(is_replaced || strcmp(sw_checkpoint_state(checkpoint), saved) == 0);
    assert_true(sw_checkpoint_validation_loss(checkpoint) == 2.5);
    sw_checkpoint_close(checkpoint);
    return is_replaced;
}

/* A checkpoint gets another state, and each call of that fails in turn. */
static void each_call_fails_while_one_is_replaced(void **state) {
    (void)state;
    saved_run run;
    faulty f = {0};
    sw_storage storage = faulty_storage(&f);
    sw_error err;
    char saved[SAVED_STATE_BYTES];
    int64_t bytes, again_bytes;
    begin_run_of(&run, 2, SKINNY_ROWS);
    run.storage = &storage;
    run.model_config = "{\"a\": \"\\u00e9\"}";
    run.validation_loss = 2.5;
    save_step(&run, 20);
    char *text = file_bytes(step_folder(&run, 20), "manifest.json", &bytes);
    for (int n = 1;; n++) {
        f = (faulty){.fails_at = n, .error = EIO};
        sw_status status = sw_save_replace_state(run.save[0], 20, RESTATED, &err);
        bool failed = f.n_calls >= n;
        f = (faulty){0};
        bool is_replaced = check_replaced(&run);
        assert_false(is_there(&run, "steps/00000020/manifest.json.partial"));
        if (!failed) {
            assert_true(status == SW_OK && is_replaced);
            assert_true(
                n >
                6); /* a name is freed; open, write, sync, close; rename; the folder is synced */
            break;
        }
        assert_int_equal(status, SW_NO_SPACE);
        assert_non_null(strstr(err.message, step_folder(&run, 20)));
        saved_state(20, saved);
        assert_int_equal(sw_save_replace_state(run.save[0], 20, saved, &err), SW_OK);
        assert_false(check_replaced(&run));
    }
    /* Nothing else of it has changed: with its first state it is what it was, to the byte. */
    saved_state(20, saved);
    assert_int_equal(sw_save_replace_state(run.save[0], 20, saved, &err), SW_OK);
    char *again = file_bytes(step_folder(&run, 20), "manifest.json", &again_bytes);
    assert_int_equal(bytes, again_bytes);
    assert_memory_equal(text, again, (size_t)bytes);
    free(text);
    free(again);
    /* What cannot be a state, and what is not there. */
    assert_int_equal(sw_save_replace_state(run.save[0], 20, "{", &err), SW_BUG);
    assert_int_equal(sw_save_replace_state(run.save[0], 30, "{}", &err), SW_BAD_FILE);
    assert_false(check_replaced(&run));
    end_run(&run);
}

/* With keep: 2 the third checkpoint removes the first. */
static void each_call_fails_while_old_ones_are_removed(void **state) {
    (void)state;
    saved_run run;
    faulty f = {0};
    sw_storage storage = faulty_storage(&f);
    sw_error err;
    int64_t step = 30;
    begin_run_of(&run, 1, SKINNY_ROWS);
    run.storage = &storage;
    run.retention.keep = 2;
    save_step(&run, 10);
    save_step(&run, 20);
    for (int n = 1;; n++, step += 10) {
        f = (faulty){.fails_at = n, .error = EIO};
        sw_status status = try_save(&run, step, &err);
        bool failed = f.n_calls >= n;
        f = (faulty){0};
        int there = check_all(&run, status == SW_OK ? step : step - 10);
        assert_true(there >= 2 && there <= 3);
        if (!failed) {
            assert_int_equal(there, 2);
            break;
        }
        save_step(&run, step);
        assert_int_equal(check_all(&run, step - 10), 2);
    }
    end_run(&run);
}

/* A checkpoint that another run takes is there whole or not at all, and the next try finds the way
 * free. */
static void each_call_fails_while_one_is_copied(void **state) {
    (void)state;
    saved_run run, other;
    faulty f = {0};
    sw_storage storage = faulty_storage(&f);
    sw_error err;
    int n = 0, n_failed = 0;
    begin_run_of(&run, 2, SKINNY_ROWS);
    save_step(&run, 20);
    sw_checkpoint *checkpoint = open_step(&run, 20);
    for (bool is_over = false; !is_over;) {
        begin_run_of(&other, 1, SKINNY_ROWS);
        save_step(&other, 10);
        f = (faulty){.fails_at = ++n, .error = EIO};
        sw_status status = sw_checkpoint_copy(checkpoint, &storage, other.folder, 1, &err);
        is_over = f.n_calls < n;
        f = (faulty){0};
        n_failed += status != SW_OK;
        if (status != SW_OK) {
            assert_int_equal(status, SW_NO_SPACE);
            assert_non_null(strstr(err.message, other.folder));
            check_all(&other, 10);
            assert_false(is_there(&other, "steps/.00000020.partial"));
            /* it has its name already, and the folder's entries were not synced, or `latest` was
             * not set */
            sw_status again = sw_checkpoint_copy(checkpoint, &storage, other.folder, 1, &err);
            assert_int_equal(again,
                             is_there(&other, "steps/00000020") && again ? SW_BAD_CONFIG : SW_OK);
        }
        assert_int_equal(check_all(&other, 20), 2);
        end_run(&other);
    }
    assert_true(n_failed > 20); /* four files are opened, reserved, written, synced, closed */
    sw_checkpoint_close(checkpoint);
    end_run(&run);
}

/* Writes that are interrupted and take a little at a time give the same files. */
static void short_and_interrupted_writes(void **state) {
    (void)state;
    saved_run run, plain;
    faulty f = {.is_odd = true};
    sw_storage storage = faulty_storage(&f);
    begin_run_of(&run, 3, SKINNY_ROWS);
    begin_run_of(&plain, 2, SKINNY_ROWS);
    run.storage = &storage;
    save_step(&run, 10);
    save_step(&plain, 10);
    check_step(&run, 10);
    int64_t bytes, plain_bytes;
    char *text = file_bytes(step_folder(&run, 10), "parameters.safetensors", &bytes);
    char *plain_text = file_bytes(step_folder(&plain, 10), "parameters.safetensors", &plain_bytes);
    assert_int_equal(bytes, plain_bytes);
    assert_memory_equal(text, plain_text, (size_t)bytes);
    free(text);
    free(plain_text);
    end_run(&run);
    end_run(&plain);
}

/* What the caller's memory has to say stops a save as a disk does. */
static sw_status failing_fetch(void *from, sw_state_kind kind, int group, const sw_piece *piece,
                               int64_t first, int64_t n, float *values, sw_error *err) {
    if (kind == SW_STATE_SECOND_MOMENT)
        return sw_fail(err, SW_ABORTED, "another rank failed");
    return fetch_state(from, kind, group, piece, first, n, values, err);
}

static void a_fetch_that_fails(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    begin_run_of(&run, 2, SKINNY_ROWS);
    save_step(&run, 10);
    close_saves(&run);
    for (int r = 0; r < 2; r++) {
        sw_save_options options = save_options(&run, r);
        options.fetch = r ? failing_fetch : fetch_state;
        assert_int_equal(sw_save_open(&options, &run.save[r], &err), SW_OK);
    }
    assert_int_equal(try_save(&run, 20, &err), SW_ABORTED);
    assert_int_equal(check_all(&run, 10), 1);
    assert_false(is_there(&run, "steps/.00000020.partial"));
    end_run(&run);
}

/* A checkpoint whose ranks have not all finished is not published, nor one that misses a group. */
static void a_part_that_is_missing(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    begin_run_of(&run, 2, SKINNY_ROWS);
    run.step = 10;
    assert_int_equal(open_saves(&run, &err), SW_OK);
    for (int r = 0; r < 2; r++)
        assert_int_equal(sw_save_begin(run.save[r], 10, &err), SW_OK);
    for (int g = 0; g < run.layout.n_groups; g++)
        assert_int_equal(sw_save_group(run.save[0], g, &err), SW_OK);
    assert_int_equal(sw_save_finish(run.save[0], &err), SW_OK);
    assert_int_equal(sw_save_finish(run.save[1], &err), SW_BUG);
    assert_true(sw_save_publish(run.save[0], &(sw_save_facts){"{}", NAN}, &run.remark, &err) !=
                SW_OK);
    sw_save_abandon(run.save[1]);
    sw_save_abandon(run.save[0]);
    assert_false(is_there(&run, "steps/.00000010.partial"));
    assert_false(is_there(&run, "steps/00000010"));
    end_run(&run);
}

/* A state that is no JSON object would make a manifest that nobody can read. */
static void a_state_that_is_no_object(void **state) {
    (void)state;
    static const char *const bad[] = {"", "1", "{", "{}}", "{} ", "[{}]", "{\"a\": \"}"};
    saved_run run;
    sw_error err;
    begin_run_of(&run, 1, SKINNY_ROWS);
    assert_int_equal(open_saves(&run, &err), SW_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(sw_save_begin(run.save[0], 10, &err), SW_OK);
        for (int g = 0; g < run.layout.n_groups; g++)
            assert_int_equal(sw_save_group(run.save[0], g, &err), SW_OK);
        assert_int_equal(sw_save_finish(run.save[0], &err), SW_OK);
        assert_int_equal(
            sw_save_publish(run.save[0], &(sw_save_facts){bad[i], NAN}, &run.remark, &err), SW_BUG);
        sw_save_abandon(run.save[0]);
    }
    end_run(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_runs_out_of_space),
        cmocka_unit_test(each_call_fails_once),
        cmocka_unit_test(each_call_fails_while_a_step_is_replaced),
        cmocka_unit_test(each_call_fails_while_one_is_replaced),
        cmocka_unit_test(each_call_fails_while_old_ones_are_removed),
        cmocka_unit_test(each_call_fails_while_one_is_copied),
        cmocka_unit_test(short_and_interrupted_writes),
        cmocka_unit_test(a_fetch_that_fails),
        cmocka_unit_test(a_part_that_is_missing),
        cmocka_unit_test(a_state_that_is_no_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
