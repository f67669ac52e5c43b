/* chat.c: a chat from its options, and one rendering of a conversation. */
#include "data/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "data/chat_formats.h"
#include "data/chat_internal.h"

static sw_status no_memory(sw_error *err) {
    return sw_fail(err, SW_NO_MEMORY, "no memory for a chat template");
}

/* ---- opening ---- */

/* "2025-06-30", "2025-06-30 12:00:00" or with a T between and a fraction behind; a zone is none of
 * the template's business. */
static sw_status read_time(const char *text, sw_chat *chat, sw_error *err) {
    struct tm now = {.tm_isdst = 0};
    int n = 0, micro = 0;
    char between = ' ';
    int n_read = sscanf(text, "%4d-%2d-%2d%n%c%2d:%2d:%2d%n", &now.tm_year, &now.tm_mon,
                        &now.tm_mday, &n, &between, &now.tm_hour, &now.tm_min, &now.tm_sec, &n);
    bool is_whole = n_read == 3 || (n_read == 7 && (between == ' ' || between == 'T'));
    if (is_whole && n_read == 7 && text[n] == '.') {
        int n_digits = 0;
        for (n++; text[n] >= '0' && text[n] <= '9'; n++, n_digits++)
            micro = n_digits < 6 ? micro * 10 + (text[n] - '0') : micro;
        for (; n_digits < 6; n_digits++)
            micro *= 10;
    }
    now.tm_year -= 1900;
    now.tm_mon--;
    struct tm asked = now;
    if (!is_whole || text[n] || timegm(&now) == -1 || now.tm_mday != asked.tm_mday ||
        now.tm_mon != asked.tm_mon || now.tm_hour != asked.tm_hour || now.tm_min != asked.tm_min ||
        now.tm_sec != asked.tm_sec)
        return sw_fail(
            err, SW_BAD_CONFIG,
            "\"%.100s\" is no time (data.chat_now, --now); write 2025-06-30 or 2025-06-30 12:00:00",
            text);
    chat->now = now;
    chat->microsecond = micro;
    return SW_OK;
}

void sw_chat_today(char day[SW_CHAT_TIME_BYTES]) {
    const time_t clock = time(NULL);
    struct tm local;
    strftime(day, SW_CHAT_TIME_BYTES, "%Y-%m-%d", localtime_r(&clock, &local));
}

static sw_status read_special_tokens(const char *text, sw_chat *chat, sw_error *err) {
    json_error_t error;
    json_t *tokens = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(tokens)) {
        json_decref(tokens);
        return sw_fail(err, SW_BAD_CONFIG,
                       "--special-tokens: this is no JSON object of names and tokens, such as "
                       "{\"bos_token\": \"<s>\"}: %.200s",
                       text);
    }
    json_object_clear(chat->own);
    int failed = json_object_update(chat->own, tokens);
    json_decref(tokens);
    return failed ? no_memory(err) : SW_OK;
}

/* Python's words for what JSON spells otherwise: as texts all of them would be true. */
static const char *spelled_in_json(const char *value) {
    return !strcmp(value, "True")    ? "true"
           : !strcmp(value, "False") ? "false"
           : !strcmp(value, "None")  ? "null"
                                     : NULL;
}

