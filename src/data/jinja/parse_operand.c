/* parse_operand.c: what is written behind a value: signs before it, attributes, items and calls,
 * filters and tests. */
#include "data/jinja/attributes.h"
#include "data/jinja/builtins.h"
#include "data/jinja/parser.h"
#include "data/jinja/text.h"

static bool add_keyword(jinja_parser *parser, jinja_call_parts *parts, jinja_node_list *values,
                        jinja_text *name, jinja_node *value) {
    int32_t n = values->nodes.n;
    for (int32_t i = 0; i < n; i++)
        if (parts->names[i] == name)
            return sw_jinja_fail_line(parser->run, value->line, "keyword argument repeated: %.*s",
                                      (int)name->n_bytes, name->bytes);
    if ((n & (n - 1)) == 0) { /* room for twice as many */
        jinja_text **names =
            sw_jinja_take(parser->run, (2 * (int64_t)n + 1) * (int64_t)sizeof *names);
        if (!names)
            return false;
        if (n)
            memcpy(names, parts->names, (size_t)n * sizeof *names);
        parts->names = names;
    }
    parts->names[n] = name;
    return sw_jinja_append(parser, values, value) && sw_jinja_spend(parser->run, n);
}

/* ( ... ) of a call. */
static bool parse_arguments(jinja_parser *parser, jinja_node *node, jinja_call_parts *parts) {
    int line = parser->at->line;
    jinja_node_list arguments = {0}, values = {0};
    bool needs_comma = false;
    if (!sw_jinja_expect(parser, JINJA_TOKEN_PARENTHESIS))
        return false;
    while (!sw_jinja_is(parser, JINJA_TOKEN_PARENTHESIS_END)) {
        if (needs_comma && !sw_jinja_expect(parser, JINJA_TOKEN_COMMA))
            return false;
        if (needs_comma && sw_jinja_is(parser, JINJA_TOKEN_PARENTHESIS_END))
            break;
        needs_comma = true;
        bool is_more = sw_jinja_is(parser, JINJA_TOKEN_TIMES),
             is_named_more = sw_jinja_is(parser, JINJA_TOKEN_POWER);
        bool is_keyword =
            sw_jinja_is(parser, JINJA_TOKEN_NAME) && sw_jinja_next_is(parser, JINJA_TOKEN_ASSIGN);
        bool is_late =
            parts->named_more || (is_more && parts->more) ||
            (!is_more && !is_named_more && !is_keyword && (parts->more || values.nodes.n));
        if (is_late)
            return sw_jinja_fail_line(parser->run, line,
                                      "invalid syntax for function call expression");
        jinja_text *name = is_keyword ? sw_jinja_intern(parser, parser->at->value.as.text) : NULL;
        if ((is_keyword && (!name || !sw_jinja_step(parser))) ||
            ((is_keyword || is_more || is_named_more) && !sw_jinja_step(parser)))
            return false;
        jinja_node *value = sw_jinja_parse_expression(parser, true);
        if (!value || !sw_jinja_below(parser, node, value))
            return false;
        if (is_more)
            parts->more = value;
        else if (is_named_more)
            parts->named_more = value;
        else if (!(is_keyword ? add_keyword(parser, parts, &values, name, value)
                              : sw_jinja_append(parser, &arguments, value)))
            return false;
    }
    parts->arguments = arguments.nodes;
    parts->values = values.nodes;
    return sw_jinja_expect(parser, JINJA_TOKEN_PARENTHESIS_END);
}

static jinja_node *parse_call(jinja_parser *parser, jinja_node *called) {
    jinja_node *node = sw_jinja_node(parser, JINJA_CALL, parser->at->line);
    if (!node || !sw_jinja_below(parser, node, called))
        return NULL;
    node->as.call.called = called;
    return parse_arguments(parser, node, &node->as.call.parts) ? node : NULL;
}

/* a.b.c: the whole as one word. */
static jinja_text *parse_dotted_name(jinja_parser *parser) {
    jinja_text *name = sw_jinja_expect_name(parser);
    while (name && sw_jinja_is(parser, JINJA_TOKEN_DOT)) {
        jinja_text *part = sw_jinja_step(parser) ? sw_jinja_expect_name(parser) : NULL;
        jinja_text *dot = sw_jinja_words(parser->run, ".");
        jinja_text *stem = part && dot ? sw_jinja_join(parser->run, name, dot) : NULL;
        name = stem ? sw_jinja_join(parser->run, stem, part) : NULL;
    }
    if (name)
        sw_jinja_text_settle(name);
    return name;
}

/* One that does not exist is an error, unless it turns out to stand in a branch that may never be
 * taken. */
static void note_unknown(jinja_parser *parser, const jinja_node *node) {
    if (!node->as.call.builtin && !parser->unknown)
        parser->unknown = node;
}

