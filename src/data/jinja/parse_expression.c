/* parse_expression.c: expressions, from the loosest binding to the tightest, as Jinja has them: a if b else c; or; and; not;
 * comparisons;
 * + and -; ~; * / // %; **; signs; attributes, items and calls; filters and tests.
 */
#include "data/jinja/attributes.h"
#include "data/jinja/builtins.h"
#include "data/jinja/parser.h"
#include "data/jinja/text.h"

static jinja_node *parse_or(jinja_parser *parser);
static jinja_node *parse_unary(jinja_parser *parser, bool with_filter);
static jinja_node *parse_primary(jinja_parser *parser, bool with_part);

static jinja_node *make_binary(jinja_parser *parser, jinja_node_kind kind, int line, jinja_node *left, jinja_node *right) {
    jinja_node *node = left && (right || kind == JINJA_NOT || kind == JINJA_NEGATIVE || kind == JINJA_POSITIVE)
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
        jinja_node *node = sw_jinja_node(parser, JINJA_CONDITIONAL, line), *test = parse_or(parser), *no = NULL;
        if (!node || !test || !sw_jinja_skip_named(parser, "else", &is_else))
            return NULL;
        if (is_else && !(no = sw_jinja_parse_expression(parser, true)))
            return NULL;
        node->as.conditional.test = test;
        node->as.conditional.yes = yes;
        node->as.conditional.no = no;
        if (!sw_jinja_below(parser, node, test) || !sw_jinja_below(parser, node, yes) || !sw_jinja_below(parser, node, no))
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
    return make_binary(parser, JINJA_NOT, line, node, NULL);
}

static jinja_node *parse_and(jinja_parser *parser) {
    int line = parser->at->line;
    bool is_and = true;
    jinja_node *left = parse_not(parser);
    while (left && sw_jinja_skip_named(parser, "and", &is_and)) {
        if (!is_and)
            return left;
        left = make_binary(parser, JINJA_AND, line, left, parse_not(parser));
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
        left = make_binary(parser, JINJA_OR, line, left, parse_and(parser));
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
        return node->as.call.called && is_constant(node->as.call.called) && node->as.call.parts.arguments.n == 0;
    default:
        return false;
    }
}

/* -2 ** n, where only the 2 is known: the sign then goes to the power, as the Python that Jinja writes reads it. */
static jinja_node *power_of(jinja_parser *parser, int line, jinja_node *left, jinja_node *right) {
    bool is_moved = left->kind == JINJA_NEGATIVE && right && is_constant(left) && !is_constant(right);
    jinja_node *node = make_binary(parser, JINJA_BINARY, line, is_moved ? left->as.binary.left : left, right);
    if (!node)
        return NULL;
    node->as.binary.sign = JINJA_POWER;
    return is_moved ? make_binary(parser, JINJA_NEGATIVE, line, node, NULL) : node;
}

