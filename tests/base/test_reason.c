/* test_reason.c: what is advised fits what went wrong, whoever asks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/reason.h"

static const sw_call_kind kinds[] = {SW_CALL_READ, SW_CALL_WRITE, SW_CALL_PROCESS, SW_CALL_MEMORY};

/* Words that must stand in the hint for a cause, and such as may stand in no hint for it. */
static const struct {
    int error;
    sw_call_kind kind;
    const char *needed, *forbidden;
} rows[] = {
    {ENOSPC, SW_CALL_WRITE, "free some space", "right"},
    {EDQUOT, SW_CALL_WRITE, "quota", "right"},
    {EROFS, SW_CALL_WRITE, "only be read", "free some"},
    {EACCES, SW_CALL_WRITE, "this user may write", "free some"},
    {EACCES, SW_CALL_READ, "right to read", "free some"},
    {EPERM, SW_CALL_WRITE, "this user may write", "free some"},
    {ENAMETOOLONG, SW_CALL_WRITE, "shorter", "free some"},
    {EMFILE, SW_CALL_WRITE, "ulimit -n", "space"},
    {EMFILE, SW_CALL_READ, "ulimit -n", "path"},
    {ENFILE, SW_CALL_READ, "fs.file-max", "path"},
    {ENOENT, SW_CALL_READ, "check the path", "right"},
    {ENOENT, SW_CALL_WRITE, "make the folder first", "free some"},
    {EFBIG, SW_CALL_WRITE, "ulimit -f", "path"},
    {EIO, SW_CALL_READ, "disk may be failing", "path"},
    {EIO, SW_CALL_WRITE, "disk may be failing", "right"},
    {ENOMEM, SW_CALL_READ, "free some memory", "path"},
    {EAGAIN, SW_CALL_PROCESS, "ulimit -u", "path"},
    {ENOMEM, SW_CALL_MEMORY, "memory", "path"},
    {ESTALE, SW_CALL_WRITE, "network file system", "free some"},
    {EINTR, SW_CALL_WRITE, "signals", "free some"},
    {ENOSYS, SW_CALL_WRITE, "sandbox", "free some"},
};

static void hints_fit_their_causes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *hint = sw_call_hint(rows[i].kind, rows[i].error);
        if (!strstr(hint, rows[i].needed) || strstr(hint, rows[i].forbidden))
            fail_msg("%s: %s", strerror(rows[i].error), hint);
    }
}

/* What the process or the machine is short of says nothing about a file: nobody may take it for a
 * damaged one. */
static void a_shortage_is_no_damage(void **state) {
    (void)state;
    static const int shortages[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS, EAGAIN, EINTR, ENOLCK},
                     others[] = {ENOENT, EIO, EISDIR, EINVAL};
    for (size_t i = 0; i < sizeof shortages / sizeof *shortages; i++)
        assert_int_equal(sw_call_status(SW_CALL_READ, shortages[i]), SW_NO_MEMORY);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(sw_call_status(SW_CALL_READ, others[i]), SW_BAD_FILE);
    for (int error = 1; error < 134; error++)
        assert_int_equal(sw_call_status(SW_CALL_WRITE, error), SW_NO_SPACE);
}

/* Any errno, known here or not, gives one line with what strerror says and no hanging separator. */
static void every_errno_has_words(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int error = 1; error < 134; error++) {
            sw_error err = {0}, negative = {0};
            sw_fail_call(&err, kinds[k], error, "%s: cannot be seen", "x");
            sw_fail_call(&negative, kinds[k], -error, "%s: cannot be seen", "x");
            assert_string_equal(err.message, negative.message);
            assert_non_null(strstr(err.message, strerror(error)));
            assert_true(strncmp(err.message, "x: cannot be seen: ", 19) == 0);
            assert_true(err.message[strlen(err.message) - 1] != ' ' && !strchr(err.message, '\n'));
        }
}

/* A call that is interrupted again and again is given up in the end. */
static void interruptions_end(void **state) {
    (void)state;
    int n_tries = 0, n = 0;
    while (sw_is_interruption(EINTR, &n_tries))
        n++;
    assert_int_equal(n, SW_MOST_INTERRUPTIONS - 1);
    n_tries = 0;
    assert_false(sw_is_interruption(EIO, &n_tries));
    assert_true(sw_is_interruption(EINTR, &n_tries));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hints_fit_their_causes),
        cmocka_unit_test(a_shortage_is_no_damage),
        cmocka_unit_test(every_errno_has_words),
        cmocka_unit_test(interruptions_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
