/* test_file.c: files are read and written whole, or an error names them. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "support/folder.h"

static char folder[FOLDER_BYTES];
static char path[256], partial[300];

static int make_folder(void **state) {
    (void)state;
    if (!folder_make(folder))
        return -1;
    snprintf(path, sizeof path, "%s/x", folder);
    snprintf(partial, sizeof partial, "%s.partial", path);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void what_is_written_is_read(void **state) {
    (void)state;
    static const char *const texts[] = {"", "short", "a longer one that replaces it"};
    for (int i = 0; i < 3; i++) {
        char *text;
        int64_t bytes;
        sw_error err = {0};
        assert_int_equal(sw_file_write(path, texts[i], (int64_t)strlen(texts[i]), &err), SW_OK);
        assert_false(sw_file_exists(partial));
        assert_int_equal(sw_file_read(path, 100, &text, &bytes, &err), SW_OK);
        assert_string_equal(text, texts[i]);
        assert_int_equal(bytes, strlen(texts[i]));
        free(text);
    }
}

static void what_is_too_long_or_ends_early_is_refused(void **state) {
    (void)state;
    char *text, buffer[8];
    int fd;
    int64_t bytes;
    sw_error err = {0};
    assert_int_equal(sw_file_write(path, "12345", 5, &err), SW_OK);
    assert_int_equal(sw_file_read(path, 4, &text, NULL, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "has 5 bytes, at most 4"));
    assert_int_equal(sw_file_open(path, &fd, &bytes, &err), SW_OK);
    assert_int_equal(bytes, 5);
    assert_int_equal(sw_file_read_at(fd, path, buffer, 3, 2, &err), SW_OK);
    assert_memory_equal(buffer, "345", 3);
    assert_int_equal(sw_file_read_at(fd, path, buffer, 4, 2, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "ends at byte 5, 1 more are needed"));
    close(fd);
}

static void make_socket(const char *socket_path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path) <
                (int)sizeof address.sun_path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
}

/* A pipe in place of a file must not wait for its writer, nor for its reader; each kind is called
 * by its name. */
