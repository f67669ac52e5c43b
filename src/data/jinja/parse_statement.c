/* parse_statement.c: statements. A tag that opens a block is parsed through its end, so the tree
 * nests as the template does. */
#include "data/jinja/parser.h"

#include <stdio.h>

#include "base/integer.h"
#include "data/jinja/collection.h"
#include "data/jinja/text.h"

/* The tags of the open block that goes on or ends, in words: "'elif', 'else' or 'endif'". */
static void list_ends(const jinja_open_tag *open, char *words, size_t n_bytes) {
    size_t n = 0;
    for (int i = 0; open->ends[i]; i++)
        n += (size_t)snprintf(words + n, n_bytes - n, "%s'%s'",
                              i == 0              ? ""
                              : open->ends[i + 1] ? ", "
                                                  : " or ",
                              open->ends[i]);
}

static bool fail_unclosed(jinja_parser *parser) {
    char ends[128];
    const jinja_open_tag *open = &parser->open[parser->n_open - 1];
    list_ends(open, ends, sizeof ends);
    return sw_jinja_fail_line(parser->run, parser->at->line,
                              "unexpected end of template: %s is missing for the '%s' of line %d",
                              ends, open->name, open->line);
}

static bool fail_unknown_tag(jinja_parser *parser) {
    char ends[128] = "";
    const jinja_text *name = parser->at->value.as.text;
    int n = (int)smaller(name->n_bytes, 200);
    if (!parser->n_open)
        return sw_jinja_fail_line(parser->run, parser->at->line, "unknown tag '%.*s'", n,
                                  name->bytes);
    const jinja_open_tag *open = &parser->open[parser->n_open - 1];
    list_ends(open, ends, sizeof ends);
    return sw_jinja_fail_line(parser->run, parser->at->line,
                              "unknown tag '%.*s'; the '%s' of line %d waits for %s", n,
                              name->bytes, open->name, open->line, ends);
}

static bool is_end(const jinja_parser *parser, const char *const *ends) {
    for (int i = 0; ends && ends[i]; i++)
        if (sw_jinja_is_named(parser, ends[i]))
            return true;
    return false;
}

static bool parse_statement(jinja_parser *parser, jinja_node_list *body);

/* Text and tags up to one of the ends (NULL: the template's), which is then the current token. */
static bool parse_body(jinja_parser *parser, const char *const *ends, jinja_nodes *body) {
    jinja_node_list list = {0};
    bool is_done = sw_jinja_nest(parser);
    while (is_done && !sw_jinja_is(parser, JINJA_TOKEN_END)) {
        if (sw_jinja_is(parser, JINJA_TOKEN_DATA)) {
            jinja_node *data = sw_jinja_node(parser, JINJA_DATA, parser->at->line);
            if (data)
                data->as.constant = parser->at->value;
            is_done = data && sw_jinja_append(parser, &list, data) && sw_jinja_step(parser);
        } else if (sw_jinja_is(parser, JINJA_TOKEN_VARIABLE_BEGIN)) {
            jinja_node *node = sw_jinja_step(parser) ? sw_jinja_parse_tuple(parser, true) : NULL;
            is_done = node && sw_jinja_append(parser, &list, node) &&
                      sw_jinja_expect(parser, JINJA_TOKEN_VARIABLE_END);
        } else {
            is_done = sw_jinja_step(parser);
            if (is_done && is_end(parser, ends))
                break;
            is_done = is_done && parse_statement(parser, &list) &&
                      sw_jinja_expect(parser, JINJA_TOKEN_BLOCK_END);
        }
    }
    *body = list.nodes;
    parser->depth--;
    if (is_done && ends && sw_jinja_is(parser, JINJA_TOKEN_END))
        return fail_unclosed(parser);
    return is_done;
}

