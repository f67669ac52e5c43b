/* value_text.c: how each kind of option is printed, and what it takes, in words. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "config/value.h"

bool sw_take_word(const char **rest, const char **word, size_t *length) {
    if (!*rest)
        return false;
    *word = *rest;
    *length = strcspn(*rest, "|");
    *rest = (*rest)[*length] ? *rest + *length + 1 : NULL;
    return true;
}

static bool print_text(const char *text, FILE *out) {
    sw_arena scratch = {0};
    char *quoted = sw_yaml_quote(text, &scratch);
    if (quoted)
        fputs(quoted, out);
    sw_arena_free(&scratch);
    return quoted;
}

static bool print_texts(const sw_texts *texts, FILE *out) {
    bool is_done = true;
    fputc('[', out);
    for (int i = 0; i < texts->n; i++) {
        fputs(i ? ", " : "", out);
        is_done = print_text(texts->item[i], out) && is_done;
    }
    fputc(']', out);
    return is_done;
}

static bool print_parts(const sw_settings *settings, const sw_option *option, FILE *out) {
    int n_parts;
    const sw_option *parts = sw_option_parts(option, &n_parts);
    bool is_done = true;
    for (int i = 0; i < n_parts; i++) {
        fprintf(out, "%s%s: ", i ? ", " : "{", parts[i].key);
        is_done = sw_setting_print(settings, &parts[i], out) && is_done;
    }
    fputc('}', out);
    return is_done;
}

/* The columns that a file calls otherwise, or that are not read. */
static bool print_columns(const sw_settings *settings, const sw_option *option, FILE *out) {
    int n_parts, n = 0;
    const sw_option *parts = sw_option_parts(option, &n_parts);
    bool is_done = true;
    fputc('{', out);
    for (int i = 0; i < n_parts; i++) {
        const char *name = *(const char *const *)((const char *)settings + parts[i].offset);
        if (name && !strcmp(name, parts[i].key))
            continue;
        fprintf(out, "%s%s: ", n++ ? ", " : "", parts[i].key);
        is_done = sw_setting_print(settings, &parts[i], out) && is_done;
    }
    fputc('}', out);
    return is_done;
}

bool sw_setting_print(const sw_settings *settings, const sw_option *option, FILE *out) {
    const void *field = (const char *)settings + option->offset;
    char first[SW_TEXT_NUMBER_BYTES], second[SW_TEXT_NUMBER_BYTES];
    switch (option->kind) {
    case SW_KIND_OFF:
        fputs(option->fallback, out);
        return true;
    case SW_KIND_COLUMNS:
        return print_columns(settings, option, out);
    case SW_KIND_TEXT:
    case SW_KIND_PATH:
        if (*(const char *const *)field)
            return print_text(*(const char *const *)field, out);
        fputs("null", out);
        return true;
    case SW_KIND_COUNT_AUTO:
        if (*(const int64_t *)field == SW_AUTO) {
            fputs("auto", out);
            return true;
        }
        /* fall through */
    case SW_KIND_COUNT:
        fprintf(out, "%" PRId64, *(const int64_t *)field);
        return true;
    case SW_KIND_BYTES:
        fputs(*(const int64_t *)field
                  ? sw_text_exact_bytes(*(const int64_t *)field, first, sizeof first)
                  : "null",
              out);
        return true;
    case SW_KIND_LIMIT:
        if (*(const double *)field == 0) {
            fputs("null", out);
            return true;
        }
        /* fall through */
    case SW_KIND_REAL_AUTO:
    case SW_KIND_REAL:
        if (option->kind == SW_KIND_REAL_AUTO && *(const double *)field == SW_AUTO) {
            fputs("auto", out);
            return true;
        }
        fputs(sw_text_exact_real(*(const double *)field, first, sizeof first), out);
        return true;
    case SW_KIND_BOOL:
        fputs(*(const bool *)field ? "true" : "false", out);
        return true;
    case SW_KIND_CHOICE: {
        const char *rest = option->allowed, *word = "";
        size_t length = 0;
        for (int i = 0; i <= *(const int *)field && sw_take_word(&rest, &word, &length); i++)
            ;
        fprintf(out, "%.*s", (int)length, word);
        return true;
    }
    case SW_KIND_PATHS:
    case SW_KIND_NAMES:
        return print_texts(field, out);
    case SW_KIND_SPIKE:
        if (((const sw_spike_settings *)field)->factor)
            return print_parts(settings, option, out);
        fputs("null", out);
        return true;
    case SW_KIND_MAP:
        return print_parts(settings, option, out);
    case SW_KIND_RESUME: {
        const sw_resume_settings *resume = field;
        if (!resume->force.n) {
            fputs(resume->never ? "never" : "auto", out);
            return true;
        }
        fputs("{force: ", out);
        bool is_done = print_texts(&resume->force, out);
        fputc('}', out);
        return is_done;
    }
    case SW_KIND_TRAIN: {
        const sw_texts *texts = field;
        if (texts->n != 1 || (strcmp(texts->item[0], "all") && strcmp(texts->item[0], "lora")))
            return print_texts(texts, out);
        fputs(texts->item[0], out);
        return true;
    }
    case SW_KIND_PAIR:
        fprintf(out, "[%s, %s]",
                sw_text_exact_real(((const sw_pair *)field)->first, first, sizeof first),
                sw_text_exact_real(((const sw_pair *)field)->second, second, sizeof second));
        return true;
    case SW_KIND_REALS: {
        const sw_reals *reals = field;
        for (int i = 0; i < reals->n; i++)
            fprintf(out, "%s%s", i ? ", " : "[",
                    sw_text_exact_real(reals->item[i], first, sizeof first));
        fputs(reals->n ? "]" : "null", out);
        return true;
    }
    case SW_KIND_WRAP:
        if (*(const int64_t *)field)
            fprintf(out, "{min_parameters: %" PRId64 "}", *(const int64_t *)field);
        else
            fputs("block", out);
        return true;
    }
    return false;
}

