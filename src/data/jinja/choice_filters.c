/* choice_filters.c: map, select, reject, selectattr, rejectattr: each item through a filter, a test
 * or an attribute, when it is asked for. */
#include "base/integer.h"
#include "data/jinja/builtins.h"
#include "data/jinja/compare.h"
#include "data/jinja/filters.h"
#include "data/jinja/iterate.h"
#include "data/jinja/text.h"

typedef struct choice {
    const jinja_builtin *builtin; /* NULL: none */
    jinja_arguments arguments;    /* for it */
    jinja_path path;              /* of the attribute */
    jinja_value instead;          /* of an undefined one */
    bool is_rejecting;
} choice;

static bool next_mapped(jinja_run *run, jinja_iterator *iterator, jinja_value *item, bool *is_end) {
    const choice *ch = iterator->state;
    jinja_value from;
    if (!sw_jinja_next(run, iterator->inner, &from, is_end) || *is_end)
        return run->status == SW_OK;
    if (ch->builtin)
        return sw_jinja_call_builtin(run, ch->builtin, &from, &ch->arguments, item);
    return sw_jinja_follow(run, &ch->path, &from, &ch->instead, item);
}

static bool next_chosen(jinja_run *run, jinja_iterator *iterator, jinja_value *item, bool *is_end) {
    const choice *ch = iterator->state;
    for (;;) {
        jinja_value tested, verdict;
        if (!sw_jinja_next(run, iterator->inner, item, is_end) || *is_end)
            return run->status == SW_OK;
        if (!sw_jinja_follow(run, &ch->path, item, NULL, &tested))
            return false;
        verdict = tested;
        if (ch->builtin &&
            !sw_jinja_call_builtin(run, ch->builtin, &tested, &ch->arguments, &verdict))
            return false;
        if (sw_jinja_truth(&verdict) != ch->is_rejecting)
            return true;
    }
}

/* Arguments behind the first `skipped`; they are kept for as long as the call may be made. */
static jinja_arguments rest_of(const jinja_arguments *arguments, int64_t skipped) {
    return (jinja_arguments){arguments->values + skipped, arguments->n - skipped,
                             arguments->keywords, arguments->n_keywords};
}

/* The items of what is false (but undefined and none) are none. */
static bool give(jinja_run *run, const jinja_value *self, const choice *ch, bool maps,
                 jinja_value *out) {
    jinja_value nothing = {.kind = JINJA_LIST};
    jinja_list *empty = sw_jinja_list(run, NULL, 0);
    jinja_iterator *inner = sw_jinja_take(run, sizeof *inner);
    choice *kept = sw_jinja_take(run, sizeof *kept);
    if (!empty || !inner || !kept)
        return false;
    nothing.as.list = empty;
    *kept = *ch;
    jinja_iterator iterator = {
        .next = maps ? next_mapped : next_chosen, .source = *self, .inner = inner, .state = kept};
    return sw_jinja_iterate(run, sw_jinja_truth(self) ? self : &nothing, inner) &&
           sw_jinja_give_iterator(run, &iterator, out);
}

static bool fail_unknown(jinja_run *run, const char *what, const jinja_value *name) {
    if (name->kind != JINJA_TEXT)
        return sw_jinja_fail(run, "a %s is named by a str, not %s", what, sw_jinja_type_name(name));
    return sw_jinja_fail(run, "No %s named '%.*s'", what, (int)smaller(name->as.text->n_bytes, 200),
                         name->as.text->bytes);
}

static bool filter_map(jinja_run *run, const jinja_value *self, const jinja_arguments *arguments,
                       jinja_value *out) {
    choice ch = {.instead = sw_jinja_missing()};
    if (!sw_jinja_truth(self)) /* then nobody looks at the arguments */
        return give(run, self, &ch, true, out);
    if (arguments->n == 0) {
        const jinja_value *attribute = NULL;
        for (int64_t i = 0; i < arguments->n_keywords; i++) {
            const jinja_keyword *keyword = &arguments->keywords[i];
            if (sw_jinja_is_word(keyword->name.as.text, "attribute"))
                attribute = &keyword->value;
            else if (sw_jinja_is_word(keyword->name.as.text, "default"))
                ch.instead = keyword->value;
            else
                return sw_jinja_fail(run, "map: unexpected keyword argument '%.*s'",
                                     (int)smaller(keyword->name.as.text->n_bytes, 200),
                                     keyword->name.as.text->bytes);
        }
        if (!attribute)
            return sw_jinja_fail(run, "map requires a filter argument");
        return sw_jinja_path(run, attribute, &ch.path) && give(run, self, &ch, true, out);
    }
    ch.builtin = arguments->values[0].kind == JINJA_TEXT
                     ? sw_jinja_filter(arguments->values[0].as.text)
                     : NULL;
    if (!ch.builtin)
        return fail_unknown(run, "filter", &arguments->values[0]);
    ch.arguments = rest_of(arguments, 1);
    return give(run, self, &ch, true, out);
}

static bool choose(jinja_run *run, const jinja_value *self, const jinja_arguments *arguments,
                   bool by_attribute, bool is_rejecting, jinja_value *out) {
    choice ch = {.is_rejecting = is_rejecting};
    if (!sw_jinja_truth(self))
        return give(run, self, &ch, false, out);
    if (by_attribute && arguments->n == 0)
        return sw_jinja_fail(run, "Missing parameter for attribute name");
    if (by_attribute && !sw_jinja_path(run, &arguments->values[0], &ch.path))
        return false;
    if (arguments->n > by_attribute) {
        const jinja_value *name = &arguments->values[by_attribute];
        ch.builtin = name->kind == JINJA_TEXT ? sw_jinja_test(name->as.text) : NULL;
        if (!ch.builtin)
            return fail_unknown(run, "test", name);
        ch.arguments = rest_of(arguments, by_attribute + 1);
    }
    return give(run, self, &ch, false, out);
}

static bool filter_select(jinja_run *run, const jinja_value *self, const jinja_arguments *arguments,
                          jinja_value *out) {
    return choose(run, self, arguments, false, false, out);
}

static bool filter_reject(jinja_run *run, const jinja_value *self, const jinja_arguments *arguments,
                          jinja_value *out) {
    return choose(run, self, arguments, false, true, out);
}

static bool filter_selectattr(jinja_run *run, const jinja_value *self,
                              const jinja_arguments *arguments, jinja_value *out) {
    return choose(run, self, arguments, true, false, out);
}

static bool filter_rejectattr(jinja_run *run, const jinja_value *self,
                              const jinja_arguments *arguments, jinja_value *out) {
    return choose(run, self, arguments, true, true, out);
}

const jinja_builtin sw_jinja_choice_filters[] = {
    {.name = "map", .call_freely = filter_map, .is_deferred = true},
    {.name = "select", .call_freely = filter_select, .is_deferred = true},
    {.name = "reject", .call_freely = filter_reject, .is_deferred = true},
    {.name = "selectattr", .call_freely = filter_selectattr, .is_deferred = true},
    {.name = "rejectattr", .call_freely = filter_rejectattr, .is_deferred = true},
    {0}};
