/* parse_expression.c: operators, from the loosest binding to the tightest, as Jinja has them: a if
 * b else c; or; and; not; comparisons; + and -; ~; * / // %; **; signs. What they work on is in
 * parse_operand.c and parse_primary.c. */
#include "data/jinja/parser.h"
#include "data/jinja/text.h"

static jinja_node *parse_or(jinja_parser *parser);

jinja_node *sw_jinja_make_binary(jinja_parser *parser, jinja_node_kind kind, int line,
                                 jinja_node *left, jinja_node *right) {
    jinja_node *node =
        left && (right || kind == JINJA_NOT || kind == JINJA_NEGATIVE || kind == JINJA_POSITIVE)
            ? sw_jinja_node(parser, kind, line)
            : NULL;
    if (!node)
        return NULL;
    node->as.binary.left = left;
    node->as.binary.right = right;
    return sw_jinja_below(parser, node, left) && sw_jinja_below(parser, node, right) ? node : NULL;
}

static jinja_node *parse_conditional(jinja_parser *parser) {
    int line = parser->at->line;
    bool is_if, is_else;
    const jinja_node *unknown = parser->unknown;
    jinja_node *yes = parse_or(parser);
    while (yes) {
        if (!sw_jinja_skip_named(parser, "if", &is_if))
            return NULL;
        if (!is_if)
            return yes;
        jinja_node *node = sw_jinja_node(parser, JINJA_CONDITIONAL, line), *test = parse_or(parser),
                   *no = NULL;
        if (!node || !test || !sw_jinja_skip_named(parser, "else", &is_else))
            return NULL;
        if (is_else && !(no = sw_jinja_parse_expression(parser, true)))
            return NULL;
        node->as.conditional.test = test;
        node->as.conditional.yes = yes;
        node->as.conditional.no = no;
        if (!sw_jinja_below(parser, node, test) || !sw_jinja_below(parser, node, yes) ||
            !sw_jinja_below(parser, node, no))
            return NULL;
        yes = node;
        parser->unknown = unknown;
        line = parser->at->line;
    }
    return NULL;
}

jinja_node *sw_jinja_parse_expression(jinja_parser *parser, bool with_conditional) {
    jinja_node *node = NULL;
    if (sw_jinja_nest(parser))
        node = with_conditional ? parse_conditional(parser) : parse_or(parser);
    parser->depth--;
    return node;
}

static jinja_node *parse_compare(jinja_parser *parser);

static jinja_node *parse_not(jinja_parser *parser) {
    int line = parser->at->line;
    bool is_not;
    if (!sw_jinja_skip_named(parser, "not", &is_not))
        return NULL;
    if (!is_not)
        return parse_compare(parser);
    jinja_node *node = sw_jinja_nest(parser) ? parse_not(parser) : NULL;
    parser->depth--;
    return sw_jinja_make_binary(parser, JINJA_NOT, line, node, NULL);
}

static jinja_node *parse_and(jinja_parser *parser) {
    int line = parser->at->line;
    bool is_and = true;
    jinja_node *left = parse_not(parser);
    while (left && sw_jinja_skip_named(parser, "and", &is_and)) {
        if (!is_and)
            return left;
        left = sw_jinja_make_binary(parser, JINJA_AND, line, left, parse_not(parser));
        line = parser->at->line;
    }
    return NULL;
}

static jinja_node *parse_or(jinja_parser *parser) {
    int line = parser->at->line;
    bool is_or = true;
    jinja_node *left = parse_and(parser);
    while (left && sw_jinja_skip_named(parser, "or", &is_or)) {
        if (!is_or)
            return left;
        left = sw_jinja_make_binary(parser, JINJA_OR, line, left, parse_and(parser));
        line = parser->at->line;
    }
    return NULL;
}

/* Does Jinja know its value before the template runs? Names and calls it does not. */
static bool is_constant(const jinja_node *node) {
    switch ((jinja_node_kind)node->kind) {
    case JINJA_CONSTANT:
        return true;
    case JINJA_NEGATIVE:
    case JINJA_POSITIVE:
        return is_constant(node->as.binary.left);
    case JINJA_BINARY:
        return is_constant(node->as.binary.left) && is_constant(node->as.binary.right);
    case JINJA_FILTER:
        return node->as.call.called && is_constant(node->as.call.called) &&
               node->as.call.parts.arguments.n == 0;
    default:
        return false;
    }
}

/* -2 ** n, where only the 2 is known: the sign then goes to the power, as the Python that Jinja
 * writes reads it. */
static jinja_node *power_of(jinja_parser *parser, int line, jinja_node *left, jinja_node *right) {
    bool is_moved =
        left->kind == JINJA_NEGATIVE && right && is_constant(left) && !is_constant(right);
    jinja_node *node = sw_jinja_make_binary(parser, JINJA_BINARY, line,
                                            is_moved ? left->as.binary.left : left, right);
    if (!node)
        return NULL;
    node->as.binary.sign = JINJA_POWER;
    return is_moved ? sw_jinja_make_binary(parser, JINJA_NEGATIVE, line, node, NULL) : node;
}