sw_range sw_range_of(const sw_option *option) {
    sw_range bounds = {0};
    const char *dots = strstr(option->allowed, "..");
    if (!dots)
        return bounds;
    char low[32];
    snprintf(low, sizeof low, "%.*s", (int)(dots - option->allowed), option->allowed);
    const char *high = dots + 2;
    bounds.excludes_low = *low == '>';
    bounds.excludes_high = *high == '<';
    bounds.has_low = sw_text_parse_real(low + bounds.excludes_low, &bounds.low);
    bounds.has_high = sw_text_parse_real(high + bounds.excludes_high, &bounds.high);
    return bounds;
}

static char *describe_range(const sw_option *option, const char *noun, char *buffer, size_t bytes) {
    sw_range bounds = sw_range_of(option);
    char low[SW_TEXT_NUMBER_BYTES], high[SW_TEXT_NUMBER_BYTES];
    snprintf(low, sizeof low, "%.10g", bounds.low);
    snprintf(high, sizeof high, "%.10g", bounds.high);
    if (bounds.has_low && bounds.has_high && bounds.low == bounds.high)
        snprintf(buffer, bytes, "%s", low);
    else
        snprintf(buffer, bytes, "%s%s%s%s%s", noun,
                 !bounds.has_low       ? ""
                 : bounds.excludes_low ? " above "
                                       : " from ",
                 bounds.has_low ? low : "",
                 !bounds.has_high       ? ""
                 : bounds.excludes_high ? " to below "
                                        : " to ",
                 bounds.has_high ? high : "");
    return buffer;
}

/* "a, b or c" */
static char *describe_words(const char *words, char *buffer, size_t bytes) {
    const char *word;
    size_t length, used = 0;
    for (int i = 0; sw_take_word(&words, &word, &length) && used < bytes; i++)
        used += (size_t)snprintf(buffer + used, bytes - used, "%s%.*s",
                                 !i      ? ""
                                 : words ? ", "
                                         : " or ",
                                 (int)length, word);
    return buffer;
}

char *sw_setting_describe(const sw_option *option, char *buffer, size_t bytes) {
    char numbers[128];
    const char *text = "";
    switch (option->kind) {
    case SW_KIND_PATH:
        snprintf(buffer, bytes, *option->allowed ? "a path, %s or null" : "a path or null",
                 option->allowed);
        return buffer;
    case SW_KIND_PATHS:
        text = "a list of paths";
        break;
    case SW_KIND_COUNT:
        return describe_range(option, "a whole number", buffer, bytes);
    case SW_KIND_COUNT_AUTO:
        snprintf(buffer, bytes, "auto or %s",
                 describe_range(option, "a whole number", numbers, sizeof numbers));
        return buffer;
    case SW_KIND_BYTES:
        text = strcmp(option->fallback, "null") ? "bytes (such as 512MiB or 2GiB)"
                                                : "bytes (such as 512MiB or 2GiB) or null";
        break;
    case SW_KIND_REAL:
        return describe_range(option, "a number", buffer, bytes);
    case SW_KIND_REAL_AUTO:
        snprintf(buffer, bytes, "auto or %s",
                 describe_range(option, "a number", numbers, sizeof numbers));
        return buffer;
    case SW_KIND_PAIR:
        snprintf(buffer, bytes, "two numbers, each %s",
                 describe_range(option, "", numbers, sizeof numbers) + 1);
        return buffer;
    case SW_KIND_REALS:
        snprintf(buffer, bytes, "a list of numbers, each %s, or null",
                 describe_range(option, "", numbers, sizeof numbers) + 1);
        return buffer;
    case SW_KIND_BOOL:
        text = "true or false";
        break;
    case SW_KIND_CHOICE:
        return describe_words(option->allowed, buffer, bytes);
    case SW_KIND_WRAP:
        text = "block or {min_parameters: N}";
        break;
    case SW_KIND_TRAIN:
        text = "all, lora or a list of name patterns";
        break;
    case SW_KIND_NAMES:
        text = "a list of names";
        break;
    case SW_KIND_TEXT:
        text = "a text or null";
        break;
    case SW_KIND_COLUMNS:
        text = "a map: {text: body, messages: dialog}; null for one that is not to be read";
        break;
    case SW_KIND_MAP:
        text = "a map of these";
        break;
    case SW_KIND_SPIKE:
        text = "{factor: above 1, action: rollback, skip or stop} or null";
        break;
    case SW_KIND_LIMIT:
        snprintf(buffer, bytes, "%s or null",
                 describe_range(option, "a number", numbers, sizeof numbers));
        return buffer;
    case SW_KIND_RESUME:
        text = "auto, never or {force: a list of section.key}";
        break;
    case SW_KIND_OFF:
        text = option->fallback;
        break;
    }
    snprintf(buffer, bytes, "%s", text);
    return buffer;
}
