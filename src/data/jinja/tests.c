/* tests.c: what stands behind `is`. */
#include "data/jinja/builtins.h"
#include "data/jinja/case.h"
#include "data/jinja/compare.h"
#include "data/jinja/execute.h"
#include "data/jinja/iterate.h"
#include "data/jinja/number.h"
#include "data/jinja/print.h"
#include "data/jinja/text.h"

/* value % n == wanted */
static bool leaves(jinja_run *run, const jinja_value *self, const jinja_value *n, int64_t wanted,
                   jinja_value *out) {
    jinja_value rest, other = sw_jinja_integer(wanted);
    bool is_equal;
    if (!sw_jinja_operate(run, JINJA_MODULO, self, n, &rest) ||
        !sw_jinja_equal(run, &rest, &other, &is_equal))
        return false;
    *out = sw_jinja_bool(is_equal);
    return true;
}

static bool test_odd(jinja_run *run, const jinja_value *self, const jinja_value *values,
                     jinja_value *out) {
    (void)values;
    jinja_value two = sw_jinja_integer(2);
    return leaves(run, self, &two, 1, out);
}

static bool test_even(jinja_run *run, const jinja_value *self, const jinja_value *values,
                      jinja_value *out) {
    (void)values;
    jinja_value two = sw_jinja_integer(2);
    return leaves(run, self, &two, 0, out);
}

static bool test_divisibleby(jinja_run *run, const jinja_value *self, const jinja_value *values,
                             jinja_value *out) {
    return leaves(run, self, &values[0], 0, out);
}

/* Tests of what kind a value is. */
#define KIND_TEST(name, condition)                                                       \
    static bool name(jinja_run *run, const jinja_value *self, const jinja_value *values, \
                     jinja_value *out) {                                                 \
        (void)run, (void)values;                                                         \
        *out = sw_jinja_bool(condition);                                                 \
        return true;                                                                     \
    }
KIND_TEST(test_defined, self->kind != JINJA_UNDEFINED)
KIND_TEST(test_undefined, self->kind == JINJA_UNDEFINED)
KIND_TEST(test_none, self->kind == JINJA_NONE)
KIND_TEST(test_boolean, self->kind == JINJA_BOOL)
KIND_TEST(test_true, self->kind == JINJA_BOOL && self->as.truth)
KIND_TEST(test_false, self->kind == JINJA_BOOL && !self->as.truth)
KIND_TEST(test_integer, self->kind == JINJA_INTEGER || self->kind == JINJA_BIG)
KIND_TEST(test_float, self->kind == JINJA_REAL)
KIND_TEST(test_string, self->kind == JINJA_TEXT)
KIND_TEST(test_mapping, self->kind == JINJA_DICT)
KIND_TEST(test_number, sw_jinja_is_number(self))
KIND_TEST(test_sequence, sw_jinja_size(self) >= 0 && !sw_jinja_is_view(self))
KIND_TEST(test_iterable, sw_jinja_is_iterable(self) || self->kind == JINJA_LOOP)
KIND_TEST(test_callable, sw_jinja_is_callable(self))
KIND_TEST(test_sameas, sw_jinja_same(self, &values[0]))
KIND_TEST(test_escaped, self->kind == JINJA_TEXT && self->as.text->is_markup)
#undef KIND_TEST

static bool known_name(jinja_run *run, const jinja_value *self,
                       const jinja_builtin *(*find)(const jinja_text *name), jinja_value *out) {
    uint64_t hash;
    if (!sw_jinja_hash(run, self, &hash))
        return false;
    *out = sw_jinja_bool(self->kind == JINJA_TEXT && find(self->as.text));
    return true;
}

static bool test_filter(jinja_run *run, const jinja_value *self, const jinja_value *values,
                        jinja_value *out) {
    (void)values;
    return known_name(run, self, sw_jinja_filter, out);
}

static bool test_test(jinja_run *run, const jinja_value *self, const jinja_value *values,
                      jinja_value *out) {
    (void)values;
    return known_name(run, self, sw_jinja_test, out);
}

static bool ask_text(jinja_run *run, const jinja_value *self, const char *method,
                     jinja_value *out) {
    jinja_text name = {.bytes = method, .n_bytes = (int64_t)strlen(method), .n_characters = -1};
    jinja_arguments nothing = {0};
    jinja_value text;
    return sw_jinja_give_text(sw_jinja_str(run, self), &text) &&
           sw_jinja_call_builtin(run, sw_jinja_find_builtin(sw_jinja_text_case_methods, &name),
                                 &text, &nothing, out);
}