static void only_regular_files_are_read_and_made(void **state) {
    (void)state;
    char *text, pipe_path[300], socket_path[300], link_path[300];
    sw_error err = {0};
    int fd;
    snprintf(pipe_path, sizeof pipe_path, "%s/pipe", folder);
    snprintf(socket_path, sizeof socket_path, "%s/socket", folder);
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(symlink("pipe", link_path), 0);
    make_socket(socket_path);
    const struct {
        const char *path, *read_as, *made_as;
    } wrong[] = {
        {folder, "is a folder", "is a folder"},      {pipe_path, "is a pipe", "is a pipe"},
        {link_path, "is a pipe", "is a link"},       {socket_path, "is a socket", "is a socket"},
        {"/dev/zero", "is a device", "is a device"}, {"/nowhere/x", "No such file", "No such file"},
        {"", "No such file", "No such file"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(sw_file_read(wrong[i].path, 100, &text, NULL, &err), SW_BAD_FILE);
        assert_memory_equal(err.message, wrong[i].path, strlen(wrong[i].path));
        assert_non_null(strstr(err.message, wrong[i].read_as));
        assert_int_not_equal(sw_file_create(wrong[i].path, wrong[i].path, &fd, &err), SW_OK);
        assert_memory_equal(err.message, wrong[i].path, strlen(wrong[i].path));
        assert_non_null(strstr(err.message, wrong[i].made_as));
    }
    assert_int_equal(unlink(pipe_path) | unlink(link_path) | unlink(socket_path), 0);
}

/* What is in the way of the file that is written first stays there. */
static void a_pipe_under_the_temporary_name_stays(void **state) {
    (void)state;
    struct stat info;
    sw_error err = {0};
    assert_int_equal(mkfifo(partial, 0600), 0);
    assert_int_equal(sw_file_write(path, "a", 1, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "is a pipe"));
    assert_int_equal(lstat(partial, &info), 0);
    assert_int_equal(unlink(partial), 0);
}

/* A write that fails leaves what was there before, and no rest of itself. */
static void a_failed_write_changes_nothing(void **state) {
    (void)state;
    char *text, large[20000] = {0};
    sw_error err = {0};
    struct rlimit before, limit;
    assert_int_equal(sw_file_write(path, "old", 3, &err), SW_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){10000, before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    sw_status status = sw_file_write(path, large, sizeof large, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, SW_NO_SPACE);
    assert_false(sw_file_exists(partial));
    assert_int_equal(sw_file_read(path, 100, &text, NULL, &err), SW_OK);
    assert_string_equal(text, "old");
    free(text);
    assert_int_equal(sw_file_write("/nowhere/x", "", 0, &err), SW_NO_SPACE);
    assert_non_null(strstr(err.message, "/nowhere/x: cannot be written: No such file"));
}

/* A rename would put a file in their place, which for root goes as far as /dev/null. */
static void only_regular_files_are_replaced(void **state) {
    (void)state;
    char other[300];
    sw_error err = {0};
    struct stat info;
    snprintf(other, sizeof other, "%s/other", folder);
    assert_int_equal(mkfifo(other, 0600), 0);
    assert_int_equal(sw_file_write(other, "a", 1, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "is a pipe"));
    assert_int_equal(lstat(other, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    assert_int_equal(unlink(other), 0);
    assert_int_equal(symlink("x", other), 0);
    assert_int_equal(sw_file_write(other, "a", 1, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "is a link"));
    assert_int_equal(sw_file_write(folder, "a", 1, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "is a folder"));
    assert_int_equal(unlink(other), 0);
}

static void publishing_never_replaces(void **state) {
    (void)state;
    char other[300];
    sw_error err = {0};
    snprintf(other, sizeof other, "%s/other", folder);
    assert_int_equal(sw_file_write(path, "a", 1, &err), SW_OK);
    assert_int_equal(sw_file_publish(path, other, &err), SW_OK);
    assert_false(sw_file_exists(path));
    assert_int_equal(sw_file_write(path, "b", 1, &err), SW_OK);
    assert_int_equal(sw_file_publish(path, other, &err), SW_NO_SPACE);
    assert_non_null(strstr(err.message, "exists already"));
    assert_true(sw_file_exists(path));
    assert_int_equal(unlink(other), 0);
}

static void reserving_makes_the_file_as_long(void **state) {
    (void)state;
    struct stat info;
    sw_error err = {0};
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(sw_file_reserve(fd, path, 12345, &err), SW_OK);
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_size, 12345);
    assert_int_equal(sw_file_reserve(fd, path, INT64_MAX, &err), SW_NO_SPACE);
    close(fd);
}

/* The space of a folder that is still to be made is that of the one it will be made in. */
static void space_is_asked_of_the_nearest_folder_that_exists(void **state) {
    (void)state;
    char deeper[300];
    snprintf(deeper, sizeof deeper, "%s/a/b/c", folder);
    assert_true(sw_file_space(folder) > 0);
    assert_true(sw_file_space(deeper) > 0 && sw_file_space(deeper) < INT64_MAX);
    assert_true(sw_file_space("not/there") < INT64_MAX);
    assert_true(sw_file_space("/proc/self") == INT64_MAX); /* a file system that has no size */
    assert_true(sw_file_space("/nowhere/x") < INT64_MAX);
}

static void paths_are_joined_with_one_slash(void **state) {
    (void)state;
    char joined[SW_PATH_BYTES], *large = malloc(SW_PATH_BYTES + 1);
    sw_error err = {0};
    assert_int_equal(sw_path_join(joined, "a", "b", &err), SW_OK);
    assert_string_equal(joined, "a/b");
    assert_int_equal(sw_path_join(joined, "a/", "b", &err), SW_OK);
    assert_string_equal(joined, "a/b");
    assert_non_null(large);
    memset(large, 'x', SW_PATH_BYTES);
    large[SW_PATH_BYTES] = 0;
    assert_int_equal(sw_path_join(joined, large, "b", &err), SW_BAD_CONFIG);
    free(large);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_too_long_or_ends_early_is_refused),
        cmocka_unit_test(only_regular_files_are_read_and_made),
        cmocka_unit_test(a_pipe_under_the_temporary_name_stays),
        cmocka_unit_test(a_failed_write_changes_nothing),
        cmocka_unit_test(only_regular_files_are_replaced),
        cmocka_unit_test(publishing_never_replaces),
        cmocka_unit_test(reserving_makes_the_file_as_long),
        cmocka_unit_test(space_is_asked_of_the_nearest_folder_that_exists),
        cmocka_unit_test(paths_are_joined_with_one_slash),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
