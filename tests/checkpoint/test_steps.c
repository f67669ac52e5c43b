/* test_steps.c: which checkpoints stay, and one run in a folder at a time. */
#include "checkpoint/saved_run.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "checkpoint/run_lock.h"
#include "support/folder.h"
#include "support/refuse_call.h"

/* What stays of the steps 10, 20 ... 100 with losses, as a string of their first digits. */
static const char *kept(int64_t keep, int64_t keep_every, const double losses[10]) {
    static char text[16];
    sw_kept_step list[10];
    sw_retention retention = {keep, keep_every};
    int n = 0;
    for (int i = 0; i < 10; i++)
        list[i] = (sw_kept_step){(i + 1) * 10, losses ? losses[i] : NAN};
    for (int i = 0; i < 10; i++)
        if (sw_retention_keeps(&retention, list, 10, i))
            text[n++] = "1234567890"[i];
    text[n] = 0;
    return text;
}

static void which_stay(void **state) {
    (void)state;
    const double losses[10] = {NAN, 3, 2, 2, NAN, 2.5, 4, 5, 6, 7};
    assert_string_equal(kept(0, 0, NULL), "1234567890");
    assert_string_equal(kept(3, 0, NULL), "890");
    assert_string_equal(kept(1, 0, NULL), "0");
    assert_string_equal(kept(1, 30, NULL), "3690");
    assert_string_equal(kept(2, 0, losses), "390");
    assert_string_equal(kept(100, 7, losses), "1234567890");
}

/* The same while a run saves: newest two, every 40, and the best. */
static void saving_removes_the_others(void **state) {
    (void)state;
    saved_run run;
    sw_steps steps;
    sw_error err;
    char text[128] = "";
    begin_run_of(&run, 2, SKINNY_ROWS);
    save_step(&run, 5); /* was there before this run */
    close_saves(&run);
    run.retention = (sw_retention){2, 40};
    for (int i = 1; i <= 10; i++) {
        run.validation_loss = i == 3 ? 1 : i == 6 ? 2 : NAN;
        save_step(&run, i * 10);
        assert_int_equal(sw_steps_list(run.folder, &steps, &err), SW_OK);
        assert_true(steps.n >= (i > 1 ? 2 : 1) && steps.item[0].step == i * 10);
        sw_steps_free(&steps);
    }
    assert_int_equal(sw_steps_list(run.folder, &steps, &err), SW_OK);
    for (int i = 0; i < steps.n; i++) {
        sprintf(text + strlen(text), "%lld ", (long long)steps.item[i].step);
        assert_true(steps.item[i].is_whole && steps.item[i].bytes > 0 && steps.item[i].seconds > 0);
    }
    sw_steps_free(&steps);
    assert_string_equal(text, "100 90 80 40 30 ");
    end_run(&run);
}

static void rejected(void *to, int64_t step, const char *message) {
    (void)to;
    fail_msg("step %lld is passed over: %s", (long long)step, message);
}

/* Who asks while a run saves and removes sees whole checkpoints: one that goes while looked at is
 * not there, not damaged. */
static void lists_beside_a_run_that_removes(void **state) {
    (void)state;
    saved_run run;
    sw_steps steps;
    sw_error err;
    int outcome, n_lists = 0;
    int64_t step;
    begin_run_of(&run, 1, SKINNY_ROWS);
    run.retention.keep = 1;
    save_step(&run, 1);
    pid_t writer = fork();
    if (writer == 0) {
        for (int i = 2; i < 400; i++)
            if (try_save(&run, i, &err) != SW_OK)
                _exit(1);
        _exit(0);
    }
    for (; waitpid(writer, &outcome, WNOHANG) == 0; n_lists++) {
        assert_int_equal(sw_steps_list(run.folder, &steps, &err), SW_OK);
        for (int i = 0; i < steps.n; i++)
            if (!steps.item[i].is_whole)
                fail_msg("step %lld of list %d: %s", (long long)steps.item[i].step, n_lists,
                         steps.item[i].reason);
        sw_steps_free(&steps);
        assert_int_equal(newest_good_step(run.folder, 1, rejected, NULL, &step, &err), SW_OK);
    }
    assert_true(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0 && n_lists > 0);
    end_run(&run);
}

