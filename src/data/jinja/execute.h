/* execute.h: a template at work: expressions become values, statements text. */
#ifndef SW_DATA_JINJA_EXECUTE_H
#define SW_DATA_JINJA_EXECUTE_H

#include "data/jinja/call.h"
#include "data/jinja/syntax.h"

/* How a body ended: failed; at its end; by a break or continue, which the loop around it takes. */
typedef enum jinja_signal { JINJA_FAILED, JINJA_DONE, JINJA_BROKEN, JINJA_CONTINUED } jinja_signal;

bool sw_jinja_evaluate(jinja_run *run, const jinja_node *node, jinja_frame *frame,
                       jinja_value *out);
jinja_signal sw_jinja_run_body(jinja_run *run, const jinja_nodes *body, jinja_frame *frame);
jinja_signal sw_jinja_run_for(jinja_run *run, const jinja_node *node, jinja_frame *frame);

/* The variables of a function that begins; of `local` unless something may use them after its end.
 * NULL: failed. */
jinja_frame *sw_jinja_frame(jinja_run *run, const jinja_body *body, jinja_frame *outer,
                            jinja_frame *local);
/* A scope's variables: as they begin, and unset when it is over. */
bool sw_jinja_enter_scope(jinja_run *run, const jinja_scope *scope, jinja_frame *frame);
void sw_jinja_leave_scope(const jinja_scope *scope, jinja_frame *frame);

/* Assign. `slots`: where the target's names lie, in order; NULL: where they say. */
bool sw_jinja_assign(jinja_run *run, const jinja_node *target, const jinja_value *value,
                     jinja_frame *frame, const int32_t *slots);

/* A filter node applied to a value. */
bool sw_jinja_apply_filter(jinja_run *run, const jinja_node *node, const jinja_value *value,
                           jinja_frame *frame, jinja_value *out);
/* A call node, with `caller` for what it calls. */
bool sw_jinja_call_node(jinja_run *run, const jinja_node *node, jinja_frame *frame,
                        const jinja_value *caller, jinja_value *out);

/* The operators on two values. */
bool sw_jinja_operate(jinja_run *run, jinja_sign sign, const jinja_value *a, const jinja_value *b,
                      jinja_value *out);

/* What the context has for a name, by number; missing: nothing. False: failed. */
bool sw_jinja_context(jinja_run *run, int32_t name, jinja_value *out);
/* No value, and why. */
bool sw_jinja_give_undefined(jinja_run *run, const char *owner, const jinja_value *name,
                             bool is_unsafe, jinja_value *out);
bool sw_jinja_give_hint(jinja_run *run, const char *hint, jinja_value *out);

/* A JSON value. */
bool sw_jinja_of_json(jinja_run *run, const json_t *json, jinja_value *out);

#endif
