/* call.c: arguments find their parameters. */
#include "data/jinja/call.h"

#include "base/integer.h"
#include "data/jinja/builtins.h"
#include "data/jinja/compare.h"
#include "data/jinja/functions.h"
#include "data/jinja/iterate.h"
#include "data/jinja/loop.h"
#include "data/jinja/text.h"

const jinja_builtin *sw_jinja_find_builtin(const jinja_builtin *table, const jinja_text *name) {
    for (; table->name; table++)
        if (table->name[0] == name->bytes[0] && sw_jinja_is_word(name, table->name))
            return table;
    return NULL;
}

bool sw_jinja_give_method(jinja_run *run, const jinja_builtin *builtin, const jinja_value *self,
                          jinja_value *out) {
    jinja_method *method = sw_jinja_take(run, sizeof *method);
    if (!method)
        return false;
    *method = (jinja_method){builtin, *self};
    *out = (jinja_value){.kind = JINJA_METHOD, .as.method = method};
    return true;
}

static int find_parameter(const jinja_builtin *builtin, const jinja_text *name) {
    for (int i = 0; i < JINJA_MAX_PARAMETERS && builtin->parameters[i]; i++)
        if (sw_jinja_is_word(name, builtin->parameters[i]))
            return i;
    return -1;
}

static bool bind(jinja_run *run, const jinja_builtin *builtin, const jinja_arguments *arguments,
                 jinja_value *values) {
    int n = 0;
    while (n < JINJA_MAX_PARAMETERS && builtin->parameters[n])
        values[n++] = sw_jinja_missing();
    if (arguments->n > n)
        return sw_jinja_fail(run, "%s takes at most %d argument%s (%lld given)", builtin->name, n,
                             n == 1 ? "" : "s", (long long)arguments->n);
    for (int64_t i = 0; i < arguments->n; i++)
        values[i] = arguments->values[i];
    for (int64_t i = 0; i < arguments->n_keywords; i++) {
        const jinja_text *name = arguments->keywords[i].name.as.text;
        int at = find_parameter(builtin, name);
        if (at < 0)
            return sw_jinja_fail(run, "%s has no argument '%.*s'", builtin->name,
                                 (int)smaller(name->n_bytes, 200), name->bytes);
        if (values[at].kind != JINJA_MISSING)
            return sw_jinja_fail(run, "%s got two values for its argument '%s'", builtin->name,
                                 builtin->parameters[at]);
        values[at] = arguments->keywords[i].value;
    }
    for (int i = 0; i < builtin->n_required; i++)
        if (values[i].kind == JINJA_MISSING)
            return sw_jinja_fail(run, "%s needs its argument %d ('%s')", builtin->name, i + 1,
                                 builtin->parameters[i] + (builtin->parameters[i][0] == '/'));
    return true;
}

/* A call that waits: what it was called with, and what it gave once it was made. */
typedef struct deferred {
    const jinja_builtin *builtin;
    jinja_value self;
    jinja_value values[JINJA_MAX_PARAMETERS];
    jinja_arguments arguments;
} deferred;

static bool next_of_deferred(jinja_run *run, jinja_iterator *iterator, jinja_value *item,
                             bool *is_end) {
    const deferred *call = iterator->state;
    if (!iterator->inner) {
        jinja_value made;
        bool is_done = call->builtin->call_freely
                           ? call->builtin->call_freely(run, &call->self, &call->arguments, &made)
                           : call->builtin->call(run, &call->self, call->values, &made);
        if (!is_done)
            return false;
        iterator->inner = made.as.iterator;
    }
    return sw_jinja_next(run, iterator->inner, item, is_end);
}

static bool keep_arguments(jinja_run *run, const jinja_arguments *from, jinja_arguments *to) {
    jinja_value *values = sw_jinja_take(run, from->n * (int64_t)sizeof *values);
    jinja_keyword *keywords = sw_jinja_take(run, from->n_keywords * (int64_t)sizeof *keywords);
    if (!values || !keywords)
        return false;
    if (from->n)
        memcpy(values, from->values, (size_t)from->n * sizeof *values);
    if (from->n_keywords)
        memcpy(keywords, from->keywords, (size_t)from->n_keywords * sizeof *keywords);
    *to = (jinja_arguments){values, from->n, keywords, from->n_keywords};
    return true;
}

static bool defer(jinja_run *run, const jinja_builtin *builtin, const jinja_value *self,
                  const jinja_arguments *arguments, jinja_value *out) {
    deferred *call = sw_jinja_take(run, sizeof *call);
    if (!call)
        return false;
    *call = (deferred){.builtin = builtin, .self = *self};
    if (builtin->call_freely ? !keep_arguments(run, arguments, &call->arguments)
                             : !bind(run, builtin, arguments, call->values))
        return false;
    jinja_iterator iterator = {.next = next_of_deferred, .source = *self, .state = call};
    return sw_jinja_give_iterator(run, &iterator, out);
}

bool sw_jinja_call_builtin(jinja_run *run, const jinja_builtin *builtin, const jinja_value *self,
                           const jinja_arguments *arguments, jinja_value *out) {
    if (builtin->is_deferred)
        return defer(run, builtin, self, arguments, out);
    if (builtin->call_freely)
        return builtin->call_freely(run, self, arguments, out);
    jinja_value values[JINJA_MAX_PARAMETERS] = {{0}};
    return bind(run, builtin, arguments, values) && builtin->call(run, self, values, out);
}

bool sw_jinja_is_callable(const jinja_value *value) {
    switch (value->kind) {
    case JINJA_UNDEFINED: /* it has a __call__, which says that it is undefined */
    case JINJA_LOOP:
    case JINJA_MACRO:
    case JINJA_METHOD:
    case JINJA_FUNCTION:
    case JINJA_JOINER:
        return true;
    default:
        return false;
    }
}

bool sw_jinja_call(jinja_run *run, const jinja_value *called, const jinja_arguments *arguments,
                   jinja_value *out) {
    switch (called->kind) {
    case JINJA_UNDEFINED:
        return sw_jinja_fail_undefined(run, called);
    case JINJA_MACRO:
        return sw_jinja_call_macro(run, called->as.macro, arguments, out);
    case JINJA_METHOD:
        return sw_jinja_call_builtin(run, called->as.method->builtin, &called->as.method->self,
                                     arguments, out);
    case JINJA_FUNCTION: {
        jinja_value nothing = sw_jinja_missing();
        return sw_jinja_call_builtin(run, called->as.function, &nothing, arguments, out);
    }
    case JINJA_LOOP:
        return sw_jinja_loop_again(run, called->as.loop, arguments, out);
    case JINJA_JOINER:
        return sw_jinja_call_joiner(run, called->as.joiner, arguments, out);
    default:
        return sw_jinja_fail(run, "'%s' object is not callable", sw_jinja_type_name(called));
    }
}