/* The rest of a tag and what it holds. The end is the current token, unless `drops_end`. */
static bool parse_block(jinja_parser *parser, const char *name, int line, const char *const *ends,
                        bool drops_end, jinja_nodes *body) {
    bool is_colon;
    if (!sw_jinja_skip(parser, JINJA_TOKEN_COLON, &is_colon) ||
        !sw_jinja_expect(parser, JINJA_TOKEN_BLOCK_END))
        return false;
    if (parser->n_open == JINJA_MAX_NESTING + 2)
        return sw_jinja_fail_line(parser->run, line, "more than %d things inside one another",
                                  JINJA_MAX_NESTING);
    parser->open[parser->n_open++] = (jinja_open_tag){name, line, ends};
    bool is_done = parse_body(parser, ends, body) && (!drops_end || sw_jinja_step(parser));
    parser->n_open--;
    return is_done;
}

/* The same of a body that is a function of its own: no break leaves it. */
static bool parse_function_block(jinja_parser *parser, const char *name, int line,
                                 const char *const *ends, jinja_nodes *body) {
    bool was_in_loop = parser->is_in_loop;
    parser->is_in_loop = false;
    bool is_done = parse_block(parser, name, line, ends, true, body);
    parser->is_in_loop = was_in_loop;
    return is_done;
}

static bool parse_for(jinja_parser *parser, jinja_node *node) {
    static const char *const ends[] = {"else", "endfor", NULL}, *const last[] = {"endfor", NULL};
    int n_loop_stores = parser->n_loop_stores;
    bool has_test, is_else, was_in_loop = parser->is_in_loop;
    if (!sw_jinja_step(parser) || !(node->as.loop.target = sw_jinja_parse_target(parser, false)) ||
        !sw_jinja_expect_named(parser, "in") ||
        !(node->as.loop.iterated = sw_jinja_parse_tuple(parser, false)) ||
        !sw_jinja_skip_named(parser, "if", &has_test))
        return false;
    if (has_test && !(node->as.loop.test = sw_jinja_parse_expression(parser, true)))
        return false;
    node->as.loop.loop_slot = -1;
    if (!sw_jinja_skip_named(parser, "recursive", &node->as.loop.is_recursive))
        return false;
    parser->is_in_loop = true;
    bool is_done = parse_block(parser, "for", node->line, ends, false, &node->as.loop.body);
    parser->is_in_loop = was_in_loop && !node->as.loop.is_recursive;
    is_done =
        is_done && sw_jinja_skip_named(parser, "else", &is_else) &&
        (is_else ? parse_block(parser, "for", node->line, last, true, &node->as.loop.otherwise)
                 : sw_jinja_step(parser));
    parser->is_in_loop = was_in_loop;
    if (is_done && parser->n_loop_stores != n_loop_stores)
        return sw_jinja_fail_line(parser->run, parser->loop_store_line,
                                  "Can't assign to special loop variable in for-loop target");
    return is_done;
}

static bool parse_if(jinja_parser *parser, jinja_node *node) {
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif",
                                                                                        NULL};
    const jinja_node *unknown = parser->unknown;
    jinja_node_list elifs = {0};
    bool is_elif = true, is_else;
    for (jinja_node *branch = node; is_elif;) {
        if (!sw_jinja_step(parser) ||
            !(branch->as.condition.test = sw_jinja_parse_tuple(parser, false)) ||
            !parse_block(parser, "if", node->line, ends, false, &branch->as.condition.body))
            return false;
        is_elif = sw_jinja_is_named(parser, "elif");
        if (is_elif && (!(branch = sw_jinja_node(parser, JINJA_IF, parser->at->line)) ||
                        !sw_jinja_append(parser, &elifs, branch)))
            return false;
    }
    node->as.condition.elifs = elifs.nodes;
    if (!sw_jinja_skip_named(parser, "else", &is_else))
        return false;
    if (is_else ? !parse_block(parser, "if", node->line, last, true, &node->as.condition.otherwise)
                : !sw_jinja_step(parser))
        return false;
    parser->unknown = unknown;
    return true;
}

