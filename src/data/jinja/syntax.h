/* syntax.h: a template as a tree. The parser makes it; scopes.c then says of each name where its
 * value lies. */
#ifndef SW_DATA_JINJA_SYNTAX_H
#define SW_DATA_JINJA_SYNTAX_H

#include "data/jinja/call.h"
#include "data/jinja/compare.h"
#include "data/jinja/number.h"
#include "data/jinja/run.h"

typedef enum jinja_node_kind {
    /* expressions */
    JINJA_CONSTANT,
    JINJA_NAME,
    JINJA_NAMESPACE_PART, /* name.attribute as the target of a set */
    JINJA_MAKE_TUPLE,     /* also as a target */
    JINJA_MAKE_LIST,
    JINJA_MAKE_DICT,
    JINJA_AND,
    JINJA_OR,
    JINJA_NOT,
    JINJA_BINARY,
    JINJA_NEGATIVE,
    JINJA_POSITIVE,
    JINJA_COMPARE,
    JINJA_CONCAT,
    JINJA_ATTRIBUTE,
    JINJA_ITEM,
    JINJA_SLICE,
    JINJA_CALL,
    JINJA_FILTER,
    JINJA_TEST,
    JINJA_CONDITIONAL,
    /* statements */
    JINJA_DATA,
    JINJA_OUTPUT,
    JINJA_FOR,
    JINJA_IF,
    JINJA_SET,
    JINJA_SET_BLOCK,
    JINJA_WITH,
    JINJA_DEFINE_MACRO,
    JINJA_CALL_BLOCK,
    JINJA_GENERATION,
    JINJA_FILTER_BLOCK,
    JINJA_SCOPE,
    JINJA_BLOCK,
    JINJA_BREAK,
    JINJA_CONTINUE,
    JINJA_REFUSED /* include, import, extends: an error when it is reached */
} jinja_node_kind;

typedef struct jinja_nodes {
    jinja_node **items;
    int32_t n;
} jinja_nodes;

/* Where a variable lies: in the frame of the function that is at work, or of one around it. */
typedef struct jinja_place {
    int32_t hops, slot;
} jinja_place;

/* What a scope does with its variables when it is entered: those it only reads come in, those it
 * sets begin unset. */
typedef enum jinja_load_kind {
    JINJA_LOAD_PARAMETER,
    JINJA_LOAD_UNSET,
    JINJA_LOAD_ALIAS,
    JINJA_LOAD_CONTEXT
} jinja_load_kind;
typedef struct jinja_load {
    jinja_load_kind kind;
    int32_t slot;
    jinja_place from; /* of an alias */
    int32_t name;     /* in the context */
} jinja_load;
typedef struct jinja_scope {
    const jinja_load *loads;
    int32_t n_loads;
} jinja_scope;

/* What has a frame of variables of its own: the template, a macro, a call block's body, a recursive
 * loop, a loop's condition, a block. */
typedef struct jinja_body {
    jinja_scope scope;
    int32_t n_slots;
    bool is_captured; /* something inside may be called after it is over */
} jinja_body;

/* The parts of a call: f(arguments, name=value, *more, **named_more). */
typedef struct jinja_call_parts {
    jinja_nodes arguments;
    jinja_text **names; /* of the values, which come in this order */
    jinja_nodes values;
    jinja_node *more, *named_more;
} jinja_call_parts;

/* A macro's parameters and what it does with what else it is called with. */
typedef struct jinja_signature_node {
    jinja_nodes parameters;          /* names */
    jinja_nodes defaults;            /* of the last ones */
    int32_t caller, kwargs, varargs; /* slots; -1: the body does not use it */
    bool has_caller_parameter;
} jinja_signature_node;

struct jinja_node {
    uint8_t kind; /* jinja_node_kind */
    int32_t line;
    int32_t height; /* levels below it */
    union {
        jinja_value constant; /* and data: a text */
        struct {
            jinja_text *name, *attribute; /* the attribute of a namespace's part */
            jinja_place place;
            int32_t context; /* the name's number, for what the template's outermost level sets
                                where it has blocks; -1 */
            bool is_parameter;
        } name;
        jinja_nodes list; /* tuple, list, concat, output; dict: keys and values in turn */
        struct {
            jinja_node *left, *right; /* a NOT, a sign: left alone */
            jinja_sign sign;
        } binary;
        struct {
            jinja_node *first;
            jinja_nodes others;
            const uint8_t *operators; /* jinja_comparison, one before each of the others */
        } compare;
        struct {
            jinja_node *owner;
            jinja_text *name;
            bool may_be_attribute; /* of some kind of value: else it is a key at once */
            jinja_node *index;     /* of an item */
        } item;
        struct {
            jinja_node *start, *stop, *step; /* NULL: none */
        } slice;
        struct {
            jinja_node *called; /* NULL: a filter of a block */
            jinja_text *name;   /* of a filter or test */
            const jinja_builtin *builtin;
            jinja_call_parts parts;
        } call;
        struct {
            jinja_node *test, *yes, *no; /* no: NULL */
        } conditional;
        struct {
            jinja_node *target, *iterated, *test;
            jinja_nodes body, otherwise;
            jinja_scope scope, otherwise_scope;
            jinja_body test_body;      /* with a test */
            jinja_body body_of_itself; /* when recursive */
            const int32_t *test_slots; /* of the target's names, in the test's frame */
            int32_t loop_slot;         /* -1: nothing asks for `loop` */
            bool is_recursive;
        } loop;
        struct {
            jinja_node *test;
            jinja_nodes body, elifs, otherwise; /* elifs: nodes of this kind */
        } condition;
        struct {
            jinja_node *target, *value, *filter;
            jinja_nodes body; /* of a set block */
            jinja_scope scope;
        } set;
        struct {
            jinja_nodes targets, values, body;
            jinja_scope scope;
        } with;
        struct {
            jinja_node *name; /* NULL in a call block */
            jinja_signature_node signature;
            jinja_nodes body;
            jinja_body frame;
            jinja_node *call; /* of a call block */
            jinja_text *block_name;
            bool is_scoped, is_required;
        } macro; /* call block, generation, block too */
        struct {
            jinja_node *filter;
            jinja_nodes body;
            jinja_scope scope;
        } filtered; /* filter block, scope */
        const char *refused;
    } as;
};

typedef enum jinja_comparison {
    JINJA_IS_LESS,
    JINJA_IS_LESS_EQUAL,
    JINJA_IS_GREATER,
    JINJA_IS_GREATER_EQUAL,
    JINJA_IS_EQUAL,
    JINJA_IS_NOT_EQUAL,
    JINJA_IS_IN,
    JINJA_IS_NOT_IN
} jinja_comparison;

/* A parsed template. */
struct sw_jinja {
    sw_jinja_memory *memory; /* all of it lies here */
    const char *name;
    jinja_nodes body;
    jinja_body frame;
    jinja_dict *words;  /* every name, attribute and whole string */
    jinja_text **names; /* of variables that no scope defines, asked for in the context by number */
    int32_t n_names;
    jinja_nodes blocks;
    bool has_generation;
};

/* Parse into `template`, whose memory is the run's. */
bool sw_jinja_parse_into(jinja_run *run, const char *text, int64_t n_bytes, sw_jinja *template);
/* Say where each name lies. */
bool sw_jinja_settle_scopes(jinja_run *run, sw_jinja *template);

/* A failure at a line, to be returned. */
bool sw_jinja_fail_line(jinja_run *run, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
