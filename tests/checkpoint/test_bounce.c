/* test_bounce.c: what is sent arrives where it belongs, by whatever way; what cannot be written is
 * said, and buffers go on. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "checkpoint/bounce.h"
#include "checkpoint/manifest.h"
#include "support/refuse_call.h"

static char path[] = "/tmp/shardwise-bounce-XXXXXX";

static int make_file(void **state) {
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

static unsigned char byte_at(int64_t offset) {
    return (unsigned char)(offset * 2654435761u >> 13);
}

/* Lengths and offsets on both sides of blocks and of what goes past the cache. */
static void every_byte_arrives(void **state) {
    (void)state;
    static const int64_t lengths[] = {1,     4095,   4096,           4097, 12288,          65536,
                                      65537, 300000, SW_RANGE_BYTES, 5,    SW_RANGE_BYTES, 4096};
    const sw_storage *system = sw_storage_system();
    for (int way = 0; way < 3; way++) { /* with a ring, without direct writes, without a ring */
        sw_storage storage = *system;
        sw_bounce *bounce;
        sw_error err;
        storage.allows_ring = way < 2;
        sw_bounce_file file = {path, system->open(NULL, path, false),
                               way == 0 ? system->open(NULL, path, true) : -1};
        int64_t offset = 0;
        void *data;
        assert_int_equal(ftruncate(file.plain, 0), 0);
        assert_int_equal(sw_bounce_open(&storage, &bounce, &err), SW_OK);
        for (int round = 0; round < 5; round++)
            for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
                assert_int_equal(sw_bounce_take(bounce, offset, &data, &err), SW_OK);
                for (int64_t k = 0; k < lengths[i]; k++)
                    ((unsigned char *)data)[k] = byte_at(offset + k);
                assert_int_equal(sw_bounce_send(bounce, &file, lengths[i], &err), SW_OK);
                offset += lengths[i];
            }
        assert_int_equal(sw_bounce_wait(bounce, &err), SW_OK);
        sw_bounce_close(bounce);
        close(file.plain);
        if (file.direct >= 0)
            close(file.direct);
        char *text;
        int64_t bytes;
        assert_int_equal(sw_file_read(path, 1 << 30, &text, &bytes, &err), SW_OK);
        assert_int_equal(bytes, offset);
        for (int64_t k = 0; k < bytes; k++)
            if ((unsigned char)text[k] != byte_at(k))
                fail_msg("way %d: byte %lld", way, (long long)k);
        free(text);
    }
}

static sw_status send_zeros(sw_bounce *bounce, const sw_bounce_file *file, int64_t offset,
                            sw_error *err) {
    void *data;
    sw_status status = sw_bounce_take(bounce, offset, &data, err);
    if (status == SW_OK) {
        memset(data, 0, SW_RANGE_BYTES);
        status = sw_bounce_send(bounce, file, SW_RANGE_BYTES, err);
    }
    return status;
}

/* A direct write that is refused is made in the plain way. */
static void what_direct_writes_refuse_is_written_plainly(void **state) {
    (void)state;
    const sw_storage *system = sw_storage_system();
    sw_bounce *bounce;
    sw_error err;
    sw_bounce_file file = {path, system->open(NULL, path, false), open(path, O_RDONLY)};
    assert_int_equal(ftruncate(file.plain, 0), 0);
    assert_int_equal(sw_bounce_open(system, &bounce, &err), SW_OK);
    for (int i = 0; i < 9; i++)
        assert_int_equal(send_zeros(bounce, &file, (int64_t)i * SW_RANGE_BYTES, &err), SW_OK);
    assert_int_equal(sw_bounce_wait(bounce, &err), SW_OK);
    assert_int_equal(lseek(file.plain, 0, SEEK_END), 9 * (int64_t)SW_RANGE_BYTES);
    sw_bounce_close(bounce);
    close(file.plain);
    close(file.direct);
}

/* A write that fails on its way is told by a later call, with file, byte and reason; after that the
 * next file may be written. */
