/* yaml.c: libyaml's events become a tree; everything that is left out is refused here, with its
 * line. */
#include "base/yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/text.h"

typedef struct reader {
    const char *name;
    const char *text;
    yaml_parser_t parser;
    sw_arena *arena;
    sw_error *err;
} reader;

static int line_of(yaml_mark_t mark) {
    return (int)mark.line + 1;
}

static sw_status no_memory(reader *in) {
    return sw_fail(in->err, SW_NO_MEMORY, "no memory for reading settings · %s", in->name);
}

/* What is wrong, where, and what to try. */
__attribute__((format(printf, 4, 5))) static sw_status
refuse(reader *in, int line, const char *remedy, const char *format, ...) {
    char what[SW_MESSAGE_BYTES / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return sw_fail(in->err, SW_BAD_CONFIG, "%s · %s:%d%s%s", what, in->name, line,
                   remedy ? " · " : "", remedy ? remedy : "");
}

/* What libyaml found wrong, with a line also where it gives only an offset. */
static sw_status syntax_error(reader *in) {
    const yaml_parser_t *parser = &in->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return no_memory(in);
    int line = line_of(parser->problem_mark);
    if (parser->error == YAML_READER_ERROR) {
        line = 1;
        for (size_t i = 0; i < parser->problem_offset; i++)
            line += in->text[i] == '\n';
    }
    const char *problem = parser->problem ? parser->problem : "unreadable",
               *context = parser->context ? parser->context : "";
    const char *remedy = strstr(problem, "cannot start any token")
                             ? "indent with spaces; put text that begins with @, ` or % in quotes"
                         : strstr(context, "scanning an a")
                             ? "put text that begins with * or & in quotes" /* alias, anchor */
                             : NULL;
    return refuse(in, line, remedy, "not YAML: %s%s%s", context, *context ? ", " : "", problem);
}

static sw_status next_event(reader *in, yaml_event_t *event) {
    return yaml_parser_parse(&in->parser, event) ? SW_OK : syntax_error(in);
}

static sw_status read_node(reader *in, yaml_event_t *event, int depth, sw_yaml **out);

static sw_status add_item(reader *in, sw_yaml *node, int *capacity, const char *key, int key_line,
                          sw_yaml *item) {
    int capacity_of_keys = *capacity, capacity_of_lines = *capacity;
    node->item = sw_arena_grow(in->arena, node->item, node->n, capacity, sizeof *node->item);
    if (!node->item)
        return no_memory(in);
    if (key) {
        node->key =
            sw_arena_grow(in->arena, node->key, node->n, &capacity_of_keys, sizeof *node->key);
        node->key_line = sw_arena_grow(in->arena, node->key_line, node->n, &capacity_of_lines,
                                       sizeof *node->key_line);
        if (!node->key || !node->key_line)
            return no_memory(in);
        node->key[node->n] = key;
        node->key_line[node->n] = key_line;
    }
    node->item[node->n++] = item;
    return SW_OK;
}

/* A key, checked against those that its map has already. */
static sw_status read_key(reader *in, const yaml_event_t *event, const sw_yaml *map,
                          const char **key) {
    int line = line_of(event->start_mark);
    if (event->type != YAML_SCALAR_EVENT)
        return refuse(in, line, "put text that begins with *, { or [ in quotes",
                      "a key must be a word");
    const char *text = (const char *)event->data.scalar.value;
    if (strlen(text) != event->data.scalar.length)
        return refuse(in, line, NULL, "a key has a zero byte in it");
    for (int i = 0; i < map->n; i++)
        if (!strcmp(map->key[i], text))
            return refuse(in, line, "remove one", "the key %.100s is given twice, first in line %d",
                          text, map->key_line[i]);
    if (map->n == SW_YAML_MAX_KEYS)
        return refuse(in, line, NULL, "more than %d keys in one map", SW_YAML_MAX_KEYS);
    *key = sw_arena_text(in->arena, text);
    return *key ? SW_OK : no_memory(in);
}

static sw_status read_scalar(reader *in, const yaml_event_t *event, sw_yaml *node) {
    if (event->data.scalar.tag)
        return refuse(in, node->line, "remove it", "a tag (%.60s) is not taken here",
                      (const char *)event->data.scalar.tag);
    const char *text = (const char *)event->data.scalar.value;
    if (strlen(text) != event->data.scalar.length)
        return refuse(in, node->line, NULL, "a value has a zero byte in it");
    node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->text = sw_arena_text(in->arena, text);
    return node->text ? SW_OK : no_memory(in);
}

/* The items of a list or map whose start has been read, up to its end. */
static sw_status read_items(reader *in, sw_yaml *node, int depth) {
    yaml_event_type_t end =
        node->kind == SW_YAML_MAP ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    int capacity = 0;
    for (;;) {
        yaml_event_t event;
        sw_status status = next_event(in, &event);
        if (status)
            return status;
        if (event.type == end) {
            yaml_event_delete(&event);
            return SW_OK;
        }
        const char *key = NULL;
        int key_line = line_of(event.start_mark);
        if (node->kind == SW_YAML_MAP) {
            status = read_key(in, &event, node, &key);
            yaml_event_delete(&event);
            if (status || (status = next_event(in, &event)))
                return status;
        }
        sw_yaml *item = NULL;
        status = read_node(in, &event, depth + 1, &item);
        if (!status)
            status = add_item(in, node, &capacity, key, key_line, item);
        if (status)
            return status;
    }
}

/* The value that begins with *event, which is consumed. */
static sw_status read_node(reader *in, yaml_event_t *event, int depth, sw_yaml **out) {
    int line = line_of(event->start_mark);
    sw_status status = SW_OK;
    sw_yaml *node = sw_arena_take(in->arena, sizeof *node);
    if (!node) {
        status = no_memory(in);
        goto done;
    }
    node->line = line;
    if (depth > SW_YAML_MAX_DEPTH) {
        status = refuse(in, line, NULL, "nested more than %d deep", SW_YAML_MAX_DEPTH);
        goto done;
    }
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        status = read_scalar(in, event, node);
        break;
    case YAML_SEQUENCE_START_EVENT:
        node->kind = SW_YAML_LIST;
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        node->kind = SW_YAML_MAP;
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    case YAML_ALIAS_EVENT:
        status =
            refuse(in, line, "put text that begins with * in quotes",
                   "an alias (*%.60s) is not taken here", (const char *)event->data.alias.anchor);
        break;
    default:
        status = sw_fail(in->err, SW_BUG, "%s:%d: unexpected YAML event %d", in->name, line,
                         (int)event->type);
    }
    if (!status && anchor)
        status = refuse(in, line, "put text that begins with & in quotes",
                        "an anchor (&%.60s) is not taken here", (const char *)anchor);
    if (!status && tag)
        status =
            refuse(in, line, "remove it", "a tag (%.60s) is not taken here", (const char *)tag);
done:
    yaml_event_delete(event);
    if (!status && node->kind != SW_YAML_SCALAR)
        status = read_items(in, node, depth);
    *out = node;
    return status;
}