static bool parse_set(jinja_parser *parser, jinja_node *node) {
    static const char *const ends[] = {"endset", NULL};
    bool is_assigned;
    if (!sw_jinja_step(parser) || !(node->as.set.target = sw_jinja_parse_target(parser, true)) ||
        !sw_jinja_skip(parser, JINJA_TOKEN_ASSIGN, &is_assigned))
        return false;
    if (is_assigned)
        return (node->as.set.value = sw_jinja_parse_tuple(parser, true)) != NULL;
    node->kind = JINJA_SET_BLOCK;
    if (sw_jinja_is(parser, JINJA_TOKEN_PIPE) &&
        !(node->as.set.filter = sw_jinja_parse_filters(parser, NULL, false)))
        return false;
    return parse_block(parser, "set", node->line, ends, true, &node->as.set.body);
}

static bool parse_with(jinja_parser *parser, jinja_node *node) {
    static const char *const ends[] = {"endwith", NULL};
    jinja_node_list targets = {0}, values = {0};
    int n_loop_stores = parser->n_loop_stores;
    if (!sw_jinja_step(parser))
        return false;
    while (!sw_jinja_is(parser, JINJA_TOKEN_BLOCK_END)) {
        if (targets.nodes.n && !sw_jinja_expect(parser, JINJA_TOKEN_COMMA))
            return false;
        jinja_node *target = sw_jinja_parse_target(parser, false);
        jinja_node *value = target && sw_jinja_expect(parser, JINJA_TOKEN_ASSIGN)
                                ? sw_jinja_parse_expression(parser, true)
                                : NULL;
        if (!value || !sw_jinja_append(parser, &targets, target) ||
            !sw_jinja_append(parser, &values, value))
            return false;
    }
    parser->n_loop_stores = n_loop_stores; /* a scope of its own may call a variable `loop` */
    node->as.with.targets = targets.nodes;
    node->as.with.values = values.nodes;
    return parse_block(parser, "with", node->line, ends, true, &node->as.with.body);
}

static bool parse_signature(jinja_parser *parser, jinja_signature_node *signature) {
    jinja_node_list parameters = {0}, defaults = {0};
    if (!sw_jinja_expect(parser, JINJA_TOKEN_PARENTHESIS))
        return false;
    while (!sw_jinja_is(parser, JINJA_TOKEN_PARENTHESIS_END)) {
        bool has_default;
        if (parameters.nodes.n && !sw_jinja_expect(parser, JINJA_TOKEN_COMMA))
            return false;
        jinja_node *parameter = sw_jinja_parse_target_name(parser), *value;
        if (!parameter || !sw_jinja_skip(parser, JINJA_TOKEN_ASSIGN, &has_default))
            return false;
        parameter->as.name.is_parameter = true;
        for (int32_t i = 0; i < parameters.nodes.n; i++)
            if (parameters.nodes.items[i]->as.name.name == parameter->as.name.name)
                return sw_jinja_fail_line(parser->run, parameter->line,
                                          "two parameters of the same name");
        if (!sw_jinja_spend(parser->run, parameters.nodes.n))
            return false;
        if (has_default && (!(value = sw_jinja_parse_expression(parser, true)) ||
                            !sw_jinja_append(parser, &defaults, value)))
            return false;
        if (!has_default && defaults.nodes.n)
            return sw_jinja_fail_line(parser->run, parameter->line,
                                      "non-default argument follows default argument");
        if (!sw_jinja_append(parser, &parameters, parameter))
            return false;
    }
    signature->parameters = parameters.nodes;
    signature->defaults = defaults.nodes;
    return sw_jinja_step(parser);
}

static bool parse_macro(jinja_parser *parser, jinja_node *node) {
    static const char *const ends[] = {"endmacro", NULL};
    return sw_jinja_step(parser) && (node->as.macro.name = sw_jinja_parse_target_name(parser)) &&
           parse_signature(parser, &node->as.macro.signature) &&
           parse_function_block(parser, "macro", node->line, ends, &node->as.macro.body);
}

