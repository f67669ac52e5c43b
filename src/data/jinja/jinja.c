/* jinja.c: templates read and rendered, as the rest of the library sees them. */
#include "data/jinja/jinja.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "data/jinja/collection.h"
#include "data/jinja/execute.h"
#include "data/jinja/origin.h"
#include "data/jinja/syntax.h"
#include "data/jinja/text.h"

enum { MAX_STEPS = 40000000, MAX_OUTPUT = 64 << 20, MAX_MEMORY = 256 << 20 };

static int64_t or_default(int64_t given, int64_t otherwise) {
    return given > 0 ? given : otherwise;
}

static void settle_options(jinja_run *run, const sw_jinja_options *options) {
    if (options)
        run->options = *options;
    run->options.max_steps = or_default(run->options.max_steps, MAX_STEPS);
    run->options.max_output = or_default(run->options.max_output, MAX_OUTPUT);
    run->options.max_memory = or_default(run->options.max_memory, MAX_MEMORY);
    run->steps_left = run->options.max_steps;
    run->memory_left = run->options.max_memory;
}

static sw_status report(const jinja_run *run, const char *name, sw_error *err) {
    if (run->failed_line)
        return sw_fail(err, run->status, "%s, line %d: %s", name, run->failed_line, run->message);
    return sw_fail(err, run->status, "%s: %s", name, run->message);
}

/* Numbers are read and printed with C's point, whatever the caller's locale; only in this
 * thread. */
typedef struct plain_locale {
    locale_t plain, callers;
} plain_locale;

static plain_locale enter_locale(void) {
    plain_locale locale = {.plain = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    if (locale.plain)
        locale.callers = uselocale(locale.plain);
    return locale;
}

static void leave_locale(plain_locale locale) {
    if (!locale.plain)
        return;
    uselocale(locale.callers);
    freelocale(locale.plain);
}

sw_status sw_jinja_parse(const char *name, const char *text, int64_t bytes, sw_jinja **template,
                         sw_error *err) {
    *template = NULL;
    if (bytes > JINJA_MAX_TEMPLATE)
        return sw_fail(err, SW_BAD_FILE, "%s: a template of more than %d MiB", name,
                       JINJA_MAX_TEMPLATE >> 20);
    if (!sw_text_is_utf8(text, (size_t)bytes))
        return sw_fail(err, SW_BAD_FILE, "%s: the template is not UTF-8", name);
    jinja_run run = {0};
    sw_jinja_memory *memory = NULL;
    plain_locale locale = enter_locale();
    settle_options(&run, NULL);
    sw_status status = sw_jinja_begin(&run, &memory);
    sw_jinja *made = status == SW_OK ? sw_jinja_take(&run, sizeof *made) : NULL;
    char *own_name = made ? sw_jinja_take(&run, (int64_t)strlen(name) + 1) : NULL;
    if (!own_name) {
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory left to read the template", name);
    } else {
        *made = (sw_jinja){.memory = memory, .name = strcpy(own_name, name)};
        if (sw_jinja_parse_into(&run, text, bytes, made) && sw_jinja_settle_scopes(&run, made)) {
            *template = made;
            /* The tree lies in the chunks; what serves rendering is not needed. */
            free(memory->output);
            free(memory->stack);
            memory->output = NULL;
            memory->stack = NULL;
        } else {
            status = report(&run, name, err);
        }
    }
    if (!*template)
        sw_jinja_memory_free(memory);
    leave_locale(locale);
    return status;
}

void sw_jinja_free(sw_jinja *template) {
    if (template)
        sw_jinja_memory_free(template->memory);
}

bool sw_jinja_mentions(const sw_jinja *template, const char *name) {
    return sw_jinja_get_word(template->words, name) != NULL;
}

bool sw_jinja_has_generation(const sw_jinja *template) {
    return template->has_generation;
}

/* Marks become the rendering's spans, those within others left out. Every block that was run should
 * have left its mark; a filter, say, makes a new text, which has none. */
static bool settle_marks(jinja_run *run, sw_jinja_rendering *out) {
    sw_jinja_memory *memory = run->memory;
    int n = 0;
    if (run->n_generations == 0)
        return true;
    bool *is_there = sw_jinja_take(run, run->n_generations);
    if (!is_there)
        return false;
    memset(is_there, 0, (size_t)run->n_generations);
    if (run->n_marks > memory->spans_capacity) {
        sw_span *spans = realloc(memory->spans, (size_t)run->n_marks * sizeof *spans);
        if (!spans)
            return sw_jinja_fail_memory(run);
        memory->spans = spans;
        memory->spans_capacity = run->n_marks;
    }
    for (int i = 0; i < run->n_marks; i++) {
        jinja_mark mark = memory->marks[i];
        is_there[mark.id] = true;
        while (n > 0 && memory->marks[n - 1].first >= mark.first &&
               memory->marks[n - 1].id > mark.id)
            n--; /* inside this one, which began before it */
        memory->marks[n++] = mark;
    }
    for (int i = 0; i < n; i++)
        memory->spans[i] = (sw_span){memory->marks[i].first, memory->marks[i].end};
    for (int i = 0; i < run->n_generations && !out->lost_generation_line; i++)
        if (!is_there[i])
            out->lost_generation_line = run->generation_lines[i];
    out->generation = memory->spans;
    out->n_generation = n;
    return true;
}

static bool render(jinja_run *run, const sw_jinja *template, sw_jinja_rendering *out) {
    jinja_frame frame = {0};
    run->context = sw_jinja_take(run, template->n_names * (int64_t)sizeof *run->context);
    run->is_asked = sw_jinja_take(run, template->n_names);
    frame.slots = sw_jinja_take(run, template->frame.n_slots * (int64_t)sizeof *frame.slots);
    if (!run->context || !run->is_asked || !frame.slots)
        return false;
    memset(run->is_asked, 0, (size_t) template->n_names);
    for (int32_t i = 0; i < template->frame.n_slots; i++)
        frame.slots[i] = sw_jinja_missing();
    if (!sw_jinja_enter_scope(run, &template->frame.scope, &frame) ||
        sw_jinja_run_body(run, &template->body, &frame) != JINJA_DONE || !settle_marks(run, out))
        return false;
    if (sw_jinja_traces(run) && !sw_jinja_give_origins(run, out))
        return false;
    out->text = run->memory->output;
    out->bytes = run->n_output;
    return true;
}

sw_status sw_jinja_render(const sw_jinja *template, const json_t *variables,
                          const sw_jinja_options *options, sw_jinja_rendering *out, sw_error *err) {
    jinja_run run = {.template = template, .variables = variables};
    settle_options(&run, options);
    out->text = NULL;
    out->bytes = 0;
    out->generation = NULL;
    out->n_generation = 0;
    out->origins = NULL;
    out->n_origins = 0;
    out->lost_generation_line = 0;
    if (sw_jinja_begin(&run, &out->memory) != SW_OK)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory left to render", template->name);
    plain_locale locale = enter_locale();
    bool is_done = render(&run, template, out);
    leave_locale(locale);
    sw_jinja_end(&run);
    return is_done ? SW_OK : report(&run, template->name, err);
}

void sw_jinja_rendering_free(sw_jinja_rendering *rendering) {
    sw_jinja_memory_free(rendering->memory);
    *rendering = (sw_jinja_rendering){0};
}
