/* functions.c: range, dict, namespace, raise_exception, strftime_now, cycler, joiner; methods of
 * loops and numbers. */
#include "data/jinja/functions.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "base/integer.h"
#include "data/jinja/big.h"
#include "data/jinja/builtins.h"
#include "data/jinja/collection.h"
#include "data/jinja/compare.h"
#include "data/jinja/iterate.h"
#include "data/jinja/loop.h"
#include "data/jinja/number.h"
#include "data/jinja/print.h"
#include "data/jinja/text.h"

enum { MAX_TIME_BYTES = 64 << 10 };

static bool call_range(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    (void)self;
    int64_t at[3] = {0, 0, 1};
    for (int i = 0; i < 3 && values[i].kind != JINJA_MISSING; i++)
        if (!sw_jinja_index_of(&values[i], &at[i]))
            return values[i].kind == JINJA_UNDEFINED
                       ? sw_jinja_fail_undefined(run, &values[i])
                       : sw_jinja_fail(run,
                                       "'%s' object cannot be interpreted as an integer in range()",
                                       sw_jinja_type_name(&values[i]));
    if (values[1].kind == JINJA_MISSING) {
        at[1] = at[0];
        at[0] = 0;
    }
    if (at[2] == 0)
        return sw_jinja_fail(run, "the third argument of range() must not be zero");
    /* In 128 bits nothing of this overflows. */
    __int128 span = at[2] > 0 ? (__int128)at[1] - at[0] : (__int128)at[0] - at[1],
             step = at[2] > 0 ? at[2] : -(__int128)at[2];
    __int128 n = span > 0 ? (span + step - 1) / step : 0;
    if (n > JINJA_MAX_RANGE)
        return sw_jinja_fail(run, "a range of more than %d numbers", JINJA_MAX_RANGE);
    jinja_range *range = sw_jinja_take(run, sizeof *range);
    if (!range)
        return false;
    *range = (jinja_range){at[0], at[1], at[2], (int64_t)n};
    *out = (jinja_value){.kind = JINJA_RANGE, .as.range = range};
    return true;
}

/* What dict(...) and namespace(...) are given: a dict or pairs, and keywords. */
static bool fill_dict(jinja_run *run, const jinja_arguments *arguments, const char *name,
                      jinja_dict *dict) {
    if (arguments->n > 1)
        return sw_jinja_fail(run, "%s takes at most 1 positional argument", name);
    const jinja_value *from = arguments->n ? &arguments->values[0] : NULL;
    if (from && from->kind == JINJA_UNDEFINED)
        return sw_jinja_fail_undefined(run, from);
    if (from && from->kind == JINJA_DICT) {
        for (int64_t i = 0; i < from->as.dict->n; i++)
            if (!sw_jinja_set(run, dict, &from->as.dict->entries[i].key,
                              &from->as.dict->entries[i].value))
                return false;
    } else if (from) {
        jinja_iterator iterator;
        jinja_value item;
        bool is_end = false;
        if (!sw_jinja_iterate(run, from, &iterator))
            return false;
        while (sw_jinja_next(run, &iterator, &item, &is_end) && !is_end) {
            const jinja_value *pair;
            int64_t n;
            if (!sw_jinja_items_of(run, &item, &pair, &n))
                return false;
            if (n != 2)
                return sw_jinja_fail(run, "%s needs pairs of key and value; one has %lld items",
                                     name, (long long)n);
            if (!sw_jinja_set(run, dict, &pair[0], &pair[1]))
                return false;
        }
        if (!is_end)
            return false;
    }
    for (int64_t i = 0; i < arguments->n_keywords; i++)
        if (!sw_jinja_set(run, dict, &arguments->keywords[i].name, &arguments->keywords[i].value))
            return false;
    return true;
}

static bool call_dict(jinja_run *run, const jinja_value *self, const jinja_arguments *arguments,
                      jinja_value *out) {
    (void)self;
    jinja_dict *dict = sw_jinja_dict(run, 0);
    if (!dict || !fill_dict(run, arguments, "dict()", dict))
        return false;
    *out = sw_jinja_of_dict(dict);
    return true;
}