static jinja_node *parse_power(jinja_parser *parser) {
    int line = parser->at->line;
    bool is_power;
    jinja_node *left = sw_jinja_parse_unary(parser, true);
    while (left && sw_jinja_skip(parser, JINJA_TOKEN_POWER, &is_power)) {
        if (!is_power)
            return left;
        left = power_of(parser, line, left, sw_jinja_parse_unary(parser, true));
        line = parser->at->line;
    }
    return NULL;
}

static jinja_node *parse_product(jinja_parser *parser) {
    int line = parser->at->line;
    jinja_node *left = parse_power(parser);
    while (left) {
        jinja_token_kind kind = parser->at->kind;
        jinja_sign sign = kind == JINJA_TOKEN_TIMES            ? JINJA_MULTIPLY
                          : kind == JINJA_TOKEN_DIVISION       ? JINJA_DIVIDE
                          : kind == JINJA_TOKEN_FLOOR_DIVISION ? JINJA_FLOOR
                                                               : JINJA_MODULO;
        if (sign == JINJA_MODULO && kind != JINJA_TOKEN_MODULO)
            return left;
        if (!sw_jinja_step(parser))
            return NULL;
        left = sw_jinja_make_binary(parser, JINJA_BINARY, line, left, parse_power(parser));
        if (left)
            left->as.binary.sign = sign;
        line = parser->at->line;
    }
    return NULL;
}

static jinja_node *parse_concat(jinja_parser *parser) {
    int line = parser->at->line;
    jinja_node *first = parse_product(parser);
    if (!first || !sw_jinja_is(parser, JINJA_TOKEN_TILDE))
        return first;
    jinja_node *node = sw_jinja_node(parser, JINJA_CONCAT, line);
    jinja_node_list list = {0};
    if (!node || !sw_jinja_append(parser, &list, first) || !sw_jinja_below(parser, node, first))
        return NULL;
    while (sw_jinja_is(parser, JINJA_TOKEN_TILDE)) {
        jinja_node *next = sw_jinja_step(parser) ? parse_product(parser) : NULL;
        if (!next || !sw_jinja_append(parser, &list, next) || !sw_jinja_below(parser, node, next))
            return NULL;
    }
    node->as.list = list.nodes;
    return node;
}

static jinja_node *parse_sum(jinja_parser *parser) {
    int line = parser->at->line;
    jinja_node *left = parse_concat(parser);
    while (left) {
        bool is_minus = sw_jinja_is(parser, JINJA_TOKEN_MINUS);
        if (!is_minus && !sw_jinja_is(parser, JINJA_TOKEN_PLUS))
            return left;
        if (!sw_jinja_step(parser))
            return NULL;
        left = sw_jinja_make_binary(parser, JINJA_BINARY, line, left, parse_concat(parser));
        if (left)
            left->as.binary.sign = is_minus ? JINJA_SUBTRACT : JINJA_ADD;
        line = parser->at->line;
    }
    return NULL;
}

/* The comparison that the current token is, -1 for none; `not in` is two tokens. */
static int comparison_of(const jinja_parser *parser) {
    switch (parser->at->kind) {
    case JINJA_TOKEN_LESS:
        return JINJA_IS_LESS;
    case JINJA_TOKEN_LESS_EQUAL:
        return JINJA_IS_LESS_EQUAL;
    case JINJA_TOKEN_GREATER:
        return JINJA_IS_GREATER;
    case JINJA_TOKEN_GREATER_EQUAL:
        return JINJA_IS_GREATER_EQUAL;
    case JINJA_TOKEN_EQUAL:
        return JINJA_IS_EQUAL;
    case JINJA_TOKEN_NOT_EQUAL:
        return JINJA_IS_NOT_EQUAL;
    default:
        break;
    }
    if (sw_jinja_is_named(parser, "in"))
        return JINJA_IS_IN;
    return sw_jinja_is_named(parser, "not") && sw_jinja_next_is_named(parser, "in")
               ? JINJA_IS_NOT_IN
               : -1;
}

static jinja_node *parse_compare(jinja_parser *parser) {
    int line = parser->at->line, comparison;
    jinja_node *first = parse_sum(parser), *node = NULL;
    jinja_node_list others = {0};
    jinja_start start = sw_jinja_start(parser->run);
    while (first && (comparison = comparison_of(parser)) >= 0) {
        char operator=(char) comparison;
        if (!sw_jinja_step(parser) || (comparison == JINJA_IS_NOT_IN && !sw_jinja_step(parser)))
            return NULL;
        jinja_node *other = parse_sum(parser);
        node = node ? node : sw_jinja_node(parser, JINJA_COMPARE, line);
        if (!other || !node || !sw_jinja_append(parser, &others, other) ||
            !sw_jinja_below(parser, node, other) || !sw_jinja_write(parser->run, &operator, 1))
            return NULL;
    }
    if (!node || !sw_jinja_below(parser, node, first))
        return node ? NULL : first;
    jinja_text *operators = sw_jinja_collect(parser->run, start);
    if (!operators)
        return NULL;
    node->as.compare.first = first;
    node->as.compare.others = others.nodes;
    node->as.compare.operators = (const uint8_t *)operators->bytes;
    return node;
}