static bool parse_call_block(jinja_parser *parser, jinja_node *node) {
    static const char *const ends[] = {"endcall", NULL};
    if (!sw_jinja_step(parser) ||
        (sw_jinja_is(parser, JINJA_TOKEN_PARENTHESIS) &&
         !parse_signature(parser, &node->as.macro.signature)) ||
        !(node->as.macro.call = sw_jinja_parse_expression(parser, true)))
        return false;
    if (node->as.macro.call->kind != JINJA_CALL)
        return sw_jinja_fail_line(parser->run, node->line, "expected call");
    const jinja_call_parts *parts = &node->as.macro.call->as.call.parts;
    for (int32_t i = 0; i < parts->values.n; i++)
        if (sw_jinja_is_word(parts->names[i], "caller"))
            return sw_jinja_fail_line(parser->run, node->line, "keyword argument repeated: caller");
    return parse_function_block(parser, "call", node->line, ends, &node->as.macro.body);
}

static bool parse_generation(jinja_parser *parser, jinja_node *node) {
    static const char *const ends[] = {"endgeneration", NULL};
    parser->template->has_generation = true;
    return sw_jinja_step(parser) &&
           parse_function_block(parser, "generation", node->line, ends, &node->as.macro.body);
}

static bool parse_filter_block(jinja_parser *parser, jinja_node *node) {
    static const char *const ends[] = {"endfilter", NULL};
    return sw_jinja_step(parser) &&
           (node->as.filtered.filter = sw_jinja_parse_filters(parser, NULL, true)) &&
           parse_block(parser, "filter", node->line, ends, true, &node->as.filtered.body);
}

/* autoescape is off, and stays so. */
static bool parse_autoescape(jinja_parser *parser, jinja_node *node) {
    static const char *const ends[] = {"endautoescape", NULL};
    jinja_node *value = sw_jinja_step(parser) ? sw_jinja_parse_expression(parser, true) : NULL;
    if (!value)
        return false;
    if (value->kind != JINJA_CONSTANT || sw_jinja_truth(&value->as.constant))
        return sw_jinja_fail_line(parser->run, node->line,
                                  "autoescape is not built: chat templates escape nothing");
    return parse_block(parser, "autoescape", node->line, ends, true, &node->as.filtered.body);
}

static bool parse_named_block(jinja_parser *parser, jinja_node *node) {
    static const char *const ends[] = {"endblock", NULL};
    jinja_text *name = sw_jinja_step(parser) ? sw_jinja_expect_name(parser) : NULL;
    if (!name || !sw_jinja_skip_named(parser, "scoped", &node->as.macro.is_scoped) ||
        !sw_jinja_skip_named(parser, "required", &node->as.macro.is_required))
        return false;
    node->as.macro.block_name = name;
    jinja_nodes *blocks = &parser->template->blocks;
    for (int32_t i = 0; i < blocks->n; i++)
        if (blocks->items[i]->as.macro.block_name == name)
            return sw_jinja_fail_line(parser->run, node->line, "block '%.*s' defined twice",
                                      (int)smaller(name->n_bytes, 200), name->bytes);
    if (node->as.macro.is_required || node->as.macro.is_scoped || blocks->n == JINJA_MAX_NESTING)
        return sw_jinja_fail_line(
            parser->run, node->line,
            "blocks are for templates that extend others, which chat templates cannot");
    jinja_node_list list = {.nodes = *blocks, .capacity = blocks->n};
    if (!sw_jinja_append(parser, &list, node))
        return false;
    *blocks = list.nodes;
    if (!parse_function_block(parser, "block", node->line, ends, &node->as.macro.body))
        return false;
    bool is_repeated = sw_jinja_is(parser, JINJA_TOKEN_NAME) &&
                       sw_jinja_same_text(parser->at->value.as.text, name);
    return !is_repeated || sw_jinja_step(parser); /* endblock NAME */
}

/* include, import, from, extends: read to their end; an error when they are reached, as a template
 * has no others beside it. */
static bool parse_refused(jinja_parser *parser, jinja_node *node, const char *reason) {
    node->kind = JINJA_REFUSED;
    node->as.refused = reason;
    if (!sw_jinja_step(parser) || !sw_jinja_parse_expression(parser, true))
        return false;
    while (!sw_jinja_is(parser, JINJA_TOKEN_BLOCK_END) && !sw_jinja_is(parser, JINJA_TOKEN_END))
        if (!sw_jinja_step(parser))
            return false;
    return true;
}