static bool call_namespace(jinja_run *run, const jinja_value *self,
                           const jinja_arguments *arguments, jinja_value *out) {
    (void)self;
    jinja_namespace *space = sw_jinja_take(run, sizeof *space);
    if (!space)
        return false;
    *space = (jinja_namespace){0};
    if (!fill_dict(run, arguments, "namespace()", &space->attributes))
        return false;
    for (int64_t i = 0; i < space->attributes.n; i++) {
        const jinja_value *key = &space->attributes.entries[i].key;
        if (key->kind == JINJA_TEXT && key->as.text->n_bytes && key->as.text->bytes[0] == '_')
            return sw_jinja_fail(
                run, "a namespace has no attributes that begin with an underscore: '%.*s'",
                (int)key->as.text->n_bytes, key->as.text->bytes);
    }
    *out = (jinja_value){.kind = JINJA_NAMESPACE, .as.space = space};
    return true;
}

/* The template's own words, which nothing is put behind. */
static bool call_raise_exception(jinja_run *run, const jinja_value *self, const jinja_value *values,
                                 jinja_value *out) {
    (void)self, (void)out;
    jinja_text *text = sw_jinja_str(run, &values[0]);
    return text &&
           sw_jinja_fail(run, "%.*s", (int)smaller(text->n_bytes, SW_MESSAGE_BYTES), text->bytes);
}

/* strftime of C, where Python gives what C cannot know of a time without a zone: %f, %z, %Z. */
static bool expand_format(jinja_run *run, const jinja_text *format, int microsecond) {
    for (const char *at = format->bytes, *end = sw_jinja_end_of(format); at < end; at++) {
        if (*at != '%' || at + 1 == end) {
            if (!sw_jinja_write(run, at, 1))
                return false;
            continue;
        }
        at++;
        if (*at == 'f' && !sw_jinja_write_format(run, "%06d", microsecond))
            return false;
        if (*at != 'f' && *at != 'z' && *at != 'Z' &&
            (!sw_jinja_write(run, "%", 1) || !sw_jinja_write(run, at, 1)))
            return false;
    }
    return true;
}

static bool call_strftime_now(jinja_run *run, const jinja_value *self, const jinja_value *values,
                              jinja_value *out) {
    (void)self;
    if (values[0].kind != JINJA_TEXT)
        return sw_jinja_fail(run, "strftime_now needs a text, not %s",
                             sw_jinja_type_name(&values[0]));
    struct tm now;
    int microsecond = run->options.microsecond;
    if (run->options.now) {
        now = *run->options.now;
    } else {
        struct timespec clock;
        clock_gettime(CLOCK_REALTIME, &clock);
        localtime_r(&clock.tv_sec, &now);
        microsecond = (int)(clock.tv_nsec / 1000);
    }
    jinja_start start = sw_jinja_start(run);
    /* A letter before and after: then a text that is empty is told from one that did not fit. */
    if (!sw_jinja_write(run, "<", 1) || !expand_format(run, values[0].as.text, microsecond) ||
        !sw_jinja_write(run, ">", 2))
        return false;
    jinja_text *format = sw_jinja_collect(run, start);
    char *told = format ? sw_jinja_take(run, MAX_TIME_BYTES) : NULL;
    if (!told || !sw_jinja_spend_bytes(run, MAX_TIME_BYTES))
        return false;
    size_t n = strftime(told, MAX_TIME_BYTES, format->bytes, &now);
    if (n < 2)
        return sw_jinja_fail(run, "strftime_now: more than %d bytes", MAX_TIME_BYTES);
    return sw_jinja_give_text(sw_jinja_view(run, told + 1, (int64_t)n - 2), out);
}

static bool call_lipsum(jinja_run *run, const jinja_value *self, const jinja_arguments *arguments,
                        jinja_value *out) {
    (void)self, (void)arguments, (void)out;
    return sw_jinja_fail(run,
                         "lipsum() writes another text each time, which is nothing to train on");
}

