/* parser.h: what the parts of the parser share: parser.c has tokens and nodes, parse_statement.c
 * statements, parse_expression.c, parse_operand.c and parse_primary.c what stands in them. */
#ifndef SW_DATA_JINJA_PARSER_H
#define SW_DATA_JINJA_PARSER_H

#include "data/jinja/lexer.h"
#include "data/jinja/syntax.h"

/* A tag that waits for its end. */
typedef struct jinja_open_tag {
    const char *name;
    int line;
    const char *const *ends; /* words that go on with it or end it; NULL at the end */
} jinja_open_tag;

typedef struct jinja_parser {
    jinja_run *run;
    sw_jinja *template;
    const jinja_token *at;
    int depth;
    const jinja_node *unknown; /* the first filter or test that does not exist and is not in the
                                  branch of an if */
    bool is_in_loop;           /* break and continue have a loop to go to */
    int n_loop_stores;         /* names `loop` that are set */
    int loop_store_line;       /* of the last one */
    jinja_open_tag open[JINJA_MAX_NESTING + 2];
    int n_open;
} jinja_parser;

/* All return NULL or false where they failed. */

/* Tokens: look at the current one, expect one. */
bool sw_jinja_step(jinja_parser *parser);
static inline bool sw_jinja_is(const jinja_parser *parser, jinja_token_kind kind) {
    return parser->at->kind == kind;
}
bool sw_jinja_is_named(const jinja_parser *parser, const char *name);
bool sw_jinja_next_is(const jinja_parser *parser, jinja_token_kind kind);
bool sw_jinja_next_is_named(const jinja_parser *parser, const char *name);
bool sw_jinja_skip(jinja_parser *parser, jinja_token_kind kind, bool *was_there);
bool sw_jinja_skip_named(jinja_parser *parser, const char *name, bool *was_there);
bool sw_jinja_expect(jinja_parser *parser, jinja_token_kind kind);
bool sw_jinja_expect_named(jinja_parser *parser, const char *name);
jinja_text *sw_jinja_expect_name(jinja_parser *parser);
bool sw_jinja_fail_expected(jinja_parser *parser, const char *expected);
/* What a token that is no name is called in messages. */
const char *sw_jinja_token_words(const jinja_token *token);

/* One deeper in the template's text; leaving is parser->depth--, failed or not. */
bool sw_jinja_nest(jinja_parser *parser);

jinja_node *sw_jinja_node(jinja_parser *parser, jinja_node_kind kind, int line);
/* `child` (NULL: none) stands below `node`. */
bool sw_jinja_below(jinja_parser *parser, jinja_node *node, const jinja_node *child);

/* A list that is being filled. */
typedef struct jinja_node_list {
    jinja_nodes nodes;
    int32_t capacity;
} jinja_node_list;
bool sw_jinja_append(jinja_parser *parser, jinja_node_list *list, jinja_node *node);
/* The same word everywhere has the same text; it is then one that the template mentions. */
jinja_text *sw_jinja_intern(jinja_parser *parser, const jinja_text *text);

/* Expressions. */
jinja_node *sw_jinja_parse_expression(jinja_parser *parser, bool with_conditional);
/* One, or a tuple without parentheses. */
jinja_node *sw_jinja_parse_tuple(jinja_parser *parser, bool with_conditional);
/* An operation on one value or two (NULL: failed before). */
jinja_node *sw_jinja_make_binary(jinja_parser *parser, jinja_node_kind kind, int line,
                                 jinja_node *left, jinja_node *right);
/* A value with its signs and all that is written behind it; filters and tests too, or not. */
jinja_node *sw_jinja_parse_unary(jinja_parser *parser, bool with_filter);
/* A name, a literal, brackets; with_part: name.attribute as a target. */
jinja_node *sw_jinja_parse_primary(jinja_parser *parser, bool with_part);
/* .name [index] (arguments) */
jinja_node *sw_jinja_parse_postfix(jinja_parser *parser, jinja_node *node);
/* What can be assigned to: a name, name.attribute (`with_part`), a tuple of them. */
jinja_node *sw_jinja_parse_target(jinja_parser *parser, bool with_part);
jinja_node *sw_jinja_parse_target_name(jinja_parser *parser);
/* `| name(...)`, more than one; without the first bar where `is_begun`. `node` may be NULL: what a
 * block prints. */
jinja_node *sw_jinja_parse_filters(jinja_parser *parser, jinja_node *node, bool is_begun);

#endif