static bool parse_print(jinja_parser *parser, jinja_node *node) {
    jinja_node_list list = {0};
    if (!sw_jinja_step(parser))
        return false;
    while (!sw_jinja_is(parser, JINJA_TOKEN_BLOCK_END)) {
        if (list.nodes.n && !sw_jinja_expect(parser, JINJA_TOKEN_COMMA))
            return false;
        jinja_node *item = sw_jinja_parse_expression(parser, true);
        if (!item || !sw_jinja_append(parser, &list, item))
            return false;
    }
    node->as.list = list.nodes;
    return true;
}

static bool parse_jump(jinja_parser *parser, jinja_node *node) {
    if (!parser->is_in_loop)
        return sw_jinja_fail_line(parser->run, node->line, "'%s' outside of a loop",
                                  node->kind == JINJA_BREAK ? "break" : "continue");
    return sw_jinja_step(parser);
}

static bool parse_statement(jinja_parser *parser, jinja_node_list *body) {
    static const struct {
        const char *tag;
        jinja_node_kind kind;
        bool (*parse)(jinja_parser *parser, jinja_node *node);
        const char *refused;
    } statements[] = {
        {"for", JINJA_FOR, parse_for, NULL},
        {"if", JINJA_IF, parse_if, NULL},
        {"set", JINJA_SET, parse_set, NULL},
        {"with", JINJA_WITH, parse_with, NULL},
        {"macro", JINJA_DEFINE_MACRO, parse_macro, NULL},
        {"call", JINJA_CALL_BLOCK, parse_call_block, NULL},
        {"generation", JINJA_GENERATION, parse_generation, NULL},
        {"filter", JINJA_FILTER_BLOCK, parse_filter_block, NULL},
        {"autoescape", JINJA_SCOPE, parse_autoescape, NULL},
        {"block", JINJA_BLOCK, parse_named_block, NULL},
        {"print", JINJA_OUTPUT, parse_print, NULL},
        {"break", JINJA_BREAK, parse_jump, NULL},
        {"continue", JINJA_CONTINUE, parse_jump, NULL},
        {"include", JINJA_REFUSED, NULL, "include: there is no other template to include"},
        {"import", JINJA_REFUSED, NULL, "import: there is no other template to import from"},
        {"from", JINJA_REFUSED, NULL, "from: there is no other template to import from"},
        {"extends", JINJA_REFUSED, NULL, "extends: there is no other template to extend"}};
    int line = parser->at->line;
    if (!sw_jinja_is(parser, JINJA_TOKEN_NAME))
        return sw_jinja_is(parser, JINJA_TOKEN_END) && parser->n_open
                   ? fail_unclosed(parser)
                   : sw_jinja_fail_expected(parser, "tag name");
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!sw_jinja_is_named(parser, statements[i].tag))
            continue;
        jinja_node *node = sw_jinja_node(parser, statements[i].kind, line);
        return node &&
               (statements[i].parse ? statements[i].parse(parser, node)
                                    : parse_refused(parser, node, statements[i].refused)) &&
               sw_jinja_append(parser, body, node);
    }
    return fail_unknown_tag(parser);
}

bool sw_jinja_parse_into(jinja_run *run, const char *text, int64_t n_bytes, sw_jinja *template) {
    jinja_parser parser = {.run = run, .template = template};
    template->words = sw_jinja_dict(run, 0);
    parser.at = template->words ? sw_jinja_tokens(run, text, n_bytes) : NULL;
    if (!parser.at)
        return false;
    if (parser.at->kind == JINJA_TOKEN_ERROR)
        return sw_jinja_fail_line(run, parser.at->line, "%.*s",
                                  (int)parser.at->value.as.text->n_bytes,
                                  parser.at->value.as.text->bytes);
    if (!parse_body(&parser, NULL, &template->body))
        return false;
    if (parser.unknown) {
        const jinja_text *name = parser.unknown->as.call.name;
        return sw_jinja_fail_line(run, parser.unknown->line, "there is no %s '%.*s'",
                                  parser.unknown->kind == JINJA_FILTER ? "filter" : "test",
                                  (int)smaller(name->n_bytes, 200), name->bytes);
    }
    return true;
}
