/* Ranks that are about to do different things are told so, with the first line that differs and
 * both versions, before anything runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "execute/agree.h"

/* Every rank has lines "line 0" to "line n-1"; the odd one out has another text in line `differs`,
 * or n_fewer lines less. */
typedef struct texts {
    int64_t n, differs;
    int odd_one, n_odd; /* ranks from odd_one on */
    int64_t n_fewer;
} texts;

typedef struct view {
    const texts *texts;
    bool is_odd;
} view;

static size_t write_line(const void *self, int64_t i, char *line, size_t bytes) {
    const view *v = self;
    return (size_t)snprintf(line, bytes, "line %lld%s", (long long)i,
                            v->is_odd && i == v->texts->differs ? " of another kind" : "");
}

static sw_status compare(sw_comm *comm, void *arg, sw_error *err) {
    const texts *t = arg;
    int rank = sw_comm_rank(comm);
    const view v = {t, rank >= t->odd_one && rank < t->odd_one + t->n_odd};
    sw_status status =
        sw_agree(comm, NULL, "recipe", t->n - (v.is_odd ? t->n_fewer : 0), write_line, &v, err);
    return status ? status : sw_barrier(comm, err);
}

static sw_status launch(int n_ranks, bool as_threads, texts t, sw_error *err) {
    sw_launch_options options = SW_LAUNCH_OPTIONS_INIT;
    options.n_ranks = n_ranks;
    options.as_threads = as_threads;
    return sw_launch(&options, compare, &t, err);
}

static void equal_texts_agree(void **state) {
    sw_error err;
    (void)state;
    for (int n_ranks = 1; n_ranks <= 5; n_ranks++)
        for (int64_t n = 0; n < 3; n++)
            assert_int_equal(launch(n_ranks, n_ranks % 2, (texts){.n = n, .differs = -1}, &err),
                             SW_OK);
}

static void the_first_line_that_differs_is_named(void **state) {
    static const texts cases[] = {{1, 0, 1, 1, 0},      {1000, 0, 2, 1, 0}, {1000, 999, 3, 1, 0},
                                  {1000, 531, 1, 1, 0}, {64, 63, 2, 2, 0},  {65, 64, 1, 3, 0}};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const texts *t = &cases[i / 2];
        sw_error err = {0};
        char line[32], mine[64], other[64], odd[16];
        assert_int_equal(launch(4, i % 2, *t, &err), SW_MISMATCH);
        snprintf(line, sizeof line, "line %lld ", (long long)t->differs);
        snprintf(mine, sizeof mine, "rank 0: line %lld ", (long long)t->differs);
        snprintf(other, sizeof other, ": line %lld of another kind", (long long)t->differs);
        snprintf(odd, sizeof odd, "rank %d", t->odd_one);
        for (const char *const *text =
                 (const char *const[]){"recipe", line, mine, other, odd, NULL};
             *text; text++)
            if (!strstr(err.message, *text))
                fail_msg("'%s' is missing in: %s", *text, err.message);
    }
}

/* Rank 0 itself may be the odd one. */
static void rank_0_has_no_privilege(void **state) {
    sw_error err = {0};
    (void)state;
    assert_int_equal(launch(3, false, (texts){10, 4, 0, 1, 0}, &err), SW_MISMATCH);
    assert_non_null(strstr(err.message, "rank 0: line 4 of another kind"));
    assert_non_null(strstr(err.message, "rank 1: line 4"));
}

static void a_text_that_ends_early_differs(void **state) {
    sw_error err = {0};
    (void)state;
    for (int64_t n_fewer = 1; n_fewer <= 7; n_fewer += 3) {
        assert_int_equal(launch(3, false, (texts){7, -1, 2, 1, n_fewer}, &err), SW_MISMATCH);
        char line[32];
        snprintf(line, sizeof line, "rank 0: line %lld", (long long)(7 - n_fewer));
        assert_non_null(strstr(err.message, line));
        assert_non_null(strstr(err.message, "rank 2: (nothing)"));
    }
}

/* Lines of any length are compared to their last byte, and shown from where they differ. */
typedef struct long_line {
    int64_t bytes, differs;
    char other; /* there, on the last rank; 0: its line ends there */
} long_line;

typedef struct long_view {
    const long_line *line;
    bool is_last;
} long_view;

static size_t write_long_line(const void *self, int64_t i, char *line, size_t bytes) {
    const long_view *v = self;
    int64_t n = v->is_last && !v->line->other ? v->line->differs : v->line->bytes;
    for (int64_t at = 0; at < n && at + 1 < (int64_t)bytes; at++)
        line[at] =
            v->is_last && at == v->line->differs ? v->line->other : (char)('a' + (at + i) % 26);
    if (bytes)
        line[n < (int64_t)bytes ? n : (int64_t)bytes - 1] = 0;
    return (size_t)n;
}

