/* test_metrics.c: lines of metrics.jsonl and events.jsonl, read back with a JSON library that is
 * not ours. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "observe/events.h"
#include "observe/metrics.h"

static char path[] = "/tmp/shardwise-lines-XXXXXX";

static int make_file(void **state) {
    (void)state;
    strcpy(strrchr(path, '-'), "-XXXXXX");
    int descriptor = mkstemp(path);
    return descriptor < 0 ? -1 : close(descriptor);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

static sw_step_metrics ordinary_step(void) {
    sw_step_metrics m = {.step = INT64_C(5000000000),
                         .loss = 0.1,
                         .grad_norm = 1.0 / 3.0,
                         .grad_norm_clipped = 5e-324,
                         .learning_rate = 3e-4,
                         .tokens = 98304,
                         .supervised_tokens = 98303,
                         .tokens_per_second = 1234.5678901234567,
                         .step_seconds = 2,
                         .compute_seconds = 1.7976931348623157e308,
                         .wait_seconds = 0,
                         .gather_bytes = INT64_MAX,
                         .reduce_bytes = 0,
                         .flops_per_second = 1e12};
    for (int class = 0; class < SW_N_MEMORY_CLASSES; class ++) {
        m.memory.planned[class] = 1000 + class;
        m.memory.peak[class] = 2000 + class;
    }
    m.memory.resident = 77, m.memory.rank = 3;
    return m;
}

static json_t *parse_line(const char *text, size_t n) {
    json_error_t error;
    assert_int_equal(text[n - 1], '\n');
    assert_null(memchr(text, '\n', n - 1));
    json_t *line = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    if (!line)
        fail_msg("%s in %.*s", error.text, (int)n, text);
    return line;
}

static double real_of(json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}
static long long integer_of(json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void a_step_has_exactly_the_keys_of_the_contract(void **state) {
    (void)state;
    static const char *const keys[] = {"step",
                                       "loss",
                                       "grad_norm",
                                       "grad_norm_clipped",
                                       "learning_rate",
                                       "tokens",
                                       "supervised_tokens",
                                       "tokens_per_second",
                                       "step_seconds",
                                       "compute_seconds",
                                       "wait_seconds",
                                       "gather_wait_seconds",
                                       "reduce_wait_seconds",
                                       "decide_wait_seconds",
                                       "moving_seconds",
                                       "communication_wait_seconds",
                                       "gather_bytes",
                                       "reduce_bytes",
                                       "flops_per_second",
                                       "memory"};
    static const char *const classes[] = {"parameters",  "gradients", "optimizer",
                                          "activations", "gather",    "reduce",
                                          "logits",      "scratch",   "transport"};
    const size_t n_keys = sizeof keys / sizeof keys[0];
    sw_json_line line;
    sw_step_metrics m = ordinary_step();
    sw_metrics_format(&m, &line);
    json_t *object = parse_line(line.text, line.n);
    assert_int_equal(json_object_size(object), n_keys);
    for (size_t i = 0; i < n_keys; i++)
        assert_non_null(json_object_get(object, keys[i]));
    json_t *memory = json_object_get(object, "memory");
    assert_int_equal(json_object_size(memory), 4);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(integer_of(json_object_get(memory, "planned"), classes[i]), 1000 + i);
        assert_int_equal(integer_of(json_object_get(memory, "peak"), classes[i]), 2000 + i);
    }
    assert_int_equal(json_object_size(json_object_get(memory, "planned")), 9);
    assert_int_equal(integer_of(memory, "resident"), 77);
    assert_int_equal(integer_of(memory, "rank"), 3);
    json_decref(object);

    m.has_validation_loss = true, m.validation_loss = 2.5, m.skipped = "because";
    sw_metrics_format(&m, &line);
    object = parse_line(line.text, line.n);
    assert_int_equal(json_object_size(object), n_keys + 2);
    assert_true(real_of(object, "validation_loss") == 2.5);
    assert_string_equal(json_string_value(json_object_get(object, "skipped")), "because");
    json_decref(object);
}

static void numbers_read_back_as_the_same_numbers(void **state) {
    (void)state;
    sw_json_line line;
    sw_step_metrics m = ordinary_step();
    sw_metrics_format(&m, &line);
    json_t *object = parse_line(line.text, line.n);
    assert_true(integer_of(object, "step") == m.step);
    assert_true(integer_of(object, "gather_bytes") == m.gather_bytes);
    assert_true(real_of(object, "loss") == m.loss);
    assert_true(real_of(object, "grad_norm") == m.grad_norm);
    assert_true(real_of(object, "grad_norm_clipped") == m.grad_norm_clipped);
    assert_true(real_of(object, "learning_rate") == m.learning_rate);
    assert_true(real_of(object, "tokens_per_second") == m.tokens_per_second);
    assert_true(real_of(object, "step_seconds") == m.step_seconds);
    assert_true(real_of(object, "compute_seconds") == m.compute_seconds);
    assert_true(real_of(object, "flops_per_second") == m.flops_per_second);
    json_decref(object);
}

/* JSON has no NaN: a skipped step has null and the reason. */
static void what_is_not_finite_is_null(void **state) {
    (void)state;
    sw_json_line line;
    sw_step_metrics m = ordinary_step();
    m.loss = NAN, m.grad_norm = INFINITY, m.grad_norm_clipped = -INFINITY,
    m.skipped = "the loss is not finite";
    sw_metrics_format(&m, &line);
    json_t *object = parse_line(line.text, line.n);
    assert_true(json_is_null(json_object_get(object, "loss")));
    assert_true(json_is_null(json_object_get(object, "grad_norm")));
    assert_true(json_is_null(json_object_get(object, "grad_norm_clipped")));
    json_decref(object);
}