static bool test_lower(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    (void)values;
    return ask_text(run, self, "islower", out);
}

static bool test_upper(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    (void)values;
    return ask_text(run, self, "isupper", out);
}

static bool test_in(jinja_run *run, const jinja_value *self, const jinja_value *values,
                    jinja_value *out) {
    bool is_in;
    if (!sw_jinja_contains(run, &values[0], self, &is_in))
        return false;
    *out = sw_jinja_bool(is_in);
    return true;
}

static bool test_eq(jinja_run *run, const jinja_value *self, const jinja_value *values,
                    jinja_value *out) {
    bool is_equal;
    if (!sw_jinja_equal(run, self, &values[0], &is_equal))
        return false;
    *out = sw_jinja_bool(is_equal);
    return true;
}

static bool test_ne(jinja_run *run, const jinja_value *self, const jinja_value *values,
                    jinja_value *out) {
    bool is_done = test_eq(run, self, values, out);
    out->as.truth = !out->as.truth;
    return is_done;
}

static bool test_order(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_order order, jinja_value *out) {
    bool holds;
    if (!sw_jinja_order(run, self, &values[0], order, &holds))
        return false;
    *out = sw_jinja_bool(holds);
    return true;
}

static bool test_lt(jinja_run *run, const jinja_value *self, const jinja_value *values,
                    jinja_value *out) {
    return test_order(run, self, values, JINJA_LESS, out);
}

static bool test_le(jinja_run *run, const jinja_value *self, const jinja_value *values,
                    jinja_value *out) {
    return test_order(run, self, values, JINJA_LESS_EQUAL, out);
}

static bool test_gt(jinja_run *run, const jinja_value *self, const jinja_value *values,
                    jinja_value *out) {
    return test_order(run, self, values, JINJA_GREATER, out);
}

static bool test_ge(jinja_run *run, const jinja_value *self, const jinja_value *values,
                    jinja_value *out) {
    return test_order(run, self, values, JINJA_GREATER_EQUAL, out);
}

#define ONE(parameter) .n_required = 1, .parameters = {parameter}
static const jinja_builtin tests[] = {{.name = "defined", .call = test_defined},
                                      {.name = "undefined", .call = test_undefined},
                                      {.name = "none", .call = test_none},
                                      {.name = "string", .call = test_string},
                                      {.name = "mapping", .call = test_mapping},
                                      {.name = "iterable", .call = test_iterable},
                                      {.name = "sequence", .call = test_sequence},
                                      {.name = "number", .call = test_number},
                                      {.name = "integer", .call = test_integer},
                                      {.name = "float", .call = test_float},
                                      {.name = "boolean", .call = test_boolean},
                                      {.name = "true", .call = test_true},
                                      {.name = "false", .call = test_false},
                                      {.name = "callable", .call = test_callable},
                                      {.name = "sameas", .call = test_sameas, ONE("other")},
                                      {.name = "escaped", .call = test_escaped},
                                      {.name = "odd", .call = test_odd},
                                      {.name = "even", .call = test_even},
                                      {.name = "divisibleby", .call = test_divisibleby, ONE("num")},
                                      {.name = "filter", .call = test_filter},
                                      {.name = "test", .call = test_test},
                                      {.name = "lower", .call = test_lower},
                                      {.name = "upper", .call = test_upper},
                                      {.name = "in", .call = test_in, ONE("seq")},
                                      {.name = "==", .call = test_eq, ONE("/b")},
                                      {.name = "eq", .call = test_eq, ONE("/b")},
                                      {.name = "equalto", .call = test_eq, ONE("/b")},
                                      {.name = "!=", .call = test_ne, ONE("/b")},
                                      {.name = "ne", .call = test_ne, ONE("/b")},
                                      {.name = ">", .call = test_gt, ONE("/b")},
                                      {.name = "gt", .call = test_gt, ONE("/b")},
                                      {.name = "greaterthan", .call = test_gt, ONE("/b")},
                                      {.name = "ge", .call = test_ge, ONE("/b")},
                                      {.name = ">=", .call = test_ge, ONE("/b")},
                                      {.name = "<", .call = test_lt, ONE("/b")},
                                      {.name = "lt", .call = test_lt, ONE("/b")},
                                      {.name = "lessthan", .call = test_lt, ONE("/b")},
                                      {.name = "<=", .call = test_le, ONE("/b")},
                                      {.name = "le", .call = test_le, ONE("/b")},
                                      {0}};

const jinja_builtin *sw_jinja_test(const jinja_text *name) {
    return sw_jinja_find_builtin(tests, name);
}