static sw_status read_stream(reader *in, sw_yaml **root) {
    bool has_document = false;
    for (;;) {
        yaml_event_t event;
        sw_status status = next_event(in, &event);
        if (status)
            return status;
        yaml_event_type_t type = event.type;
        int line = line_of(event.start_mark);
        if (type == YAML_DOCUMENT_START_EVENT && has_document) {
            yaml_event_delete(&event);
            return refuse(in, line, "keep one", "a second document begins");
        }
        has_document = has_document || type == YAML_DOCUMENT_START_EVENT;
        if (type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_START_EVENT ||
            type == YAML_DOCUMENT_END_EVENT || type == YAML_STREAM_END_EVENT)
            yaml_event_delete(&event);
        else if ((status = read_node(in, &event, 1, root)))
            return status;
        if (type == YAML_STREAM_END_EVENT)
            return SW_OK;
    }
}

sw_status sw_yaml_parse(const char *name, const char *text, size_t bytes, sw_arena *arena,
                        sw_yaml **root, sw_error *err) {
    static const char byte_order_mark[] =
        "\xEF\xBB\xBF"; /* some editors begin every file with it */
    if (bytes >= 3 && !memcmp(text, byte_order_mark, 3))
        text += 3, bytes -= 3;
    reader in = {.name = name, .text = text, .arena = arena, .err = err};
    *root = NULL;
    if (bytes > SW_YAML_MAX_BYTES)
        return sw_fail(
            err, SW_BAD_CONFIG,
            "%zu bytes are too many for settings (at most %d) · %s · is it the right file?", bytes,
            SW_YAML_MAX_BYTES, name);
    if (!yaml_parser_initialize(&in.parser))
        return no_memory(&in);
    yaml_parser_set_encoding(&in.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&in.parser, (const unsigned char *)text, bytes);
    sw_status status = read_stream(&in, root);
    yaml_parser_delete(&in.parser);
    if (!status && !*root) { /* an empty file says nothing */
        sw_yaml *nothing = sw_arena_take(arena, sizeof *nothing);
        if (!nothing)
            return no_memory(&in);
        *nothing = (sw_yaml){.kind = SW_YAML_SCALAR, .line = 1, .is_plain = true, .text = ""};
        *root = nothing;
    }
    return status;
}

