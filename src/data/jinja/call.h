/* call.h: what can be called, and with what. */
#ifndef SW_DATA_JINJA_CALL_H
#define SW_DATA_JINJA_CALL_H

#include "data/jinja/run.h"

typedef struct jinja_keyword {
    jinja_value name, value; /* the name is a text */
} jinja_keyword;

typedef struct jinja_arguments {
    const jinja_value *values;
    int64_t n;
    const jinja_keyword *keywords;
    int64_t n_keywords;
} jinja_arguments;

enum { JINJA_MAX_PARAMETERS = 6 };

/* Filters, tests, methods and functions that are part of the language. `self` is what is filtered
 * or tested, or whose method it is. */
struct jinja_builtin {
    const char *name;
    /* One of the two. Values are in the order of the parameters, missing where none was given. */
    bool (*call)(jinja_run *run, const jinja_value *self, const jinja_value *values,
                 jinja_value *out);
    bool (*call_freely)(jinja_run *run, const jinja_value *self, const jinja_arguments *arguments,
                        jinja_value *out);
    bool is_deferred; /* it works when its items are asked for, as a generator does */
    int n_required;
    const char *parameters[JINJA_MAX_PARAMETERS]; /* one that begins with '/' has no name: it goes
                                                     by its place alone */
};

/* Call anything: failed for what cannot be called. */
bool sw_jinja_call(jinja_run *run, const jinja_value *called, const jinja_arguments *arguments,
                   jinja_value *out);
bool sw_jinja_call_builtin(jinja_run *run, const jinja_builtin *builtin, const jinja_value *self,
                           const jinja_arguments *arguments, jinja_value *out);
bool sw_jinja_is_callable(const jinja_value *value);

/* A value bound to one of its methods. */
struct jinja_method {
    const jinja_builtin *builtin;
    jinja_value self;
};
bool sw_jinja_give_method(jinja_run *run, const jinja_builtin *builtin, const jinja_value *self,
                          jinja_value *out);

/* The variables of a function at work, and of the one around it. */
typedef struct jinja_frame {
    jinja_value *slots;
    struct jinja_frame *outer;
} jinja_frame;

struct jinja_macro {
    const jinja_node *node; /* a macro or a call block */
    jinja_frame *outer;
};
bool sw_jinja_call_macro(jinja_run *run, const jinja_macro *macro, const jinja_arguments *arguments,
                         jinja_value *out);
bool sw_jinja_show_macro(jinja_run *run, const jinja_macro *macro);
/* An attribute: out stays missing if there is none of that name. */
bool sw_jinja_macro_attribute(jinja_run *run, const jinja_macro *macro, const jinja_text *name,
                              jinja_value *out);

#endif
