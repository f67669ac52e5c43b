/* operate.c: + - * / // % ** on values of any kind: numbers, texts and lists joined, repeated and
 * formatted. */
#include "base/integer.h"
#include "data/jinja/collection.h"
#include "data/jinja/compare.h"
#include "data/jinja/execute.h"
#include "data/jinja/markup.h"
#include "data/jinja/number.h"
#include "data/jinja/percent.h"
#include "data/jinja/text.h"

static bool join_texts(jinja_run *run, jinja_text *a, jinja_text *b, jinja_value *out) {
    bool is_markup = a->is_markup || b->is_markup;
    if (is_markup) {
        a = sw_jinja_escape(run, a);
        b = a ? sw_jinja_escape(run, b) : NULL;
    }
    jinja_text *joined = b ? sw_jinja_join(run, a, b) : NULL;
    if (joined && is_markup != joined->is_markup)
        joined = sw_jinja_as_markup(run, joined, is_markup);
    return sw_jinja_give_text(joined, out);
}

static bool repeat_text(jinja_run *run, const jinja_text *text, int64_t times, jinja_value *out) {
    jinja_start start = sw_jinja_start(run);
    if (!sw_jinja_write_repeated(run, text->bytes, text->n_bytes, times))
        return false;
    jinja_text *repeated = sw_jinja_collect(run, start);
    if (repeated)
        repeated->is_markup = text->is_markup;
    return sw_jinja_give_text(repeated, out);
}

static bool repeat_list(jinja_run *run, const jinja_value *whole, int64_t times, jinja_value *out) {
    const jinja_list *list = whole->as.list;
    int64_t n = times <= 0 || list->n == 0         ? 0
                : times > INT64_MAX / 64 / list->n ? INT64_MAX / 64
                                                   : times * list->n;
    jinja_value *items = sw_jinja_take(run, n * (int64_t)sizeof *items);
    if (!items || !sw_jinja_spend(run, n))
        return false;
    for (int64_t i = 0; i < n; i++)
        items[i] = list->items[i % list->n];
    return sw_jinja_give_list(sw_jinja_list(run, items, n), whole->kind, out);
}

static bool repeat(jinja_run *run, const jinja_value *whole, int64_t times, jinja_value *out) {
    return whole->kind == JINJA_TEXT ? repeat_text(run, whole->as.text, times, out)
                                     : repeat_list(run, whole, times, out);
}

static bool fail_operands(jinja_run *run, jinja_sign sign, const jinja_value *a,
                          const jinja_value *b) {
    static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "**"};
    if (a->kind == JINJA_UNDEFINED || b->kind == JINJA_UNDEFINED)
        return sw_jinja_fail_undefined(run, a->kind == JINJA_UNDEFINED ? a : b);
    if (sign == JINJA_ADD && (a->kind == JINJA_TEXT || sw_jinja_is_sequence(a)))
        return sw_jinja_fail(run, "can only concatenate %s (not \"%s\") to %s%s",
                             sw_jinja_type_name(a), sw_jinja_type_name(b), sw_jinja_type_name(a),
                             a->kind == JINJA_TEXT ? "; `~` joins anything" : "");
    return sw_jinja_fail(run, "unsupported operand type(s) for %s: '%s' and '%s'", signs[sign],
                         sw_jinja_type_name(a), sw_jinja_type_name(b));
}

bool sw_jinja_operate(jinja_run *run, jinja_sign sign, const jinja_value *a, const jinja_value *b,
                      jinja_value *out) {
    if (sw_jinja_is_number(a) && sw_jinja_is_number(b))
        return sw_jinja_calculate(run, sign, a, b, out);
    bool a_repeats = a->kind == JINJA_TEXT || sw_jinja_is_sequence(a),
         b_repeats = b->kind == JINJA_TEXT || sw_jinja_is_sequence(b);
    int64_t times;
    if (sign == JINJA_ADD && a->kind == b->kind && a->kind == JINJA_TEXT)
        return join_texts(run, a->as.text, b->as.text, out);
    if (sign == JINJA_ADD && a->kind == b->kind && a_repeats)
        return sw_jinja_give_list(sw_jinja_list_join(run, a->as.list, b->as.list), a->kind, out);
    if (sign == JINJA_MULTIPLY && a_repeats && sw_jinja_index_of(b, &times))
        return repeat(run, a, times, out);
    if (sign == JINJA_MULTIPLY && b_repeats && sw_jinja_index_of(a, &times))
        return repeat(run, b, times, out);
    if (sign == JINJA_MODULO && a->kind == JINJA_TEXT)
        return sw_jinja_percent(run, a->as.text, b, out);
    return fail_operands(run, sign, a, b);
}