jinja_node *sw_jinja_parse_filters(jinja_parser *parser, jinja_node *node, bool is_begun) {
    while (is_begun || sw_jinja_is(parser, JINJA_TOKEN_PIPE)) {
        if (!is_begun && !sw_jinja_step(parser))
            return NULL;
        is_begun = false;
        jinja_node *filter = sw_jinja_node(parser, JINJA_FILTER, parser->at->line);
        jinja_text *name = parse_dotted_name(parser);
        if (!filter || !name || !sw_jinja_below(parser, filter, node))
            return NULL;
        filter->as.call.called = node;
        filter->as.call.name = name;
        filter->as.call.builtin = sw_jinja_filter(name);
        if (sw_jinja_is(parser, JINJA_TOKEN_PARENTHESIS) &&
            !parse_arguments(parser, filter, &filter->as.call.parts))
            return NULL;
        note_unknown(parser, filter);
        node = filter;
    }
    return node;
}

/* Does what stands here begin a test's argument that needs no parentheses? */
static bool begins_argument(const jinja_parser *parser) {
    switch (parser->at->kind) {
    case JINJA_TOKEN_NAME:
        return !sw_jinja_is_named(parser, "else") && !sw_jinja_is_named(parser, "or") &&
               !sw_jinja_is_named(parser, "and");
    case JINJA_TOKEN_STRING:
    case JINJA_TOKEN_INTEGER:
    case JINJA_TOKEN_REAL:
    case JINJA_TOKEN_BRACKET:
    case JINJA_TOKEN_BRACE:
        return true;
    default:
        return false;
    }
}

static jinja_node *parse_test(jinja_parser *parser, jinja_node *tested) {
    int line = parser->at->line;
    bool is_not;
    if (!sw_jinja_step(parser) || !sw_jinja_skip_named(parser, "not", &is_not))
        return NULL;
    jinja_node *node = sw_jinja_node(parser, JINJA_TEST, line);
    jinja_text *name = parse_dotted_name(parser);
    if (!node || !name || !sw_jinja_below(parser, node, tested))
        return NULL;
    node->as.call.called = tested;
    node->as.call.name = name;
    node->as.call.builtin = sw_jinja_test(name);
    if (sw_jinja_is(parser, JINJA_TOKEN_PARENTHESIS)) {
        if (!parse_arguments(parser, node, &node->as.call.parts))
            return NULL;
    } else if (begins_argument(parser)) {
        if (sw_jinja_is_named(parser, "is")) {
            sw_jinja_fail_line(parser->run, parser->at->line,
                               "You cannot chain multiple tests with is");
            return NULL;
        }
        jinja_node *argument = sw_jinja_parse_primary(parser, false);
        jinja_node_list arguments = {0};
        argument = argument ? sw_jinja_parse_postfix(parser, argument) : NULL;
        if (!argument || !sw_jinja_append(parser, &arguments, argument) ||
            !sw_jinja_below(parser, node, argument))
            return NULL;
        node->as.call.parts.arguments = arguments.nodes;
    }
    note_unknown(parser, node);
    return is_not ? sw_jinja_make_binary(parser, JINJA_NOT, line, node, NULL) : node;
}

static jinja_node *parse_part_of_slice(jinja_parser *parser, bool *has_failed) {
    if (sw_jinja_is(parser, JINJA_TOKEN_COLON) || sw_jinja_is(parser, JINJA_TOKEN_BRACKET_END) ||
        sw_jinja_is(parser, JINJA_TOKEN_COMMA))
        return NULL;
    jinja_node *part = sw_jinja_parse_expression(parser, true);
    *has_failed = *has_failed || !part;
    return part;
}

/* What stands between [ and ]: an index, or a slice. */
static jinja_node *parse_subscript(jinja_parser *parser) {
    int line = parser->at->line;
    bool has_failed = false, is_slice = sw_jinja_is(parser, JINJA_TOKEN_COLON), is_step;
    jinja_node *start = is_slice ? NULL : sw_jinja_parse_expression(parser, true);
    if (!is_slice && (!start || !sw_jinja_is(parser, JINJA_TOKEN_COLON)))
        return start;
    jinja_node *node = sw_jinja_node(parser, JINJA_SLICE, line);
    if (!node || !sw_jinja_step(parser))
        return NULL;
    node->as.slice.start = start;
    node->as.slice.stop = parse_part_of_slice(parser, &has_failed);
    if (has_failed || !sw_jinja_skip(parser, JINJA_TOKEN_COLON, &is_step))
        return NULL;
    if (is_step)
        node->as.slice.step = parse_part_of_slice(parser, &has_failed);
    return !has_failed && sw_jinja_below(parser, node, start) &&
                   sw_jinja_below(parser, node, node->as.slice.stop) &&
                   sw_jinja_below(parser, node, node->as.slice.step)
               ? node
               : NULL;
}