static bool call_cycler(jinja_run *run, const jinja_value *self, const jinja_arguments *arguments,
                        jinja_value *out) {
    (void)self;
    if (arguments->n == 0 || arguments->n_keywords)
        return sw_jinja_fail(run, "cycler() needs at least one item");
    jinja_cycler *cycler = sw_jinja_take(run, sizeof *cycler);
    jinja_value *items = sw_jinja_take(run, arguments->n * (int64_t)sizeof *items);
    if (!cycler || !items)
        return false;
    memcpy(items, arguments->values, (size_t)arguments->n * sizeof *items);
    *cycler = (jinja_cycler){.items = sw_jinja_list(run, items, arguments->n)};
    *out = (jinja_value){.kind = JINJA_CYCLER, .as.cycler = cycler};
    return cycler->items != NULL;
}

static bool cycler_next(jinja_run *run, const jinja_value *self, const jinja_value *values,
                        jinja_value *out) {
    (void)run, (void)values;
    jinja_cycler *cycler = self->as.cycler;
    *out = cycler->items->items[cycler->at];
    cycler->at = (cycler->at + 1) % cycler->items->n;
    return true;
}

static bool cycler_reset(jinja_run *run, const jinja_value *self, const jinja_value *values,
                         jinja_value *out) {
    (void)run, (void)values;
    self->as.cycler->at = 0;
    *out = sw_jinja_none();
    return true;
}

bool sw_jinja_cycler_attribute(jinja_run *run, jinja_cycler *cycler, const jinja_text *name,
                               jinja_value *out) {
    if (sw_jinja_is_word(name, "current"))
        *out = cycler->items->items[cycler->at];
    else if (sw_jinja_is_word(name, "pos"))
        *out = sw_jinja_integer(cycler->at);
    else if (sw_jinja_is_word(name, "items"))
        return sw_jinja_give_list(sw_jinja_list(run, cycler->items->items, cycler->items->n),
                                  JINJA_TUPLE, out);
    return true;
}

static bool call_joiner_maker(jinja_run *run, const jinja_value *self, const jinja_value *values,
                              jinja_value *out) {
    (void)self;
    jinja_joiner *joiner = sw_jinja_take(run, sizeof *joiner);
    if (!joiner)
        return false;
    if (values[0].kind != JINJA_MISSING && values[0].kind != JINJA_TEXT)
        return sw_jinja_fail(run, "joiner() needs a text, not %s", sw_jinja_type_name(&values[0]));
    *joiner = (jinja_joiner){.separator = values[0].kind == JINJA_TEXT ? values[0].as.text
                                                                       : sw_jinja_words(run, ", ")};
    *out = (jinja_value){.kind = JINJA_JOINER, .as.joiner = joiner};
    return joiner->separator != NULL;
}

bool sw_jinja_call_joiner(jinja_run *run, jinja_joiner *joiner, const jinja_arguments *arguments,
                          jinja_value *out) {
    if (arguments->n || arguments->n_keywords)
        return sw_jinja_fail(run, "a joiner takes no arguments");
    jinja_text *text = joiner->is_used ? joiner->separator : sw_jinja_words(run, "");
    joiner->is_used = true;
    return sw_jinja_give_text(text, out);
}

static bool loop_cycle(jinja_run *run, const jinja_value *self, const jinja_arguments *arguments,
                       jinja_value *out) {
    if (arguments->n == 0 || arguments->n_keywords)
        return sw_jinja_fail(run, "loop.cycle() needs items, and nothing by name");
    *out = arguments->values[self->as.loop->index % arguments->n];
    return true;
}

