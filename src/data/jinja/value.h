/* value.h: what a template computes with: Python's values, as far as a template can have them.
 *
 * A value is a kind and a word; what is longer lies in the rendering's memory and is never freed by
 * itself. Nothing that a template can hold changes once it is made, but namespaces, loops, cyclers,
 * joiners and iterators, as in the immutable sandbox.
 *
 * Texts, lists and the like may share memory: `s ~ x` writes x behind s where s ends its buffer, so
 * that a text gathered in a loop costs its length and not its square (growth).
 */
#ifndef SW_DATA_JINJA_VALUE_H
#define SW_DATA_JINJA_VALUE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct jinja_run jinja_run;   /* a rendering in progress: run.h */
typedef struct jinja_node jinja_node; /* syntax.h */

typedef enum jinja_kind {
    JINJA_MISSING, /* no value: a variable that is not set, an argument that is not given. Templates
                      never see it */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INTEGER,
    JINJA_BIG, /* an integer beyond 64 bits */
    JINJA_REAL,
    JINJA_TEXT,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_DICT,
    JINJA_KEYS, /* views of a dict */
    JINJA_VALUES,
    JINJA_ITEMS,
    JINJA_RANGE,
    JINJA_ITERATOR, /* gives its items once */
    JINJA_NAMESPACE,
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_METHOD, /* of a value */
    JINJA_FUNCTION,
    JINJA_CYCLER,
    JINJA_JOINER,
    JINJA_N_KINDS
} jinja_kind;

typedef struct jinja_text jinja_text;
typedef struct jinja_big jinja_big;
typedef struct jinja_list jinja_list;
typedef struct jinja_dict jinja_dict;
typedef struct jinja_range jinja_range;
typedef struct jinja_undefined jinja_undefined;
typedef struct jinja_iterator jinja_iterator;
typedef struct jinja_namespace jinja_namespace;
typedef struct jinja_loop jinja_loop;
typedef struct jinja_macro jinja_macro;
typedef struct jinja_method jinja_method;
typedef struct jinja_builtin jinja_builtin; /* a filter, a test, a method, a function: call.h */
typedef struct jinja_cycler jinja_cycler;
typedef struct jinja_joiner jinja_joiner;

typedef struct jinja_value {
    jinja_kind kind;
    union {
        bool truth;
        int64_t integer;
        double real;
        const void *pointer; /* any of those below, to compare by identity */
        jinja_text *text;
        const jinja_big *big;
        jinja_list *list;       /* and tuple */
        const jinja_dict *dict; /* and its views */
        const jinja_range *range;
        const jinja_undefined *undefined;
        jinja_iterator *iterator;
        jinja_namespace *space;
        jinja_loop *loop;
        const jinja_macro *macro;
        const jinja_method *method;
        const jinja_builtin *function;
        jinja_cycler *cycler;
        jinja_joiner *joiner;
    } as;
} jinja_value;

/* The end of memory that texts or lists share: the one that ends there may be added to in place. */
typedef struct jinja_growth {
    const void *end;
    int64_t room; /* bytes behind it */
} jinja_growth;

/* What {% generation %} printed, within a text that was not printed yet. */
typedef struct jinja_mark {
    int64_t first, end;
    int id; /* of the block's run, counted from 0 */
} jinja_mark;

struct jinja_text {
    const char *bytes; /* UTF-8 */
    int64_t n_bytes;
    int64_t n_characters; /* -1: nobody has counted yet */
    uint64_t hash;        /* 0: nobody has asked yet */
    jinja_growth *growth; /* NULL: none */
    const jinja_mark *marks;
    int32_t n_marks;
    bool is_markup; /* `safe` or `escape` made it: what is added to it is escaped */
};

struct jinja_list {
    const jinja_value *items;
    int64_t n;
    jinja_growth *growth;
    bool is_group; /* a tuple of groupby: its items are also .grouper and .list */
};

typedef struct jinja_entry {
    jinja_value key, value;
    uint64_t hash;
} jinja_entry;

/* In the order in which keys came; from a dozen on with an index: open addressing, 1 + the entry's
 * number. */
struct jinja_dict {
    jinja_entry *entries;
    int64_t n, capacity;
    uint32_t *index;
    int64_t index_size; /* a power of two, 0: none */
};

struct jinja_range {
    int64_t start, stop, step, n;
};

/* Why there is no value, told when it is used. */
struct jinja_undefined {
    const char *hint;  /* the whole reason, or NULL: then */
    const char *owner; /* what has no such attribute: "dict object", "None"; NULL: it is a name that
                          nothing defines */
    jinja_value name;  /* of the variable, attribute or element */
    bool is_unsafe;    /* an attribute that the sandbox does not give */
};

struct jinja_namespace {
    jinja_dict attributes;
    bool is_shown; /* being printed: one inside itself prints as {...} */
};

struct jinja_cycler {
    const jinja_list *items;
    int64_t at;
};

struct jinja_joiner {
    jinja_text *separator;
    bool is_used;
};

static inline jinja_value sw_jinja_none(void) {
    return (jinja_value){.kind = JINJA_NONE};
}
static inline jinja_value sw_jinja_missing(void) {
    return (jinja_value){.kind = JINJA_MISSING};
}
static inline jinja_value sw_jinja_bool(bool truth) {
    return (jinja_value){.kind = JINJA_BOOL, .as.truth = truth};
}
static inline jinja_value sw_jinja_integer(int64_t integer) {
    return (jinja_value){.kind = JINJA_INTEGER, .as.integer = integer};
}
static inline jinja_value sw_jinja_real(double real) {
    return (jinja_value){.kind = JINJA_REAL, .as.real = real};
}
static inline jinja_value sw_jinja_of_text(jinja_text *text) {
    return (jinja_value){.kind = JINJA_TEXT, .as.text = text};
}

static inline bool sw_jinja_is_number(const jinja_value *value) {
    return value->kind >= JINJA_BOOL && value->kind <= JINJA_REAL;
}
static inline bool sw_jinja_is_sequence(const jinja_value *value) {
    return value->kind == JINJA_LIST || value->kind == JINJA_TUPLE;
}
static inline bool sw_jinja_is_view(const jinja_value *value) {
    return value->kind >= JINJA_KEYS && value->kind <= JINJA_ITEMS;
}

#endif