static void lines_are_appended_to_what_is_there(void **state) {
    (void)state;
    sw_json_lines *metrics;
    sw_step_metrics m = ordinary_step();
    for (m.step = 1; m.step <= 4; m.step++) { /* opened anew each time, as a resumed run does */
        assert_int_equal(sw_json_lines_open(path, &metrics, NULL), SW_OK);
        assert_int_equal(sw_metrics_write(metrics, &m, NULL), SW_OK);
        sw_json_lines_close(metrics);
    }
    FILE *file = fopen(path, "r");
    char text[SW_JSON_LINE_BYTES];
    for (int step = 1; step <= 4; step++) {
        assert_non_null(fgets(text, sizeof text, file));
        json_t *object = parse_line(text, strlen(text));
        assert_int_equal(integer_of(object, "step"), step);
        json_decref(object);
    }
    assert_null(fgets(text, sizeof text, file));
    fclose(file);
}

static void a_file_that_cannot_be_written_is_an_error_with_its_name(void **state) {
    (void)state;
    sw_json_lines *metrics;
    sw_error err;
    assert_int_equal(sw_json_lines_open("/no-such-folder/metrics.jsonl", &metrics, &err),
                     SW_NO_SPACE);
    assert_non_null(strstr(err.message, "/no-such-folder/metrics.jsonl"));
    assert_int_equal(sw_json_lines_open("/dev/full", &metrics, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "/dev/full"));
}

/* The disk takes the first half of a line: nothing of it stays, and the file still ends with a
 * whole line. */
static void half_a_line_is_taken_back(void **state) {
    (void)state;
    sw_json_lines *metrics;
    sw_error err;
    struct stat before, after;
    struct rlimit ordinary, tight;
    sw_step_metrics m = ordinary_step();
    assert_int_equal(sw_json_lines_open(path, &metrics, NULL), SW_OK);
    assert_int_equal(sw_metrics_write(metrics, &m, NULL), SW_OK);
    assert_int_equal(stat(path, &before), 0);

    getrlimit(RLIMIT_FSIZE, &ordinary);
    tight = ordinary;
    tight.rlim_cur = (rlim_t)before.st_size + 100;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &tight);
    sw_status status = sw_metrics_write(metrics, &m, &err);
    setrlimit(RLIMIT_FSIZE, &ordinary);
    signal(SIGXFSZ, handler);

    assert_int_equal(status, SW_NO_SPACE);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    sw_json_lines_close(metrics);
}

/* Where half a line cannot even be cut off, nothing is put behind it before that is possible. */
static bool refuses_to_cut;
int ftruncate(int descriptor, off_t bytes) {
    if (refuses_to_cut) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_ftruncate, descriptor, bytes);
}

