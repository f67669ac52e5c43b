/* test_foreign.c: what has the name of a step, and is not what a run has written under it, is never
 * removed: not by a run that goes on, not to make room, and not when that step is saved. */
#include "checkpoint/saved_run.h"

#include <sys/stat.h>

enum { WAYS = 6 };

static const char *path_of(const saved_run *run, const char *name) {
    static char path[4][SW_PATH_BYTES];
    static int turn;
    char *p = path[turn++ % 4];
    assert_int_equal(sw_path_join(p, run->folder, name, NULL), SW_OK);
    return p;
}

static void shell(const char *format, const char *a, const char *b) {
    char command[4 * SW_PATH_BYTES];
    snprintf(command, sizeof command, format, a, b);
    assert_int_equal(system(command), 0);
}

/* Put something of somebody's at steps/00000030. */
static const char *put(const saved_run *run, int way) {
    const char *from = path_of(run, "steps/00000010"), *to = path_of(run, "steps/00000030");
    switch (way) {
    case 0: /* a checkpoint renamed */
        assert_int_equal(rename(from, to), 0);
        return "a checkpoint of another step, renamed";
    case 1:
        shell("cp -r '%s' '%s'", from, to);
        return "a copy of another step's checkpoint";
    case 2: /* its manifest is right, its data are not */
        shell("cp -r '%s' '%s'", from, to);
        assert_int_equal(truncate(path_of(run, "steps/00000030/parameters.safetensors"), 100), 0);
        return "a damaged copy of another step's checkpoint";
    case 3:
        assert_int_equal(symlink(from, to), 0);
        return "a link";
    case 4:
        assert_int_equal(mkdir(to, 0777), 0);
        shell("cp '%s'/parameters.safetensors '%s'", from, to);
        return "weights alone";
    default:
        shell("cp '%s'/manifest.json '%s'", from, to);
        return "a file";
    }
}

/* Folder, files and bytes, as text that is equal where they are. */
static void describe(const char *path, char *text, size_t room) {
    char command[2 * SW_PATH_BYTES];
    snprintf(command, sizeof command,
             "cd -P '%s' 2>/dev/null && find . -type f | sort | xargs cksum || cksum < '%s'", path,
             path);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    size_t n = fread(text, 1, room - 1, out);
    text[n] = 0;
    assert_int_equal(pclose(out), 0);
    assert_true(n > 0 && n < room - 1);
}

static void stays_whoever_wants_its_name(void **state) {
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        saved_run run;
        sw_error err;
        char before[1024], after[1024];
        begin_run_of(&run, 1, SKINNY_ROWS);
        save_step(&run, 10);
        save_step(&run, 20);
        const char *what = put(&run, way);
        describe(path_of(&run, "steps/00000030"), before, sizeof before);
        /* a run that goes on from 20 */
        assert_int_equal(sw_steps_clean(run.storage, run.folder, NULL, NULL, &err), SW_OK);
        assert_int_equal(sw_steps_remove_after(run.storage, run.folder, 20, &err), SW_OK);
        assert_int_equal(sw_step_remove(run.storage, run.folder, 30, &err), SW_OK);
        describe(path_of(&run, "steps/00000030"), after, sizeof after);
        if (strcmp(before, after) != 0)
            fail_msg("%s is not what it was: %s, now %s", what, before, after);
        /* and comes to that step, twice */
        close_saves(&run);
        run.retention.keep = way == 3 ? 0 : 1; /* what a link leads to may go when its turn comes */
        save_step(&run, 30);
        assert_non_null(strstr(run.remark.message, "steps/00000030.moved"));
        check_step(&run, 30);
        save_step(&run, 30);
        assert_string_equal(run.remark.message, "");
        save_step(&run, 40);
        describe(path_of(&run, "steps/00000030.moved"), after, sizeof after);
        if (strcmp(before, after) != 0)
            fail_msg("%s is not what it was after it was moved: %s, now %s", what, before, after);
        end_run(&run);
    }
}

/* Names are taken one after the other, and what has one keeps it. */
static void is_moved_to_a_free_name(void **state) {
    (void)state;
    saved_run run;
    char first[1024], now[1024];
    begin_run_of(&run, 2, SKINNY_ROWS);
    save_step(&run, 10);
    for (int i = 0; i < 3; i++) {
        put(&run, 1);
        save_step(&run, 30);
        assert_int_equal(
            rename(path_of(&run, "steps/00000030"), path_of(&run, "steps/00000030.mine")), 0);
        if (i == 0)
            describe(path_of(&run, "steps/00000030.mine"), first, sizeof first);
        describe(path_of(&run, "steps/00000030.mine"), now, sizeof now);
        assert_string_equal(first, now);
        shell("rm -r '%s'%s", path_of(&run, "steps/00000030.mine"), "");
    }
    assert_true(sw_file_exists(path_of(&run, "steps/00000030.moved")));
    assert_true(sw_file_exists(path_of(&run, "steps/00000030.moved.1")));
    assert_true(sw_file_exists(path_of(&run, "steps/00000030.moved.2")));
    assert_false(sw_file_exists(path_of(&run, "steps/00000030.moved.3")));
    end_run(&run);
}

/* Names that are no step's: whoever gives a checkpoint one has it for ever. */
static void other_names_are_not_looked_at(void **state) {
    (void)state;
    static const char *const names[] = {
        "00000010-keep",   "00000010.moved",        "best",      "10",
        "000000010",       ".00000010.removed.old", ".00000010", "00000010.removed",
        "00000010.partial"};
    enum { N = sizeof names / sizeof *names };
    saved_run run;
    sw_error err;
    char before[N][1024], after[1024], name[64];
    begin_run_of(&run, 1, SKINNY_ROWS);
    save_step(&run, 5);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "steps/%s", names[i]);
        shell("cp -r '%s' '%s'", path_of(&run, "steps/00000005"), path_of(&run, name));
        describe(path_of(&run, name), before[i], sizeof before[i]);
    }
    close_saves(&run);
    run.retention.keep = 1;
    assert_int_equal(sw_steps_clean(run.storage, run.folder, NULL, NULL, &err), SW_OK);
    assert_int_equal(sw_steps_remove_after(run.storage, run.folder, 1, &err), SW_OK);
    for (int i = 1; i <= 4; i++)
        save_step(&run, i * 5);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "steps/%s", names[i]);
        describe(path_of(&run, name), after, sizeof after);
        if (strcmp(before[i], after) != 0)
            fail_msg("%s is not what it was", name);
    }
    end_run(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stays_whoever_wants_its_name),
        cmocka_unit_test(is_moved_to_a_free_name),
        cmocka_unit_test(other_names_are_not_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