static sw_status compare_long(sw_comm *comm, void *arg, sw_error *err) {
    const long_view v = {arg, sw_comm_rank(comm) == sw_comm_size(comm) - 1};
    return sw_agree(comm, NULL, "recipe", 3, write_long_line, &v, err);
}

static void long_lines_are_compared_wholly(void **state) {
    static const long_line cases[] = {{5000, 4999, '#'},     {5000, 4999, 0},   {5000, 2500, '#'},
                                      {300000, 299999, '#'}, {2048, 2047, '#'}, {2047, 2046, '#'},
                                      {241, 240, '#'},       {100, 99, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_error err = {0};
        sw_launch_options options = SW_LAUNCH_OPTIONS_INIT;
        options.n_ranks = 3;
        long_line line = cases[i], same = {line.bytes, -1, 0};
        same.other = 'x';
        assert_int_equal(sw_launch(&options, compare_long, &same, &err), SW_OK);
        assert_int_equal(sw_launch(&options, compare_long, &line, &err), SW_MISMATCH);
        assert_non_null(strstr(err.message, "first at line 0"));
        const char *mine = strstr(err.message, "· rank 0: "),
                   *other = strstr(err.message, "· rank 2: ");
        assert_true(mine && other);
        mine += strlen("· rank 0: "), other += strlen("· rank 2: ");
        size_t n_same = 0;
        while (mine[n_same] == other[n_same])
            n_same++;
        /* they part where the lines do, and the bytes before that say where it is */
        const int64_t at = line.differs;
        assert_int_equal(mine[n_same], 'a' + at % 26);
        assert_int_equal(other[n_same], line.other ? line.other : ' ');
        assert_int_equal(mine[n_same - 1], 'a' + (at - 1) % 26);
    }
}

/* Six ranks in two classes, 0 to 2 and 3 to 5: each class has lines of its own, but for one line of
 * one rank. */
typedef struct classes {
    int odd_one; /* rank; -1: none */
    int n_more;  /* lines of the second class */
} classes;

typedef struct class_view {
    int class;
    bool is_odd;
} class_view;

static size_t write_line_of_class(const void *self, int64_t i, char *line, size_t bytes) {
    const class_view *v = self;
    return (size_t)snprintf(line, bytes, "line %lld of class %d%s", (long long)i, v->class,
                            v->is_odd && i == 7 ? ", otherwise" : "");
}

static sw_status compare_by_class(sw_comm *comm, void *arg, sw_error *err) {
    const classes *c = arg;
    const int rank = sw_comm_rank(comm);
    sw_mesh mesh = sw_mesh_flat(6);
    mesh.size[SW_AXIS_SHARD] = 3;
    mesh.size[SW_AXIS_REPLICATE] = 2, mesh.stride[SW_AXIS_REPLICATE] = 3;
    const sw_rank_class class = sw_mesh_class(&mesh, SW_AXES(SW_AXIS_REPLICATE), rank);
    const class_view v = {class.number, rank == c->odd_one};
    sw_status status = sw_agree(comm, &class, "recipe", 20 + class.number * c->n_more,
                                write_line_of_class, &v, err);
    return status ? status : sw_barrier(comm, err);
}

/* Across classes ranks may differ, inside one they may not: refused with the class and two ranks of
 * it. */
static void ranks_are_compared_within_their_class(void **state) {
    (void)state;
    for (int odd_one = -1; odd_one < 6; odd_one++)
        for (int i = 0; i < 4; i++) {
            classes c = {odd_one, i / 2 ? 90 : 0};
            sw_launch_options options = SW_LAUNCH_OPTIONS_INIT;
            sw_error err = {0};
            char class[48], first[64], other[64];
            options.n_ranks = 6;
            options.as_threads = i % 2;
            sw_status status = sw_launch(&options, compare_by_class, &c, &err);
            if (odd_one < 0) {
                assert_int_equal(status, SW_OK);
                continue;
            }
            int of = odd_one / 3, is_first = odd_one % 3 == 0;
            assert_int_equal(status, SW_MISMATCH);
            snprintf(class, sizeof class, "ranks of replicate %d disagree on the recipe", of);
            snprintf(first, sizeof first, "rank %d: line 7 of class %d%s ·", 3 * of, of,
                     is_first ? ", otherwise" : "");
            snprintf(other, sizeof other, "rank %d: line 7 of class %d%s ·",
                     is_first ? odd_one + 1 : odd_one, of, is_first ? "" : ", otherwise");
            for (const char *const *text =
                     (const char *const[]){class, "first at line 7 ", first, other, NULL};
                 *text; text++)
                if (!strstr(err.message, *text))
                    fail_msg("'%s' is missing in: %s", *text, err.message);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_texts_agree),
        cmocka_unit_test(the_first_line_that_differs_is_named),
        cmocka_unit_test(rank_0_has_no_privilege),
        cmocka_unit_test(a_text_that_ends_early_differs),
        cmocka_unit_test(ranks_are_compared_within_their_class),
        cmocka_unit_test(long_lines_are_compared_wholly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
