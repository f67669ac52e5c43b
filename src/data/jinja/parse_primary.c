/* parse_primary.c: names, literals and brackets; and what can be assigned to. */
#include "data/jinja/parser.h"
#include "data/jinja/text.h"

static jinja_node *make_constant(jinja_parser *parser, int line, jinja_value value) {
    jinja_node *node = sw_jinja_node(parser, JINJA_CONSTANT, line);
    if (node)
        node->as.constant = value;
    return node;
}

static jinja_node *parse_name(jinja_parser *parser, bool with_part) {
    static const struct {
        const char *word;
        jinja_value value;
    } constants[] = {{"true", {JINJA_BOOL, {.truth = true}}},
                     {"True", {JINJA_BOOL, {.truth = true}}},
                     {"false", {JINJA_BOOL, {.truth = false}}},
                     {"False", {JINJA_BOOL, {.truth = false}}},
                     {"none", {JINJA_NONE, {0}}},
                     {"None", {JINJA_NONE, {0}}}};
    int line = parser->at->line;
    jinja_text *name = sw_jinja_expect_name(parser);
    if (!name)
        return NULL;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (sw_jinja_is_word(name, constants[i].word))
            return make_constant(parser, line, constants[i].value);
    bool is_part = with_part && sw_jinja_is(parser, JINJA_TOKEN_DOT);
    jinja_node *node = sw_jinja_node(parser, is_part ? JINJA_NAMESPACE_PART : JINJA_NAME, line);
    if (!node)
        return NULL;
    node->as.name.name = name;
    node->as.name.context = -1;
    if (is_part &&
        (!sw_jinja_step(parser) || !(node->as.name.attribute = sw_jinja_expect_name(parser))))
        return NULL;
    return node;
}

static jinja_node *parse_strings(jinja_parser *parser) {
    int line = parser->at->line;
    jinja_text *whole = NULL;
    while (sw_jinja_is(parser, JINJA_TOKEN_STRING)) {
        jinja_text *part = parser->at->value.as.text;
        whole = whole ? sw_jinja_join(parser->run, whole, part) : part;
        if (!whole || !sw_jinja_step(parser))
            return NULL;
    }
    whole = sw_jinja_intern(parser, whole);
    return whole ? make_constant(parser, line, sw_jinja_of_text(whole)) : NULL;
}

/* Items up to a bracket, with commas between them; a dict's are key : value. */
static jinja_node *parse_items(jinja_parser *parser, jinja_node_kind kind, jinja_token_kind end) {
    jinja_node *node = sw_jinja_node(parser, kind, parser->at->line);
    jinja_node_list list = {0};
    if (!node || !sw_jinja_step(parser))
        return NULL;
    while (!sw_jinja_is(parser, end)) {
        if (list.nodes.n && !sw_jinja_expect(parser, JINJA_TOKEN_COMMA))
            return NULL;
        if (sw_jinja_is(parser, end))
            break;
        jinja_node *item = sw_jinja_parse_expression(parser, true);
        if (!item || !sw_jinja_append(parser, &list, item) || !sw_jinja_below(parser, node, item))
            return NULL;
        if (kind != JINJA_MAKE_DICT)
            continue;
        item = sw_jinja_expect(parser, JINJA_TOKEN_COLON) ? sw_jinja_parse_expression(parser, true)
                                                          : NULL;
        if (!item || !sw_jinja_append(parser, &list, item) || !sw_jinja_below(parser, node, item))
            return NULL;
    }
    node->as.list = list.nodes;
    return sw_jinja_expect(parser, end) ? node : NULL;
}

static jinja_node *parse_tuple_of(jinja_parser *parser, bool is_target, bool with_part,
                                  bool with_conditional, bool has_parentheses);