const sw_yaml *sw_yaml_get(const sw_yaml *map, const char *key) {
    for (int i = 0; map->kind == SW_YAML_MAP && i < map->n; i++)
        if (!strcmp(map->key[i], key))
            return map->item[i];
    return NULL;
}

static bool is_plain(const sw_yaml *node) {
    return node->kind == SW_YAML_SCALAR && node->is_plain;
}

bool sw_yaml_is_null(const sw_yaml *node) {
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    for (size_t i = 0; is_plain(node) && i < sizeof words / sizeof *words; i++)
        if (!strcmp(node->text, words[i]))
            return true;
    return false;
}

bool sw_yaml_boolean(const sw_yaml *node, bool *value) {
    *value = is_plain(node) && !strcmp(node->text, "true");
    return *value || (is_plain(node) && !strcmp(node->text, "false"));
}

bool sw_yaml_integer(const sw_yaml *node, int64_t *value) {
    return is_plain(node) && sw_text_parse_integer(node->text, value);
}

bool sw_yaml_real(const sw_yaml *node, double *value) {
    return is_plain(node) && sw_text_parse_real(node->text, value);
}

bool sw_yaml_equal(const sw_yaml *a, const sw_yaml *b) {
    if (a->kind != b->kind || a->n != b->n)
        return false;
    if (a->kind == SW_YAML_SCALAR) {
        double value_a, value_b;
        if (sw_yaml_is_null(a) || sw_yaml_is_null(b))
            return sw_yaml_is_null(a) && sw_yaml_is_null(b);
        if (sw_yaml_real(a, &value_a) && sw_yaml_real(b, &value_b))
            return value_a == value_b;
        return !strcmp(a->text, b->text);
    }
    for (int i = 0; i < a->n; i++) {
        const sw_yaml *other = a->kind == SW_YAML_MAP ? sw_yaml_get(b, a->key[i]) : b->item[i];
        if (!other || !sw_yaml_equal(a->item[i], other))
            return false;
    }
    return true;
}

/* Words and paths that every YAML reader takes as text when they stand alone, in a list or in a
 * flow map. */
static bool stands_plain(const char *text) {
    static const char safe[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+*?=@~";
    static const char *const words[] = {"null", "true", "false", "yes", "no",
                                        "on",   "off",  "y",     "n"};
    double number;
    if (!*text || text[strspn(text, safe)] || strchr("-.0123456789+*?=@~", *text))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(text, words[i]))
            return false;
    return !sw_text_parse_real(text, &number);
}

/* One code point of text that is known to be UTF-8. */
static uint32_t take_code_point(const char **at) {
    const unsigned char *byte = (const unsigned char *)*at;
    int n_more = *byte >= 0xF0 ? 3 : *byte >= 0xE0 ? 2 : *byte >= 0xC0 ? 1 : 0;
    uint32_t code = n_more ? *byte & (0x3Fu >> n_more) : *byte;
    for (int i = 1; i <= n_more; i++)
        code = code << 6 | (byte[i] & 0x3Fu);
    *at += n_more + 1;
    return code;
}

/* Line ends of every kind fold inside quotes, and a byte order mark or a control character is
 * refused there. */
static bool needs_escape(uint32_t code) {
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
           code == 0xFEFF || code == 0xFFFE || code == 0xFFFF;
}

char *sw_yaml_quote(const char *text, sw_arena *arena) {
    if (stands_plain(text))
        return sw_arena_text(arena, text);
    size_t length = strlen(text);
    char *quoted = sw_arena_take(arena, 6 * length + 3), *to = quoted;
    if (!quoted)
        return NULL;
    *to++ = '"';
    for (const char *at = text; *at;) {
        const char *begin = at;
        uint32_t code = take_code_point(&at);
        if (code == '"' || code == '\\')
            *to++ = '\\';
        if (needs_escape(code))
            to += sprintf(to, "\\u%04X", (unsigned)code);
        else {
            memcpy(to, begin, (size_t)(at - begin));
            to += at - begin;
        }
    }
    memcpy(to, "\"", 2);
    return quoted;
}