static void a_failure_is_told_once(void **state) {
    (void)state;
    const sw_storage *system = sw_storage_system();
    sw_bounce *bounce;
    sw_error err = {0};
    sw_bounce_file bad = {path, open(path, O_RDONLY), -1},
                   good = {path, system->open(NULL, path, false), -1};
    sw_status status = SW_OK;
    assert_int_equal(sw_bounce_open(system, &bounce, &err), SW_OK);
    for (int i = 0; i < 9 && status == SW_OK; i++)
        status = send_zeros(bounce, &bad, (int64_t)i * SW_RANGE_BYTES, &err);
    sw_status waited = sw_bounce_wait(bounce, status == SW_OK ? &err : NULL);
    assert_int_equal(status == SW_OK ? waited : status, SW_NO_SPACE);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, "byte 0 "));
    assert_non_null(strstr(err.message, "Bad file descriptor"));
    assert_int_equal(send_zeros(bounce, &good, 0, &err), SW_OK);
    assert_int_equal(sw_bounce_wait(bounce, &err), SW_OK);
    sw_bounce_close(bounce);
    close(bad.plain);
    close(good.plain);
}

/* A kernel, or a sandbox, that gives a ring and then refuses to serve it, from the beginning or
 * while writes are on their way: all that was sent is written, once. Nobody waits for ever, also
 * not where every call is interrupted. */
static void a_ring_that_fails_is_left(void **state) {
    (void)state;
    static const int errors[] = {ENOMEM, EPERM, ENOSYS, EBADF, EINTR, EAGAIN, EBUSY};
    enum { N_WRITES = 9, LEFT_OUT = 77 };
    const sw_storage *system = sw_storage_system();
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        for (int first = 0; first < 5; first++) { /* the write before which calls begin to fail */
            int how;
            pid_t child = fork();
            if (child == 0) {
                sw_bounce *bounce;
                sw_error err;
                sw_bounce_file file = {path, system->open(NULL, path, false), -1};
                sw_status status =
                    ftruncate(file.plain, 0) ? SW_BUG : sw_bounce_open(system, &bounce, &err);
                alarm(60);
                for (int k = 0; k < N_WRITES && !status; k++) {
                    void *data;
                    int64_t offset = (int64_t)k * SW_RANGE_BYTES;
                    if (k == first && !refuse_call(SYS_io_uring_enter, errors[i]))
                        _exit(LEFT_OUT);
                    status = sw_bounce_take(bounce, offset, &data, &err);
                    for (int64_t b = 0; b < SW_RANGE_BYTES && !status; b++)
                        ((unsigned char *)data)[b] = byte_at(offset + b);
                    status = status ? status : sw_bounce_send(bounce, &file, SW_RANGE_BYTES, &err);
                }
                status = status ? status : sw_bounce_wait(bounce, &err);
                sw_bounce_close(bounce);
                _exit((int)status);
            }
            assert_int_equal(waitpid(child, &how, 0), child);
            if (!WIFEXITED(how) || (WEXITSTATUS(how) && WEXITSTATUS(how) != LEFT_OUT))
                fail_msg("%s from write %d on: status %x", strerror(errors[i]), first, how);
            char *text;
            int64_t bytes;
            sw_error err;
            assert_int_equal(sw_file_read(path, 1 << 30, &text, &bytes, &err), SW_OK);
            assert_true(WEXITSTATUS(how) == LEFT_OUT ||
                        bytes == N_WRITES * (int64_t)SW_RANGE_BYTES);
            for (int64_t k = 0; k < bytes && !WEXITSTATUS(how); k++)
                if ((unsigned char)text[k] != byte_at(k))
                    fail_msg("%s from write %d on: byte %lld", strerror(errors[i]), first,
                             (long long)k);
            free(text);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_arrives),
        cmocka_unit_test(what_direct_writes_refuse_is_written_plainly),
        cmocka_unit_test(a_failure_is_told_once),
        cmocka_unit_test(a_ring_that_fails_is_left),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