jinja_node *sw_jinja_parse_primary(jinja_parser *parser, bool with_part) {
    jinja_node *node;
    switch (parser->at->kind) {
    case JINJA_TOKEN_NAME:
        return parse_name(parser, with_part);
    case JINJA_TOKEN_STRING:
        return parse_strings(parser);
    case JINJA_TOKEN_INTEGER:
    case JINJA_TOKEN_REAL:
        node = make_constant(parser, parser->at->line, parser->at->value);
        return sw_jinja_step(parser) ? node : NULL;
    case JINJA_TOKEN_PARENTHESIS:
        node = sw_jinja_step(parser) ? parse_tuple_of(parser, false, false, true, true) : NULL;
        return node && sw_jinja_expect(parser, JINJA_TOKEN_PARENTHESIS_END) ? node : NULL;
    case JINJA_TOKEN_BRACKET:
        return parse_items(parser, JINJA_MAKE_LIST, JINJA_TOKEN_BRACKET_END);
    case JINJA_TOKEN_BRACE:
        return parse_items(parser, JINJA_MAKE_DICT, JINJA_TOKEN_BRACE_END);
    default:
        sw_jinja_fail_line(parser->run, parser->at->line, "unexpected '%s'",
                           sw_jinja_token_words(parser->at));
        return NULL;
    }
}

static jinja_node *parse_tuple_of(jinja_parser *parser, bool is_target, bool with_part,
                                  bool with_conditional, bool has_parentheses) {
    int line = parser->at->line;
    jinja_node_list list = {0};
    bool is_tuple = false;
    for (;;) {
        if (list.nodes.n && !sw_jinja_expect(parser, JINJA_TOKEN_COMMA))
            return NULL;
        if (sw_jinja_is(parser, JINJA_TOKEN_VARIABLE_END) ||
            sw_jinja_is(parser, JINJA_TOKEN_BLOCK_END) ||
            sw_jinja_is(parser, JINJA_TOKEN_PARENTHESIS_END))
            break;
        jinja_node *item = is_target ? sw_jinja_parse_primary(parser, with_part)
                                     : sw_jinja_parse_expression(parser, with_conditional);
        if (!item || !sw_jinja_append(parser, &list, item))
            return NULL;
        if (!sw_jinja_is(parser, JINJA_TOKEN_COMMA))
            break;
        is_tuple = true;
        line = parser->at->line;
    }
    if (!is_tuple && list.nodes.n)
        return list.nodes.items[0];
    if (!is_tuple && !has_parentheses) {
        sw_jinja_fail_line(parser->run, parser->at->line, "Expected an expression, got '%s'",
                           sw_jinja_token_words(parser->at));
        return NULL;
    }
    jinja_node *node = sw_jinja_node(parser, JINJA_MAKE_TUPLE, line);
    for (int32_t i = 0; i < list.nodes.n && node; i++)
        if (!sw_jinja_below(parser, node, list.nodes.items[i]))
            return NULL;
    if (node)
        node->as.list = list.nodes;
    return node;
}

jinja_node *sw_jinja_parse_tuple(jinja_parser *parser, bool with_conditional) {
    return parse_tuple_of(parser, false, false, with_conditional, false);
}

/* Names, and tuples of what can be assigned to. */
static bool check_target(jinja_parser *parser, jinja_node *node) {
    static const char *const words[] = {
        [JINJA_CONSTANT] = "const", [JINJA_MAKE_LIST] = "list", [JINJA_MAKE_DICT] = "dict"};
    if (node->kind == JINJA_NAME && sw_jinja_is_word(node->as.name.name, "loop")) {
        parser->n_loop_stores++;
        parser->loop_store_line = node->line;
    }
    if (node->kind == JINJA_NAME || node->kind == JINJA_NAMESPACE_PART)
        return true;
    for (int32_t i = 0; node->kind == JINJA_MAKE_TUPLE && i < node->as.list.n; i++)
        if (!check_target(parser, node->as.list.items[i]))
            return false;
    const char *word = node->kind <= JINJA_MAKE_DICT ? words[node->kind] : NULL;
    return node->kind == JINJA_MAKE_TUPLE ||
           sw_jinja_fail_line(parser->run, node->line, "can't assign to %s",
                              word ? word : "an expression");
}

jinja_node *sw_jinja_parse_target(jinja_parser *parser, bool with_part) {
    jinja_node *target = parse_tuple_of(parser, true, with_part, false, false);
    return target && check_target(parser, target) ? target : NULL;
}

jinja_node *sw_jinja_parse_target_name(jinja_parser *parser) {
    int line = parser->at->line;
    jinja_node *target = sw_jinja_is(parser, JINJA_TOKEN_NAME) ? parse_name(parser, false) : NULL;
    if (target && target->kind != JINJA_NAME)
        sw_jinja_fail_line(parser->run, line, "can't assign to a constant");
    else if (!target)
        sw_jinja_expect_name(parser); /* says what is there instead */
    return target && target->kind == JINJA_NAME ? target : NULL;
}