static void no_line_follows_half_a_line(void **state) {
    (void)state;
    sw_json_lines *events;
    struct stat before, after;
    struct rlimit ordinary, tight;
    sw_error err;
    assert_int_equal(sw_events_open(path, &events, NULL), SW_OK);
    assert_int_equal(sw_events_write(events, "start", 0, "one", NULL, 0, NULL), SW_OK);
    assert_int_equal(stat(path, &before), 0);
    getrlimit(RLIMIT_FSIZE, &ordinary);
    tight = ordinary;
    tight.rlim_cur = (rlim_t)before.st_size + 10;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &tight);
    refuses_to_cut = true;
    sw_status first = sw_events_write(events, "save", 1, "two", NULL, 0, &err);
    setrlimit(RLIMIT_FSIZE, &ordinary);
    signal(SIGXFSZ, handler);
    assert_int_equal(first, SW_NO_SPACE);
    assert_non_null(strstr(err.message, "File too large")); /* the cause, not what came after it */
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, before.st_size + 10);
    assert_int_equal(sw_events_write(events, "save", 2, "three", NULL, 0, &err), SW_NO_SPACE);
    assert_non_null(strstr(err.message, "Input/output error"));
    refuses_to_cut = false;
    assert_int_equal(sw_events_write(events, "save", 3, "four", NULL, 0, NULL), SW_OK);
    sw_json_lines_close(events);

    static const int steps[] = {0, 3};
    char text[SW_JSON_LINE_BYTES];
    FILE *file = fopen(path, "r");
    for (int i = 0; i < 2; i++) {
        assert_non_null(fgets(text, sizeof text, file));
        json_t *object = parse_line(text, strlen(text));
        assert_int_equal(integer_of(object, "step"), steps[i]);
        json_decref(object);
    }
    assert_null(fgets(text, sizeof text, file));
    fclose(file);
}

static void an_event_says_when_what_and_why(void **state) {
    (void)state;
    sw_json_lines *events;
    const time_t before = time(NULL);
    assert_int_equal(sw_events_open(path, &events, NULL), SW_OK);
    const sw_detail details[] = {sw_detail_text("path", "a\"b\\c\n\x01\x7f"),
                                 sw_detail_integer("in_a_row", 3),
                                 sw_detail_real("factor", 0.5),
                                 sw_detail_text("unicode", "s\xc3\xa9 \xf0\x9f\x98\x80"),
                                 sw_detail_text("not_utf8", "a\xff\xc3(\xe2\x82"),
                                 sw_detail_text("none", NULL)};
    assert_int_equal(
        sw_events_write(events, "skip", 17, "the norm is not finite", details, 6, NULL), SW_OK);
    sw_json_lines_close(events);

    char text[SW_JSON_LINE_BYTES];
    FILE *file = fopen(path, "r");
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    json_t *object = parse_line(text, strlen(text));
    assert_int_equal(json_object_size(object), 10);
    assert_string_equal(json_string_value(json_object_get(object, "event")), "skip");
    assert_int_equal(integer_of(object, "step"), 17);
    assert_string_equal(json_string_value(json_object_get(object, "reason")),
                        "the norm is not finite");
    assert_string_equal(json_string_value(json_object_get(object, "path")), "a\"b\\c\n\x01\x7f");
    assert_int_equal(integer_of(object, "in_a_row"), 3);
    assert_true(real_of(object, "factor") == 0.5);
    assert_string_equal(json_string_value(json_object_get(object, "unicode")),
                        "s\xc3\xa9 \xf0\x9f\x98\x80");
    /* One replacement character, ef bf bd, for each byte that is none: ff; c3 before '('; e2 and 82
     * that lack a third. */
    assert_string_equal(json_string_value(json_object_get(object, "not_utf8")),
                        "a\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd");
    assert_true(json_is_null(json_object_get(object, "none")));

    struct tm utc = {0};
    const char *rest =
        strptime(json_string_value(json_object_get(object, "time")), "%Y-%m-%dT%H:%M:%S.", &utc);
    assert_non_null(rest);
    assert_int_equal(strlen(rest), 4);
    assert_int_equal(rest[3], 'Z');
    assert_in_range(timegm(&utc), before, time(NULL));
    json_decref(object);
}