/* NAME=VALUE; the value is JSON, or else text as it stands. */
static sw_status set_name(const char *text, sw_chat *chat, sw_error *err) {
    static const char *const others[] = {"messages", "tools", "documents"};
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return sw_fail(err, SW_BAD_CONFIG, "--set %.200s: write NAME=VALUE", text);
    const char *meant = spelled_in_json(equals + 1);
    if (meant)
        return sw_fail(
            err, SW_BAD_CONFIG,
            "--set %.200s: values are JSON; write %.*s=%s, or \"%s\" in quotes for a text", text,
            (int)(equals - text < 200 ? equals - text : 200), text, meant, equals + 1);
    char *name = strndup(text, (size_t)(equals - text));
    json_t *value = json_loads(equals + 1, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    sw_status status = SW_OK;
    if (!value)
        value = json_string(equals + 1);
    if (!value)
        status = sw_fail(err, SW_BAD_CONFIG, "--set %.200s: the value is not UTF-8", text);
    for (int i = 0; name && i < 3 && !status; i++)
        if (!strcmp(name, others[i]))
            status = sw_fail(err, SW_BAD_CONFIG, "--set %s: it stands in the rows", name);
    if (!status && !name)
        status = no_memory(err);
    if (!status && !strcmp(name, "add_generation_prompt")) {
        chat->has_set_prompt = true;
        chat->sets_prompt = json_is_true(value);
        if (!json_is_boolean(value))
            status = sw_fail(err, SW_BAD_CONFIG, "--set add_generation_prompt is true or false");
    } else if (!status && json_object_set(chat->own, name, value) != 0) {
        status = no_memory(err);
    }
    json_decref(value);
    free(name);
    return status;
}

static sw_status take_format(const sw_chat_format *format, sw_chat *chat, sw_error *err) {
    char source[64];
    snprintf(source, sizeof source, "the format %s", format->name);
    sw_status status = sw_chat_take_template(source, format->text, (int64_t)strlen(format->text),
                                             &chat->usual, err);
    if (!status && !json_object_get(chat->own, "bos_token") &&
        json_object_set_new(chat->own, "bos_token", json_string(format->bos)) != 0)
        status = no_memory(err);
    if (!status && !json_object_get(chat->own, "eos_token") &&
        json_object_set_new(chat->own, "eos_token", json_string(format->eos)) != 0)
        status = no_memory(err);
    return status;
}

static sw_status open_template(const sw_chat_options *o, const sw_chat_format *format,
                               sw_chat *chat, sw_error *err) {
    if (o->template_path) {
        sw_status status = sw_chat_read_template(o->template_path, &chat->usual, err);
        return !status && !chat->usual.program
                   ? sw_fail(err, SW_BAD_FILE, "%s", chat->usual.problem)
                   : status;
    }
    if (format)
        return take_format(format, chat, err);
    if (!o->folder)
        snprintf(chat->reason, sizeof chat->reason, "there is no model's chat template");
    return SW_OK;
}

sw_status sw_chat_open(const sw_chat_options *o, sw_chat **chat, sw_error *err) {
    const bool is_auto = !o->format || !strcmp(o->format, "auto");
    const sw_chat_format *format = is_auto ? NULL : sw_chat_format_find(o->format);
    *chat = NULL;
    if (!is_auto && !format)
        return sw_fail(err, SW_BAD_CONFIG,
                       "the chat format \"%s\" is unknown (data.chat_format, --chat-format); known "
                       "are auto, chatml, llama2, "
                       "llama3, mistral (= mistral-v3), mistral-v1, zephyr and gemma",
                       o->format);
    if (format && o->template_path)
        return sw_fail(
            err, SW_BAD_CONFIG,
            "a chat format (%s) and a chat template (%s) are both given; keep one of them",
            o->format, o->template_path);
    sw_chat *c = calloc(1, sizeof *c);
    if (!c || !(c->own = json_object())) {
        free(c);
        return no_memory(err);
    }
    const time_t clock = time(NULL);
    localtime_r(&clock, &c->now);
    sw_status status = o->now ? read_time(o->now, c, err) : SW_OK;
    if (!status && o->folder)
        status = sw_chat_read_folder(o->folder, !format && !o->template_path, c, err);
    if (!status && o->special_tokens)
        status = read_special_tokens(o->special_tokens, c, err);
    if (!status)
        status = open_template(o, format, c, err);
    for (int i = 0; i < o->n_set && !status; i++)
        status = set_name(o->set[i], c, err);
    if (status) {
        sw_chat_free(c);
        return status;
    }
    *chat = c;
    return SW_OK;
}

static void free_template(sw_chat_template *t) {
    sw_jinja_free(t->program);
    free(t->source);
    free(t->text);
}

void sw_chat_free(sw_chat *chat) {
    if (!chat)
        return;
    free_template(&chat->usual);
    free_template(&chat->with_tools);
    json_decref(chat->own);
    free(chat);
}

/* ---- what it is ---- */

const char *sw_chat_source(const sw_chat *chat) {
    return chat ? chat->usual.source : NULL;
}

static sw_status check_template(const sw_chat *chat, const sw_chat_template *t, sw_error *err) {
    if (t && t->program)
        return SW_OK;
    if (t && t->text)
        return sw_fail(err, SW_BAD_FILE,
                       "%s; give another with data.chat_template (--chat-template), or a format "
                       "with data.chat_format",
                       t->problem);
    return sw_fail(err, SW_BAD_FILE,
                   "a conversation needs a chat template, and %s; set data.chat_format or "
                   "--chat-format (chatml, llama2, llama3, "
                   "mistral, mistral-v1, zephyr, gemma), or give a file with data.chat_template or "
                   "--chat-template",
                   chat && chat->reason[0] ? chat->reason : "there is none");
}

sw_status sw_chat_check(const sw_chat *chat, sw_error *err) {
    return check_template(chat, chat ? &chat->usual : NULL, err);
}

static bool asks_time(const sw_chat_template *t) {
    return t->program && sw_jinja_mentions(t->program, "strftime_now");
}

bool sw_chat_asks_time(const sw_chat *chat, char now[SW_CHAT_TIME_BYTES]) {
    if (!asks_time(&chat->usual) && !asks_time(&chat->with_tools))
        return false;
    strftime(now, SW_CHAT_TIME_BYTES, "%Y-%m-%d %H:%M:%S", &chat->now);
    return true;
}

static void hash_piece(void (*seen)(void *to, const void *bytes, int64_t n), void *to,
                       const char *bytes, int64_t n) {
    seen(to, &n, sizeof n);
    if (n)
        seen(to, bytes, n);
}

void sw_chat_hash(const sw_chat *chat, void (*seen)(void *to, const void *bytes, int64_t n),
                  void *to) {
    char now[SW_CHAT_TIME_BYTES] = "";
    char *own = json_dumps(chat->own, JSON_COMPACT | JSON_SORT_KEYS);
    hash_piece(seen, to, chat->usual.text, chat->usual.bytes);
    hash_piece(seen, to, chat->with_tools.text, chat->with_tools.bytes);
    hash_piece(seen, to, own, own ? (int64_t)strlen(own) : 0);
    sw_chat_asks_time(chat, now);
    hash_piece(seen, to, now, (int64_t)strlen(now));
    free(own);
}

/* "{%- set bos_token = '<s>' -%}", unless it is what the folder says. */
static void put_token(FILE *out, const char *name, const char *format_token,
                      const json_t *folder_token) {
    if (!folder_token)
        fprintf(out, "{%%- set %s = '%s' -%%}", name, format_token);
}

sw_status sw_chat_chosen(const sw_chat_options *o, char **text, sw_error *err) {
    sw_chat_options own = {.folder = o->folder};
    const sw_chat_format *format = o->format ? sw_chat_format_find(o->format) : NULL;
    sw_chat *chosen = NULL, *usual = NULL;
    size_t bytes;
    *text = NULL;
    if (!o->template_path && !format)
        return SW_OK;
    sw_status status = sw_chat_open(o, &chosen, err);
    if (!status && format)
        status = sw_chat_open(&own, &usual, err);
    FILE *out = status ? NULL : open_memstream(text, &bytes);
    if (!status && !out)
        status = no_memory(err);
    if (!status && format) {
        put_token(out, "bos_token", format->bos, json_object_get(usual->own, "bos_token"));
        put_token(out, "eos_token", format->eos, json_object_get(usual->own, "eos_token"));
    }
    if (!status)
        fwrite(chosen->usual.text, 1, (size_t)chosen->usual.bytes, out);
    if (!status && !sw_text_close(out, text))
        status = no_memory(err);
    sw_chat_free(chosen);
    sw_chat_free(usual);
    return status;
}

bool sw_chat_mentions(const sw_chat *chat, bool with_tools, const char *name) {
    const sw_chat_template *t = sw_chat_template_for(chat, with_tools);
    return t->program && sw_jinja_mentions(t->program, name);
}

/* ---- rendering ---- */

/* What the row gives to the template. */
static json_t *make_data(const sw_chat *chat, const sw_conversation *c) {
    const bool adds_prompt = c->adds_prompt || (chat->has_set_prompt && chat->sets_prompt);
    json_t *data = c->variables ? json_copy(c->variables) : json_object();
    if (!data || json_object_set(data, "messages", c->messages) != 0 ||
        json_object_set_new(data, "add_generation_prompt", json_boolean(adds_prompt)) != 0 ||
        json_object_set_new(data, "tools", c->tools ? json_incref(c->tools) : json_null()) != 0 ||
        json_object_set_new(data, "documents",
                            c->documents ? json_incref(c->documents) : json_null()) != 0) {
        json_decref(data);
        return NULL;
    }
    return data;
}

/* What messages hold is literal: runs of whichever origin, joined where they touch. */
static sw_status find_literal(sw_chat_text *out, sw_error *err) {
    const sw_jinja_rendering *whole = &out->whole;
    if (whole->n_origins > out->literal_capacity) {
        int64_t capacity = 2 * whole->n_origins;
        sw_span *grown = realloc(out->literal, (size_t)capacity * sizeof *grown);
        if (!grown)
            return no_memory(err);
        out->literal = grown;
        out->literal_capacity = capacity;
    }
    for (int64_t i = 0; i < whole->n_origins; i++) {
        const sw_jinja_origin *run = &whole->origins[i];
        if (out->n_literal && out->literal[out->n_literal - 1].end == run->first)
            out->literal[out->n_literal - 1].end = run->end;
        else
            out->literal[out->n_literal++] = (sw_span){run->first, run->end};
    }
    return SW_OK;
}

sw_status sw_chat_run(const sw_chat *chat, const sw_chat_template *t, const json_t *data,
                      sw_jinja_rendering *out, sw_error *err) {
    const sw_jinja_options options = {
        .now = &chat->now, .microsecond = chat->microsecond, .data = data};
    return sw_jinja_render(t->program, chat->own, &options, out, err);
}

sw_status sw_chat_render(const sw_chat *chat, const sw_conversation *conversation,
                         sw_chat_spans spans, bool *is_certain, sw_chat_text *out, sw_error *err) {
    const sw_chat_template *t =
        chat ? sw_chat_template_for(chat, conversation->tools != NULL) : NULL;
    out->n_supervised = 0;
    out->n_literal = 0;
    if (is_certain)
        *is_certain = true;
    sw_status status = check_template(chat, t, err);
    if (status)
        return status;
    json_t *data = make_data(chat, conversation);
    status = data ? sw_chat_run(chat, t, data, &out->whole, err) : no_memory(err);
    out->text = out->whole.text;
    out->bytes = out->whole.bytes;
    if (!status)
        status = find_literal(out, err);
    if (!status && spans != SW_SPANS_NONE) {
        status = sw_chat_find_spans(chat, t, conversation, spans, data, out, err);
        if (status == SW_BAD_FILE && is_certain) {
            *is_certain = false;
            status = SW_OK;
        }
    }
    json_decref(data);
    return status;
}

void sw_chat_text_free(sw_chat_text *out) {
    sw_jinja_rendering_free(&out->whole);
    sw_jinja_rendering_free(&out->part);
    sw_span_forget(out->memo);
    free(out->literal);
    free(out->supervised);
    *out = (sw_chat_text){.text = NULL};
}

/* ---- the end of a turn ---- */

/* Where the last part of a text that is no white space begins and ends. */
static void last_word(const char *text, int64_t n, int64_t *first, int64_t *end) {
    while (n > 0 && strchr(" \t\r\n", text[n - 1]))
        n--;
    *end = n;
    while (n > 0 && !strchr(" \t\r\n", text[n - 1]))
        n--;
    *first = n;
}

sw_status sw_chat_turn_end(const sw_chat *chat, char end[SW_CHAT_TEXT_BYTES], sw_error *err) {
    sw_chat_text text = {.text = NULL};
    bool learned[] = {false, true}, is_certain = false;
    sw_conversation c = {.gives_targets = learned};
    sw_error ignored;
    end[0] = 0;
    c.messages = json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "a", "role",
                           "assistant", "content", "b");
    if (!c.messages)
        return no_memory(err);
    sw_status status = sw_chat_render(chat, &c, SW_SPANS_ALL, &is_certain, &text, &ignored);
    if (status == SW_OK && is_certain && text.n_supervised > 0) {
        const sw_span said = text.supervised[text.n_supervised - 1];
        int64_t first, last, from = said.first;
        for (int64_t i = 0; i < text.n_literal; i++) /* what the template puts behind the answer */
            if (text.literal[i].end <= said.end && text.literal[i].end > from)
                from = text.literal[i].end;
        last_word(text.text + from, said.end - from, &first, &last);
        if (last - first < SW_CHAT_TEXT_BYTES) {
            memcpy(end, text.text + from + first, (size_t)(last - first));
            end[last - first] = 0;
        }
    }
    sw_chat_text_free(&text);
    json_decref(c.messages);
    return status == SW_NO_MEMORY ? no_memory(err) : SW_OK;
}