static jinja_node *parse_index(jinja_parser *parser, jinja_node *owner) {
    int line = parser->at->line;
    jinja_node *node = sw_jinja_node(parser, JINJA_ITEM, line), *index = NULL;
    jinja_node_list list = {0};
    if (!node || !sw_jinja_step(parser))
        return NULL;
    while (!sw_jinja_is(parser, JINJA_TOKEN_BRACKET_END)) {
        if (index && !sw_jinja_expect(parser, JINJA_TOKEN_COMMA))
            return NULL;
        index = parse_subscript(parser);
        if (!index || !sw_jinja_append(parser, &list, index) ||
            !sw_jinja_below(parser, node, index))
            return NULL;
        if (index->kind == JINJA_SLICE && list.nodes.n > 1) {
            sw_jinja_fail_line(parser->run, line, "a slice beside other indices");
            return NULL;
        }
    }
    if (list.nodes.n != 1) { /* x[1, 2] has a tuple for an index */
        jinja_node *tuple = sw_jinja_node(parser, JINJA_MAKE_TUPLE, line);
        if (!tuple || (list.nodes.n && list.nodes.items[0]->kind == JINJA_SLICE))
            return tuple ? (sw_jinja_fail_line(parser->run, line, "a slice beside other indices"),
                            NULL)
                         : NULL;
        tuple->as.list = list.nodes;
        index = tuple;
    }
    node->as.item.owner = owner;
    node->as.item.index = index;
    return sw_jinja_expect(parser, JINJA_TOKEN_BRACKET_END) && sw_jinja_below(parser, node, owner)
               ? node
               : NULL;
}

static jinja_node *parse_dot(jinja_parser *parser, jinja_node *owner) {
    int line = parser->at->line;
    if (!sw_jinja_step(parser))
        return NULL;
    bool is_name = sw_jinja_is(parser, JINJA_TOKEN_NAME);
    jinja_node *node = sw_jinja_node(parser, is_name ? JINJA_ATTRIBUTE : JINJA_ITEM, line);
    if (!node || !sw_jinja_below(parser, node, owner))
        return NULL;
    node->as.item.owner = owner;
    if (is_name) {
        node->as.item.name = sw_jinja_expect_name(parser);
        if (!node->as.item.name)
            return NULL;
        node->as.item.may_be_attribute = sw_jinja_is_attribute_name(node->as.item.name);
        return node;
    }
    if (!sw_jinja_is(parser, JINJA_TOKEN_INTEGER)) {
        sw_jinja_fail_line(parser->run, parser->at->line,
                           "expected name or number behind the dot, got '%s'",
                           sw_jinja_token_words(parser->at));
        return NULL;
    }
    jinja_node *index = sw_jinja_node(parser, JINJA_CONSTANT, line);
    if (!index)
        return NULL;
    index->as.constant = parser->at->value;
    node->as.item.index = index;
    return sw_jinja_step(parser) ? node : NULL;
}

jinja_node *sw_jinja_parse_postfix(jinja_parser *parser, jinja_node *node) {
    while (node) {
        if (sw_jinja_is(parser, JINJA_TOKEN_DOT))
            node = parse_dot(parser, node);
        else if (sw_jinja_is(parser, JINJA_TOKEN_BRACKET))
            node = parse_index(parser, node);
        else if (sw_jinja_is(parser, JINJA_TOKEN_PARENTHESIS))
            node = parse_call(parser, node);
        else
            break;
    }
    return node;
}

jinja_node *sw_jinja_parse_unary(jinja_parser *parser, bool with_filter) {
    int line = parser->at->line;
    bool is_minus = sw_jinja_is(parser, JINJA_TOKEN_MINUS),
         is_plus = sw_jinja_is(parser, JINJA_TOKEN_PLUS);
    jinja_node *node = NULL;
    if (is_minus || is_plus) {
        if (sw_jinja_nest(parser) && sw_jinja_step(parser))
            node = sw_jinja_parse_unary(parser, false);
        parser->depth--;
        node = sw_jinja_make_binary(parser, is_minus ? JINJA_NEGATIVE : JINJA_POSITIVE, line, node,
                                    NULL);
    } else {
        node = sw_jinja_parse_primary(parser, false);
    }
    node = node ? sw_jinja_parse_postfix(parser, node) : NULL;
    while (node && with_filter) {
        if (sw_jinja_is(parser, JINJA_TOKEN_PIPE))
            node = sw_jinja_parse_filters(parser, node, false);
        else if (sw_jinja_is_named(parser, "is"))
            node = parse_test(parser, node);
        else if (sw_jinja_is(parser, JINJA_TOKEN_PARENTHESIS))
            node = parse_call(parser, node);
        else
            break;
    }
    return node;
}