/* A line that does not fit is refused whole; the writer is as good as new afterwards. */
static void a_line_that_is_too_long_is_refused(void **state) {
    (void)state;
    sw_json_lines *events;
    sw_error err;
    struct stat info;
    char *longest = malloc(SW_JSON_LINE_BYTES + 1);
    memset(longest, 'x', SW_JSON_LINE_BYTES);
    longest[SW_JSON_LINE_BYTES] = '\0';
    assert_int_equal(sw_events_open(path, &events, NULL), SW_OK);
    assert_int_equal(sw_events_write(events, "start", 0, longest, NULL, 0, &err), SW_BUG);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 0);
    assert_int_equal(sw_events_write(events, "start", 0, "short", NULL, 0, &err), SW_OK);
    sw_json_lines_close(events);
    free(longest);
}

static void put_text(const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void expect_text(const char *wanted) {
    char found[512] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t n = fread(found, 1, sizeof found - 1, file);
    fclose(file);
    found[n] = 0;
    assert_string_equal(found, wanted);
}

/* A run that goes on after step 20: what later steps left is gone, and what was not finished. */
static void lines_of_later_steps_are_cut_off(void **state) {
    static const char first[] = "{\"step\": 10, \"loss\": 1}\n{\"step\": 20, \"loss\": 2}\n";
    static const char *const rest[] = {"", "{\"step\": 21, \"loss\": 3}\n{\"step\": 22}\n",
                                       "{\"step\": 30, \"lo", "{", "{\"step\": 20"};
    (void)state;
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        char text[256];
        snprintf(text, sizeof text, "%s%s", first, rest[i]);
        put_text(text);
        assert_int_equal(sw_metrics_cut(path, 20, NULL), SW_OK);
        expect_text(first);
    }
    assert_int_equal(sw_metrics_cut(path, 0, NULL), SW_OK);
    expect_text("");
    assert_int_equal(sw_metrics_cut("/tmp/shardwise-no-such-file", 3, NULL), SW_OK);
}

/* A line that a power cut has left without its end does not spoil the next. */
static void a_torn_line_gives_way_to_the_next(void **state) {
    static const char *const torn[] = {"", "{\"event\": \"sa", "x"};
    (void)state;
    for (size_t i = 0; i < sizeof torn / sizeof *torn; i++) {
        char text[128];
        sw_json_lines *events;
        snprintf(text, sizeof text, "{\"event\": \"start\"}\n%s", torn[i]);
        put_text(text);
        assert_int_equal(sw_events_open(path, &events, NULL), SW_OK);
        sw_json_lines_close(events);
        expect_text("{\"event\": \"start\"}\n");
    }
}

static void a_list_of_reals_reads_back_as_the_same_numbers(void **state) {
    const double values[] = {0.1, 1e300, -2.5e-300, NAN, 3};
    sw_json_line line;
    (void)state;
    for (int n = 0; n <= 5; n++) {
        sw_json_line_begin(&line);
        sw_json_line_reals(&line, "list", values, n);
        sw_json_line_integer(&line, "after", 1);
        sw_json_line_end(&line);
        json_t *root = json_loads(line.text, 0, NULL), *list = json_object_get(root, "list");
        assert_int_equal(json_array_size(list), n);
        for (int i = 0; i < n; i++) {
            const json_t *item = json_array_get(list, (size_t)i);
            assert_true(isfinite(values[i]) ? json_number_value(item) == values[i]
                                            : json_is_null(item));
        }
        assert_int_equal(json_integer_value(json_object_get(root, "after")), 1);
        json_decref(root);
    }
}

#define FILE_TEST(test) cmocka_unit_test_setup_teardown(test, make_file, remove_file)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_has_exactly_the_keys_of_the_contract),
        cmocka_unit_test(numbers_read_back_as_the_same_numbers),
        cmocka_unit_test(what_is_not_finite_is_null),
        cmocka_unit_test(a_list_of_reals_reads_back_as_the_same_numbers),
        FILE_TEST(lines_of_later_steps_are_cut_off),
        FILE_TEST(a_torn_line_gives_way_to_the_next),
        FILE_TEST(lines_are_appended_to_what_is_there),
        cmocka_unit_test(a_file_that_cannot_be_written_is_an_error_with_its_name),
        FILE_TEST(half_a_line_is_taken_back),
        FILE_TEST(no_line_follows_half_a_line),
        FILE_TEST(an_event_says_when_what_and_why),
        FILE_TEST(a_line_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