/* Who reads a step while a run saves it again and again reads one of them, whole. */
static void reads_beside_a_run_that_saves_again(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    int outcome, n_reads = 0;
    begin_run_of(&run, 1, SKINNY_ROWS);
    save_step(&run, 10);
    pid_t writer = fork();
    if (writer == 0) {
        for (int i = 0; i < 1000; i++)
            if (try_save(&run, 10, &err) != SW_OK)
                _exit(1);
        _exit(0);
    }
    for (; waitpid(writer, &outcome, WNOHANG) == 0; n_reads++) {
        sw_checkpoint *checkpoint;
        if (sw_checkpoint_open(step_folder(&run, 10), &checkpoint, &err) != SW_OK)
            fail_msg("opening %d: %s", n_reads, err.message);
        sw_checkpoint_close(checkpoint);
        if (sw_checkpoint_open_good(step_folder(&run, 10), 1, &checkpoint, &err) != SW_OK)
            fail_msg("reading %d: %s", n_reads, err.message);
        sw_checkpoint_close(checkpoint);
    }
    assert_true(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0 && n_reads > 0);
    end_run(&run);
}

/* What is damaged is damaged, and said to be so once: only what was replaced is read again. */
static void a_damaged_one_is_not_asked_twice(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    sw_checkpoint *checkpoint;
    char path[SW_PATH_BYTES];
    begin_run_of(&run, 1, SKINNY_ROWS);
    save_step(&run, 10);
    assert_int_equal(sw_path_join(path, step_folder(&run, 10), "first_moment.safetensors", &err),
                     SW_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(sw_checkpoint_open_good(step_folder(&run, 10), 1, &checkpoint, &err),
                     SW_BAD_FILE);
    assert_non_null(strstr(err.message, "missing"));
    assert_null(strstr(err.message, "replaced"));
    end_run(&run);
}

/* The lock is held as long as any process that inherited it lives, and not longer, even when it is
 * killed. */
static void a_lock_dies_with_its_last_holder(void **state) {
    (void)state;
    char folder[FOLDER_BYTES], words[64];
    sw_run_lock lock, second;
    sw_error err;
    int ready[2];
    assert_true(folder_make(folder));
    assert_int_equal(pipe(ready), 0);
    pid_t holder = fork();
    if (holder == 0) { /* a supervisor, which has a rank */
        if (sw_run_lock_take(folder, &lock, &err) != SW_OK)
            _exit(1);
        pid_t rank = fork();
        if (rank == 0)
            for (;;)
                pause();
        (void)!write(ready[1], &rank, sizeof rank);
        for (;;)
            pause();
    }
    pid_t rank;
    assert_int_equal(read(ready[0], &rank, sizeof rank), sizeof rank);
    assert_int_equal(sw_run_lock_take(folder, &lock, &err), SW_BAD_CONFIG);
    snprintf(words, sizeof words, "process %ld on host", (long)holder);
    assert_non_null(strstr(err.message, words));
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    assert_int_equal(sw_run_lock_take(folder, &lock, &err),
                     SW_BAD_CONFIG); /* the rank still lives */
    kill(rank, SIGKILL);
    for (int i = 0; i < 1000 && sw_run_lock_take(folder, &lock, &err) != SW_OK; i++)
        usleep(10000); /* it is not ours to wait for */
    assert_true(lock.descriptor >= 0);
    assert_int_equal(sw_run_lock_take(folder, &second, &err), SW_BAD_CONFIG);
    sw_run_lock_release(&lock);
    assert_int_equal(sw_run_lock_take(folder, &second, &err), SW_OK);
    sw_run_lock_release(&second);
    sw_run_lock_release(&second);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(folder_remove(folder), 0);
}

/* A lock that is a link, or a folder that is not there. */
static void what_cannot_be_locked(void **state) {
    (void)state;
    char folder[FOLDER_BYTES], path[64];
    sw_run_lock lock;
    sw_error err;
    assert_true(folder_make(folder));
    snprintf(path, sizeof path, "%s/.lock", folder);
    assert_int_equal(symlink("/tmp/shardwise-elsewhere", path), 0);
    assert_int_equal(sw_run_lock_take(folder, &lock, &err), SW_NO_SPACE);
    assert_non_null(strstr(err.message, "link"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(sw_run_lock_take(folder, &lock, &err), SW_NO_SPACE);
    assert_non_null(strstr(err.message, folder));
}

/* Where the file system has no locks the folder is taken all the same, and it can be said that it
 * is not protected. Any other failure is one. */
static void locks_that_are_missing(void **state) {
    (void)state;
    static const int errors[] = {ENOSYS, ENOLCK, EOPNOTSUPP, EINVAL, EIO, EINTR};
    enum { N_MISSING = 4, LEFT_OUT = 77 };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        char folder[FOLDER_BYTES], path[64], text[SW_MESSAGE_BYTES];
        int how;
        assert_true(folder_make(folder));
        pid_t child = fork();
        if (child == 0) {
            sw_run_lock lock;
            sw_error err = {0};
            if (!refuse_call(SYS_flock, errors[i]))
                _exit(LEFT_OUT);
            sw_status status = sw_run_lock_take(folder, &lock, &err);
            if (i >= N_MISSING)
                _exit(status != SW_NO_SPACE || !strstr(err.message, strerror(errors[i])));
            sw_run_lock_warning(&lock, folder, text, sizeof text);
            bool is_told = strstr(text, folder) && strstr(text, "no locks") &&
                           strstr(text, strerror(errors[i]));
            _exit(status || lock.missing != errors[i] || lock.descriptor < 0 || !is_told);
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFEXITED(how) && (WEXITSTATUS(how) == 0 || WEXITSTATUS(how) == LEFT_OUT));
        snprintf(path, sizeof path, "%s/.lock", folder);
        unlink(path);
        assert_int_equal(rmdir(folder), 0);
    }
}

/* A folder that cannot be read to its end, or shows nothing although `latest` leads into it, is no
 * list of fewer checkpoints: a run that believed it would begin anew. */
static void a_folder_that_is_not_read_is_not_empty(void **state) {
    (void)state;
    static const int errors[] = {EIO, EBADF,
                                 ENOENT}; /* glibc takes the last for the end of the folder */
    enum { LEFT_OUT = 77 };
    saved_run run;
    sw_error err;
    begin_run_of(&run, 1, SKINNY_ROWS);
    save_step(&run, 10);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        int how;
        pid_t child = fork();
        if (child == 0) {
            sw_steps steps;
            if (!refuse_call(SYS_getdents64, errors[i]))
                _exit(LEFT_OUT);
            sw_status status = sw_steps_list(run.folder, &steps, &err);
            _exit(status != SW_BAD_FILE || !strstr(err.message, run.folder));
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        if (!WIFEXITED(how) || (WEXITSTATUS(how) && WEXITSTATUS(how) != LEFT_OUT))
            fail_msg("%s: %x", strerror(errors[i]), how);
    }
    end_run(&run);
}

/* A file of a checkpoint that cannot be looked at is not therefore damaged: nobody may fall back
 * from it and remove it. */
static void what_cannot_be_looked_at_is_not_damaged(void **state) {
    (void)state;
    enum { LEFT_OUT = 77 };
    saved_run run;
    sw_error err;
    int how;
    begin_run_of(&run, 1, SKINNY_ROWS);
    save_step(&run, 10);
    pid_t child = fork();
    if (child == 0) {
        sw_checkpoint *checkpoint;
        if (!refuse_call(SYS_newfstatat, ENOMEM))
            _exit(LEFT_OUT);
        _exit(sw_checkpoint_open(step_folder(&run, 10), &checkpoint, &err) != SW_NO_MEMORY);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && (!WEXITSTATUS(how) || WEXITSTATUS(how) == LEFT_OUT));
    end_run(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(which_stay),
        cmocka_unit_test(saving_removes_the_others),
        cmocka_unit_test(lists_beside_a_run_that_removes),
        cmocka_unit_test(reads_beside_a_run_that_saves_again),
        cmocka_unit_test(a_damaged_one_is_not_asked_twice),
        cmocka_unit_test(a_lock_dies_with_its_last_holder),
        cmocka_unit_test(what_cannot_be_locked),
        cmocka_unit_test(locks_that_are_missing),
        cmocka_unit_test(a_folder_that_is_not_read_is_not_empty),
        cmocka_unit_test(what_cannot_be_looked_at_is_not_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