static bool loop_changed(jinja_run *run, const jinja_value *self, const jinja_arguments *arguments,
                         jinja_value *out) {
    jinja_loop *loop = self->as.loop;
    jinja_value *items = sw_jinja_take(run, arguments->n * (int64_t)sizeof *items), before, now;
    bool is_equal = false;
    if (!items || arguments->n_keywords)
        return items && sw_jinja_fail(run, "loop.changed() takes nothing by name");
    for (int64_t i = 0; i < arguments->n; i++)
        items[i] = arguments->values[i];
    if (!sw_jinja_give_list(sw_jinja_list(run, items, arguments->n), JINJA_TUPLE, &now))
        return false;
    before = (jinja_value){.kind = JINJA_TUPLE, .as.list = (jinja_list *)loop->changed};
    if (loop->changed && !sw_jinja_equal(run, &before, &now, &is_equal))
        return false;
    loop->changed = now.as.list;
    *out = sw_jinja_bool(!is_equal);
    return true;
}

static bool number_is_integer(jinja_run *run, const jinja_value *self, const jinja_value *values,
                              jinja_value *out) {
    (void)run, (void)values;
    *out = sw_jinja_bool(isfinite(self->as.real) && self->as.real == floor(self->as.real));
    return true;
}

static bool number_conjugate(jinja_run *run, const jinja_value *self, const jinja_value *values,
                             jinja_value *out) {
    (void)run, (void)values;
    *out = self->kind == JINJA_BOOL ? sw_jinja_integer(self->as.truth) : *self;
    return true;
}

static bool number_bit_length(jinja_run *run, const jinja_value *self, const jinja_value *values,
                              jinja_value *out) {
    (void)values;
    const jinja_big *big = sw_jinja_big_of(run, self);
    if (big)
        *out = sw_jinja_integer(
            big->n ? 32 * (int64_t)big->n - __builtin_clz(big->limbs[big->n - 1]) : 0);
    return big != NULL;
}

static bool number_bit_count(jinja_run *run, const jinja_value *self, const jinja_value *values,
                             jinja_value *out) {
    (void)values;
    const jinja_big *big = sw_jinja_big_of(run, self);
    int64_t n = 0;
    for (int i = 0; big && i < big->n; i++)
        n += __builtin_popcount(big->limbs[i]);
    *out = sw_jinja_integer(n);
    return big != NULL;
}

const jinja_builtin sw_jinja_number_methods[] = {{.name = "is_integer", .call = number_is_integer},
                                                 {.name = "bit_length", .call = number_bit_length},
                                                 {.name = "bit_count", .call = number_bit_count},
                                                 {.name = "conjugate", .call = number_conjugate},
                                                 {0}};

const jinja_builtin sw_jinja_object_methods[] = {{.name = "cycle", .call_freely = loop_cycle},
                                                 {.name = "changed", .call_freely = loop_changed},
                                                 {.name = "next", .call = cycler_next},
                                                 {.name = "reset", .call = cycler_reset},
                                                 {0}};

static const jinja_builtin functions[] = {
    {.name = "range",
     .call = call_range,
     .n_required = 1,
     .parameters = {"/start", "/stop", "/step"}},
    {.name = "dict", .call_freely = call_dict},
    {.name = "namespace", .call_freely = call_namespace},
    {.name = "raise_exception",
     .call = call_raise_exception,
     .n_required = 1,
     .parameters = {"message"}},
    {.name = "strftime_now", .call = call_strftime_now, .n_required = 1, .parameters = {"format"}},
    {.name = "lipsum", .call_freely = call_lipsum},
    {.name = "cycler", .call_freely = call_cycler},
    {.name = "joiner", .call = call_joiner_maker, .parameters = {"sep"}},
    {0}};

const jinja_builtin *sw_jinja_function(const jinja_text *name) {
    return sw_jinja_find_builtin(functions, name);
}

const jinja_builtin *sw_jinja_object_method(const jinja_value *owner, const jinja_text *name) {
    if (owner->kind == JINJA_FUNCTION) /* dict.fromkeys */
        return strcmp(owner->as.function->name, "dict") == 0 && sw_jinja_is_word(name, "fromkeys")
                   ? sw_jinja_find_builtin(sw_jinja_dict_methods, name)
                   : NULL;
    const jinja_builtin *found = sw_jinja_find_builtin(sw_jinja_object_methods, name);
    return found && owner->kind == (found->call_freely ? JINJA_LOOP : JINJA_CYCLER) ? found : NULL;
}
