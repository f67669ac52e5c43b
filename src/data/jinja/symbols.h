/* symbols.h: what a scope knows of names, while a template's scopes are settled (scopes.c). */
#ifndef SW_DATA_JINJA_SYMBOLS_H
#define SW_DATA_JINJA_SYMBOLS_H

#include "data/jinja/syntax.h"

/* A table of what belongs to a pair of pointer and number. */
typedef struct jinja_cell {
    const void *key;
    int64_t number;
    void *value;
} jinja_cell;
typedef struct jinja_table {
    jinja_cell *cells;
    int64_t n, size;
} jinja_table;

typedef struct jinja_function {
    struct jinja_function *outer;
    jinja_table slots; /* by name and level */
    int32_t n_slots;
    bool is_captured;
} jinja_function;

/* A name as one scope knows it. */
typedef struct jinja_symbol {
    struct jinja_symbol *next; /* in order of appearance */
    jinja_text *name;
    jinja_function *owner;
    int32_t
        slot; /* -1: only known to be set; which slot it has, the scope below this branch knows */
    bool is_stored, has_load, is_new;
    jinja_load_kind load;
    const struct jinja_symbol *outer; /* of an alias */
} jinja_symbol;

typedef struct jinja_known {
    struct jinja_known *parent; /* the scope around it */
    struct jinja_known *base;   /* in the branch of an if: what it adds to */
    jinja_function *function;
    int level;
    jinja_table symbols; /* by name */
    jinja_symbol *first, **last;
} jinja_known;

typedef struct jinja_settler {
    jinja_run *run;
    sw_jinja *template;
    jinja_table names; /* of the context */
    int64_t names_capacity;
} jinja_settler;

/* All return NULL or false where they failed, but those that look something up: NULL says that
 * there is none. */
void *sw_jinja_look_up(const jinja_table *of, const void *key, int64_t number);
bool sw_jinja_put(jinja_run *run, jinja_table *of, const void *key, int64_t number, void *value);

jinja_function *sw_jinja_make_function(jinja_settler *st, jinja_function *outer);
/* A scope in a function (NULL: failed before), and the branch of an if in it. */
jinja_known *sw_jinja_make_known(jinja_settler *st, jinja_known *parent, jinja_function *of);
jinja_known *sw_jinja_make_branch(jinja_settler *st, jinja_known *base);

/* The variable that a name is in a scope, without and with those around it. */
jinja_symbol *sw_jinja_find_here(const jinja_known *sc, const jinja_text *name);
jinja_symbol *sw_jinja_find_symbol(const jinja_known *sc, const jinja_text *name);

/* A name is set; is a parameter; is read. A target's names are set, or are parameters. */
bool sw_jinja_store(jinja_settler *st, jinja_known *sc, jinja_text *name);
bool sw_jinja_declare(jinja_settler *st, jinja_known *sc, jinja_text *name);
bool sw_jinja_load_name(jinja_settler *st, jinja_known *sc, jinja_text *name);
bool sw_jinja_store_target(jinja_settler *st, jinja_known *sc, const jinja_node *target,
                           bool is_parameter);
/* What the branches of an if add to its scope. */
bool sw_jinja_merge_branches(jinja_settler *st, jinja_known *sc, jinja_known *const branches[3]);

/* Going over nodes: each of a list, one that may be NULL, the parts of an expression. */
typedef bool jinja_visitor(jinja_settler *st, jinja_known *sc, jinja_node *node, void *more);
bool sw_jinja_each(jinja_settler *st, jinja_known *sc, const jinja_nodes *nodes,
                   jinja_visitor *visit, void *more);
bool sw_jinja_one(jinja_settler *st, jinja_known *sc, jinja_node *node, jinja_visitor *visit,
                  void *more);
bool sw_jinja_each_part(jinja_settler *st, jinja_known *sc, jinja_node *node, jinja_visitor *visit,
                        void *more);

/* A visitor: what a statement or expression of this scope reads and sets; inner scopes are looked
 * at when they come. */
bool sw_jinja_analyse(jinja_settler *st, jinja_known *sc, jinja_node *node, void *more);
/* Does a body read `name` before it gives it a meaning of its own? Goes into inner scopes as well,
 * but not into blocks. */
bool sw_jinja_reads(jinja_settler *st, const jinja_nodes *body, const char *name, bool *is_read);

#endif