static jinja_node *parse_power(jinja_parser *parser) {
    int line = parser->at->line;
    bool is_power;
    jinja_node *left = parse_unary(parser, true);
    while (left && sw_jinja_skip(parser, JINJA_TOKEN_POWER, &is_power)) {
        if (!is_power)
            return left;
        left = power_of(parser, line, left, parse_unary(parser, true));
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
        left = make_binary(parser, JINJA_BINARY, line, left, parse_power(parser));
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
        left = make_binary(parser, JINJA_BINARY, line, left, parse_concat(parser));
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
    return sw_jinja_is_named(parser, "not") && sw_jinja_next_is_named(parser, "in") ? JINJA_IS_NOT_IN : -1;
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
        if (!other || !node || !sw_jinja_append(parser, &others, other) || !sw_jinja_below(parser, node, other) ||
            !sw_jinja_write(parser->run, &operator, 1))
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

static bool add_keyword(jinja_parser *parser, jinja_call_parts *parts, jinja_node_list *values, jinja_text *name,
                        jinja_node *value) {
    int32_t n = values->nodes.n;
    for (int32_t i = 0; i < n; i++)
        if (parts->names[i] == name)
            return sw_jinja_fail_line(parser->run, value->line, "keyword argument repeated: %.*s", (int)name->n_bytes,
                                      name->bytes);
    if ((n & (n - 1)) == 0) { /* room for twice as many */
        jinja_text **names = sw_jinja_take(parser->run, (2 * (int64_t)n + 1) * (int64_t)sizeof *names);
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
        bool is_more = sw_jinja_is(parser, JINJA_TOKEN_TIMES), is_named_more = sw_jinja_is(parser, JINJA_TOKEN_POWER);
        bool is_keyword = sw_jinja_is(parser, JINJA_TOKEN_NAME) && sw_jinja_next_is(parser, JINJA_TOKEN_ASSIGN);
        bool is_late = parts->named_more || (is_more && parts->more) ||
                       (!is_more && !is_named_more && !is_keyword && (parts->more || values.nodes.n));
        if (is_late)
            return sw_jinja_fail_line(parser->run, line, "invalid syntax for function call expression");
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
        else if (!(is_keyword ? add_keyword(parser, parts, &values, name, value) : sw_jinja_append(parser, &arguments, value)))
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

/* One that does not exist is an error, unless it turns out to stand in a branch that may never be taken. */
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
        if (sw_jinja_is(parser, JINJA_TOKEN_PARENTHESIS) && !parse_arguments(parser, filter, &filter->as.call.parts))
            return NULL;
        note_unknown(parser, filter);
        node = filter;
    }
    return node;
}

static jinja_node *parse_postfix(jinja_parser *parser, jinja_node *node);

/* Does what stands here begin a test's argument that needs no parentheses? */
static bool begins_argument(const jinja_parser *parser) {
    switch (parser->at->kind) {
    case JINJA_TOKEN_NAME:
        return !sw_jinja_is_named(parser, "else") && !sw_jinja_is_named(parser, "or") && !sw_jinja_is_named(parser, "and");
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
            sw_jinja_fail_line(parser->run, parser->at->line, "You cannot chain multiple tests with is");
            return NULL;
        }
        jinja_node *argument = parse_primary(parser, false);
        jinja_node_list arguments = {0};
        argument = argument ? parse_postfix(parser, argument) : NULL;
        if (!argument || !sw_jinja_append(parser, &arguments, argument) || !sw_jinja_below(parser, node, argument))
            return NULL;
        node->as.call.parts.arguments = arguments.nodes;
    }
    note_unknown(parser, node);
    return is_not ? make_binary(parser, JINJA_NOT, line, node, NULL) : node;
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
    return !has_failed && sw_jinja_below(parser, node, start) && sw_jinja_below(parser, node, node->as.slice.stop) &&
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
        if (!index || !sw_jinja_append(parser, &list, index) || !sw_jinja_below(parser, node, index))
            return NULL;
        if (index->kind == JINJA_SLICE && list.nodes.n > 1) {
            sw_jinja_fail_line(parser->run, line, "a slice beside other indices");
            return NULL;
        }
    }
    if (list.nodes.n != 1) { /* x[1, 2] has a tuple for an index */
        jinja_node *tuple = sw_jinja_node(parser, JINJA_MAKE_TUPLE, line);
        if (!tuple || (list.nodes.n && list.nodes.items[0]->kind == JINJA_SLICE))
            return tuple ? (sw_jinja_fail_line(parser->run, line, "a slice beside other indices"), NULL) : NULL;
        tuple->as.list = list.nodes;
        index = tuple;
    }
    node->as.item.owner = owner;
    node->as.item.index = index;
    return sw_jinja_expect(parser, JINJA_TOKEN_BRACKET_END) && sw_jinja_below(parser, node, owner) ? node : NULL;
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
        sw_jinja_fail_line(parser->run, parser->at->line, "expected name or number behind the dot, got '%s'",
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

static jinja_node *parse_postfix(jinja_parser *parser, jinja_node *node) {
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

static jinja_node *parse_unary(jinja_parser *parser, bool with_filter) {
    int line = parser->at->line;
    bool is_minus = sw_jinja_is(parser, JINJA_TOKEN_MINUS), is_plus = sw_jinja_is(parser, JINJA_TOKEN_PLUS);
    jinja_node *node = NULL;
    if (is_minus || is_plus) {
        if (sw_jinja_nest(parser) && sw_jinja_step(parser))
            node = parse_unary(parser, false);
        parser->depth--;
        node = make_binary(parser, is_minus ? JINJA_NEGATIVE : JINJA_POSITIVE, line, node, NULL);
    } else {
        node = parse_primary(parser, false);
    }
    node = node ? parse_postfix(parser, node) : NULL;
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
    if (is_part && (!sw_jinja_step(parser) || !(node->as.name.attribute = sw_jinja_expect_name(parser))))
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
        item = sw_jinja_expect(parser, JINJA_TOKEN_COLON) ? sw_jinja_parse_expression(parser, true) : NULL;
        if (!item || !sw_jinja_append(parser, &list, item) || !sw_jinja_below(parser, node, item))
            return NULL;
    }
    node->as.list = list.nodes;
    return sw_jinja_expect(parser, end) ? node : NULL;
}

static jinja_node *parse_tuple_of(jinja_parser *parser, bool is_target, bool with_part, bool with_conditional,
                                  bool has_parentheses);

static jinja_node *parse_primary(jinja_parser *parser, bool with_part) {
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
        sw_jinja_fail_line(parser->run, parser->at->line, "unexpected '%s'", sw_jinja_token_words(parser->at));
        return NULL;
    }
}

static jinja_node *parse_tuple_of(jinja_parser *parser, bool is_target, bool with_part, bool with_conditional,
                                  bool has_parentheses) {
    int line = parser->at->line;
    jinja_node_list list = {0};
    bool is_tuple = false;
    for (;;) {
        if (list.nodes.n && !sw_jinja_expect(parser, JINJA_TOKEN_COMMA))
            return NULL;
        if (sw_jinja_is(parser, JINJA_TOKEN_VARIABLE_END) || sw_jinja_is(parser, JINJA_TOKEN_BLOCK_END) ||
            sw_jinja_is(parser, JINJA_TOKEN_PARENTHESIS_END))
            break;
        jinja_node *item = is_target ? parse_primary(parser, with_part) : sw_jinja_parse_expression(parser, with_conditional);
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
        sw_jinja_fail_line(parser->run, parser->at->line, "Expected an expression, got '%s'", sw_jinja_token_words(parser->at));
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
    static const char *const words[] = {[JINJA_CONSTANT] = "const", [JINJA_MAKE_LIST] = "list", [JINJA_MAKE_DICT] = "dict"};
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
           sw_jinja_fail_line(parser->run, node->line, "can't assign to %s", word ? word : "an expression");
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
