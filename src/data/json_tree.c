/* json_tree.c: a value of a line as a tree, for what is handed on: to a template a message is more
 * than its role and content. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "data/json_cursor.h"

enum { MAX_TREE_DEPTH = 256, LONGEST_NUMBER = 1024 };

static sw_status no_memory(const sw_json_cursor *r) {
    return sw_fail(r->err, SW_NO_MEMORY, "%s: no memory for a row", r->name);
}

static sw_status read_number(sw_json_cursor *r, json_t **value) {
    const char *const first = r->at;
    char text[LONGEST_NUMBER];
    sw_status status = sw_json_cursor_scalar(r);
    if (status != SW_OK)
        return status;
    const size_t n = (size_t)(r->at - first);
    if (n >= sizeof text) {
        r->at = first;
        return sw_json_cursor_refuse(r, "a number of more than 1000 digits");
    }
    memcpy(text, first, n);
    text[n] = 0;
    errno = 0;
    if (strpbrk(text, ".eE")) {
        const double real = strtod(text, NULL);
        *value = json_real(real); /* NULL for an infinite one */
        if (!*value && real - real != 0) {
            r->at = first;
            return sw_json_cursor_refuse(r, "a number that no double holds; write it as a string");
        }
    } else {
        const long long integer = strtoll(text, NULL, 10);
        if (errno == ERANGE) {
            r->at = first;
            return sw_json_cursor_refuse(r, "a whole number beyond 64 bits; write it as a string");
        }
        *value = json_integer(integer);
    }
    return *value ? SW_OK : no_memory(r);
}

static sw_status read_scalar(sw_json_cursor *r, json_t **value) {
    const char *const first = r->at;
    sw_status status;
    if (*first == '"') {
        const int64_t kept = r->n_decoded;
        sw_slice text;
        if ((status = sw_json_cursor_string(r, &text)) != SW_OK)
            return status;
        r->n_decoded = kept;
        *value = json_stringn_nocheck(text.text, (size_t)text.bytes);
        return *value ? SW_OK : no_memory(r);
    }
    if (*first == '-' || (*first >= '0' && *first <= '9'))
        return read_number(r, value);
    if ((status = sw_json_cursor_scalar(r)) != SW_OK)
        return status;
    *value = *first == 't' ? json_true() : *first == 'f' ? json_false() : json_null();
    return SW_OK;
}

static sw_status read_value(sw_json_cursor *r, int depth, json_t **value);

static sw_status read_member(sw_json_cursor *r, int depth, json_t *object) {
    const int64_t kept = r->n_decoded;
    const char *const first = r->at;
    sw_slice key;
    json_t *value = NULL;
    sw_status status = sw_json_cursor_string(r, &key);
    if (status != SW_OK)
        return status;
    if (memchr(key.text, 0, (size_t)key.bytes) ||
        json_object_getn(object, key.text, (size_t)key.bytes)) {
        r->at = first;
        sw_json_cursor_blanks(r);
        return sw_json_cursor_refuse(r,
                                     memchr(key.text, 0, (size_t)key.bytes)
                                         ? "a key that holds the character U+0000"
                                         : "this key comes twice in its object; which is meant?");
    }
    if (!sw_json_cursor_pass(r, ':'))
        return sw_json_cursor_refuse(r, "not JSON: a colon is needed after a key");
    /* The key stays decoded until its value is read. */
    status = read_value(r, depth, &value);
    if (status == SW_OK &&
        json_object_setn_new_nocheck(object, key.text, (size_t)key.bytes, value) != 0)
        status = no_memory(r);
    r->n_decoded = kept;
    return status;
}

static sw_status read_members(sw_json_cursor *r, int depth, json_t *container) {
    const bool is_object = json_is_object(container);
    const char closing = is_object ? '}' : ']';
    if (sw_json_cursor_pass(r, closing))
        return SW_OK;
    do {
        json_t *value = NULL;
        sw_status status =
            is_object ? read_member(r, depth, container) : read_value(r, depth, &value);
        if (status != SW_OK)
            return status;
        if (!is_object && json_array_append_new(container, value) != 0)
            return no_memory(r);
    } while (sw_json_cursor_pass(r, ','));
    return sw_json_cursor_pass(r, closing)
               ? SW_OK
               : sw_json_cursor_refuse(r, is_object ? "not JSON: a comma or } is needed here"
                                                    : "not JSON: a comma or ] is needed here");
}

static sw_status read_value(sw_json_cursor *r, int depth, json_t **value) {
    sw_json_cursor_blanks(r);
    if (r->at == r->end)
        return sw_json_cursor_refuse(
            r, "not JSON: the line ends before the object does; a row is one line");
    if (*r->at != '{' && *r->at != '[')
        return read_scalar(r, value);
    if (depth == MAX_TREE_DEPTH)
        return sw_json_cursor_refuse(r, "brackets are nested too deep");
    json_t *container = *r->at++ == '{' ? json_object() : json_array();
    if (!container)
        return no_memory(r);
    sw_status status = read_members(r, depth + 1, container);
    if (status == SW_OK)
        *value = container;
    else
        json_decref(container);
    return status;
}

sw_status sw_json_cursor_tree(sw_json_cursor *r, json_t **value) {
    *value = NULL;
    return read_value(r, 0, value);
}
