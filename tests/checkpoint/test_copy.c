/* test_copy.c: a checkpoint that becomes another run's, whatever happens meanwhile to the folder
 * that it came from. */
#include "checkpoint/saved_run.h"

#include <errno.h>
#include <sys/stat.h>

#include "checkpoint/copy.h"
#include "checkpoint/load_internal.h"

static void write_text(const char *folder, const char *name, const char *text) {
    char path[SW_PATH_BYTES];
    sw_error err;
    assert_int_equal(sw_path_join(path, folder, name, NULL), SW_OK);
    if (sw_file_write(path, text, (int64_t)strlen(text), &err) != SW_OK)
        fail_msg("%s", err.message);
}

/* What was opened is what is copied: its run removes the checkpoint meanwhile, and a newer one
 * stands at its path. */
static void the_checkpoint_goes_while_it_is_copied(void **state) {
    (void)state;
    saved_run from, to;
    sw_error err;
    char path[SW_PATH_BYTES];
    begin_run_of(&from, 2, SKINNY_ROWS);
    begin_run_of(&to, 1, SKINNY_ROWS);
    save_step(&from, 20);
    sw_checkpoint *removed = open_step(&from, 20), *replaced = open_step(&from, 20);
    strcpy(path, step_folder(&from, 20));
    assert_int_equal(sw_step_remove(from.storage, from.folder, 20, &err), SW_OK);
    if (sw_checkpoint_copy(removed, to.storage, to.folder, 1, &err) != SW_OK)
        fail_msg("removed: %s", err.message);
    check_step(&to, 20);
    assert_int_equal(sw_step_remove(to.storage, to.folder, 20, &err), SW_OK);
    save_step(&from, 30);
    assert_int_equal(rename(step_folder(&from, 30), path), 0);
    if (sw_checkpoint_copy(replaced, to.storage, to.folder, 1, &err) != SW_OK)
        fail_msg("replaced: %s", err.message);
    check_step(&to, 20);
    sw_checkpoint_close(removed);
    sw_checkpoint_close(replaced);
    end_run(&from);
    end_run(&to);
}

/* Somebody's file in what a killed run left of this very step stays, and stops an import as little
 * as a save. */
static void somebodys_file_in_a_left_over(void **state) {
    (void)state;
    saved_run from, to;
    sw_error err;
    char steps[SW_PATH_BYTES], partial[SW_PATH_BYTES], name[SW_STEP_NAME_BYTES];
    int64_t bytes;
    begin_run_of(&from, 1, SKINNY_ROWS);
    begin_run_of(&to, 1, SKINNY_ROWS);
    save_step(&from, 20);
    sw_step_partial_name(20, name);
    assert_int_equal(sw_path_join(steps, to.folder, "steps", NULL), SW_OK);
    assert_int_equal(sw_path_join(partial, to.folder, name, NULL), SW_OK);
    assert_int_equal(mkdir(steps, 0777), 0);
    assert_int_equal(mkdir(partial, 0777), 0);
    write_text(partial, "notes.txt", "mine");
    write_text(partial, "parameters.safetensors", "cut");
    sw_checkpoint *checkpoint = open_step(&from, 20);
    if (sw_checkpoint_copy(checkpoint, to.storage, to.folder, 1, &err) != SW_OK)
        fail_msg("%s", err.message);
    check_step(&to, 20);
    char *notes = file_bytes(step_folder(&to, 20), "notes.txt", &bytes);
    assert_string_equal(notes, "mine");
    free(notes);
    sw_checkpoint_close(checkpoint);
    end_run(&from);
    end_run(&to);
}

/* A person is sent to what is in the way: memory, the disk, the limit, rights, and not to rights
 * whatever it was. */
static void why_a_part_cannot_be_opened(void **state) {
    (void)state;
    static const struct {
        int error;
        sw_status status;
        const char *hint;
    } rows[] = {
        {ENOENT, SW_BAD_FILE, "this part is missing"},
        {ENOTDIR, SW_BAD_FILE, "a checkpoint is a folder"},
        {ELOOP, SW_BAD_FILE, "it is a link"},
        {EMFILE, SW_NO_MEMORY, "ulimit -n"},
        {ENFILE, SW_NO_MEMORY, "ulimit -n"},
        {ENOMEM, SW_NO_MEMORY, "free some memory"},
        {EIO, SW_BAD_FILE, "the disk may be failing"},
        {EACCES, SW_BAD_CONFIG, "give this user the right"},
        {EPERM, SW_BAD_CONFIG, "give this user the right"},
        {ESTALE, SW_BAD_FILE, "take another checkpoint"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sw_error err;
        assert_int_equal(sw_checkpoint_cannot_open("/nowhere", rows[i].error, &err),
                         rows[i].status);
        if (!strstr(err.message, rows[i].hint) || !strstr(err.message, strerror(rows[i].error)))
            fail_msg("'%s' is not in: %s", rows[i].hint, err.message);
        assert_true(strstr(rows[i].hint, "right") || !strstr(err.message, "right"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_checkpoint_goes_while_it_is_copied),
        cmocka_unit_test(somebodys_file_in_a_left_over),
        cmocka_unit_test(why_a_part_cannot_be_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
