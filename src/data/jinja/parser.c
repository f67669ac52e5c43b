/* parser.c: tokens taken one after the other, nodes made. */
#include "data/jinja/parser.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/integer.h"
#include "data/jinja/collection.h"
#include "data/jinja/text.h"

enum { MAX_HEIGHT = 400 };

bool sw_jinja_fail_line(jinja_run *run, int line, const char *format, ...) {
    if (run->status != SW_OK)
        return false;
    char message[SW_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    run->failed_line = line;
    return sw_jinja_fail(run, "%s", message);
}

const char *sw_jinja_token_words(const jinja_token *token) {
    static const char *const words[] = {
#define JINJA_TOKEN_WORD(name, spelling) spelling,
        JINJA_TOKENS(JINJA_TOKEN_WORD)
#undef JINJA_TOKEN_WORD
    };
    return words[token->kind];
}

bool sw_jinja_step(jinja_parser *parser) {
    if (parser->at->kind != JINJA_TOKEN_END)
        parser->at++;
    const jinja_token *token = parser->at;
    if (token->kind == JINJA_TOKEN_ERROR)
        return sw_jinja_fail_line(parser->run, token->line, "%.*s",
                                  (int)token->value.as.text->n_bytes, token->value.as.text->bytes);
    return true;
}

bool sw_jinja_is_named(const jinja_parser *parser, const char *name) {
    return parser->at->kind == JINJA_TOKEN_NAME &&
           sw_jinja_is_word(parser->at->value.as.text, name);
}

static const jinja_token *next_token(const jinja_parser *parser) {
    return parser->at +
           (parser->at->kind != JINJA_TOKEN_END && parser->at->kind != JINJA_TOKEN_ERROR);
}

bool sw_jinja_next_is(const jinja_parser *parser, jinja_token_kind kind) {
    return next_token(parser)->kind == kind;
}

bool sw_jinja_next_is_named(const jinja_parser *parser, const char *name) {
    const jinja_token *next = next_token(parser);
    return next->kind == JINJA_TOKEN_NAME && sw_jinja_is_word(next->value.as.text, name);
}

bool sw_jinja_skip(jinja_parser *parser, jinja_token_kind kind, bool *was_there) {
    *was_there = sw_jinja_is(parser, kind);
    return !*was_there || sw_jinja_step(parser);
}

bool sw_jinja_skip_named(jinja_parser *parser, const char *name, bool *was_there) {
    *was_there = sw_jinja_is_named(parser, name);
    return !*was_there || sw_jinja_step(parser);
}

bool sw_jinja_fail_expected(jinja_parser *parser, const char *expected) {
    const jinja_token *token = parser->at;
    if (token->kind == JINJA_TOKEN_END)
        return sw_jinja_fail_line(parser->run, token->line,
                                  "unexpected end of template, expected '%s'", expected);
    if (token->kind == JINJA_TOKEN_NAME)
        return sw_jinja_fail_line(parser->run, token->line, "expected '%s', got '%.*s'", expected,
                                  (int)smaller(token->value.as.text->n_bytes, 200),
                                  token->value.as.text->bytes);
    return sw_jinja_fail_line(parser->run, token->line, "expected '%s', got '%s'", expected,
                              sw_jinja_token_words(token));
}

bool sw_jinja_expect(jinja_parser *parser, jinja_token_kind kind) {
    jinja_token token = {.kind = kind};
    return sw_jinja_is(parser, kind) ? sw_jinja_step(parser)
                                     : sw_jinja_fail_expected(parser, sw_jinja_token_words(&token));
}

bool sw_jinja_expect_named(jinja_parser *parser, const char *name) {
    return sw_jinja_is_named(parser, name) ? sw_jinja_step(parser)
                                           : sw_jinja_fail_expected(parser, name);
}

jinja_text *sw_jinja_expect_name(jinja_parser *parser) {
    if (!sw_jinja_is(parser, JINJA_TOKEN_NAME)) {
        sw_jinja_fail_expected(parser, "name");
        return NULL;
    }
    jinja_text *name = sw_jinja_intern(parser, parser->at->value.as.text);
    return name && sw_jinja_step(parser) ? name : NULL;
}

bool sw_jinja_nest(jinja_parser *parser) {
    if (++parser->depth <= JINJA_MAX_NESTING)
        return true;
    return sw_jinja_fail_line(parser->run, parser->at->line,
                              "more than %d things inside one another", JINJA_MAX_NESTING);
}

jinja_node *sw_jinja_node(jinja_parser *parser, jinja_node_kind kind, int line) {
    jinja_node *node = sw_jinja_take(parser->run, sizeof *node);
    if (!node)
        return NULL;
    memset(node, 0, sizeof *node);
    node->kind = (uint8_t)kind;
    node->line = line;
    return node;
}

bool sw_jinja_below(jinja_parser *parser, jinja_node *node, const jinja_node *child) {
    if (child && child->height >= node->height)
        node->height = child->height + 1;
    if (node->height <= MAX_HEIGHT)
        return true;
    return sw_jinja_fail_line(parser->run, node->line,
                              "an expression of more than %d operations inside one another",
                              MAX_HEIGHT);
}

bool sw_jinja_append(jinja_parser *parser, jinja_node_list *list, jinja_node *node) {
    if (list->nodes.n == list->capacity) {
        int32_t wider = list->capacity ? 2 * list->capacity : 4;
        jinja_node **moved = sw_jinja_take(parser->run, wider * (int64_t)sizeof *moved);
        if (!moved)
            return false;
        if (list->nodes.n)
            memcpy(moved, list->nodes.items, (size_t)list->nodes.n * sizeof *moved);
        list->nodes.items = moved;
        list->capacity = wider;
    }
    list->nodes.items[list->nodes.n++] = node;
    return true;
}

jinja_text *sw_jinja_intern(jinja_parser *parser, const jinja_text *text) {
    jinja_dict *words = parser->template->words;
    jinja_value key = sw_jinja_of_text((jinja_text *)text);
    const jinja_value *found = sw_jinja_get_text(words, key.as.text);
    if (found)
        return found->as.text;
    sw_jinja_text_settle(key.as.text);
    return sw_jinja_set(parser->run, words, &key, &key) ? key.as.text : NULL;
}
