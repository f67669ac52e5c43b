/* loop.h: what `loop` knows of a for at work. */
#ifndef SW_DATA_JINJA_LOOP_H
#define SW_DATA_JINJA_LOOP_H

#include "data/jinja/call.h"
#include "data/jinja/iterate.h"

struct jinja_loop {
    jinja_iterator items;
    jinja_value iterated;
    int64_t index, depth; /* from 0 on */
    int64_t length;       /* -1: nobody has asked yet */
    jinja_value previous, current, following;
    bool has_following, is_at_end; /* looked one ahead: there is one; there is none */
    const jinja_list *changed;     /* what loop.changed was last called with */
    const jinja_node *node;        /* when recursive: what loop(...) runs */
    jinja_frame *outer;
};

/* The next item, or *is_end. */
bool sw_jinja_loop_next(jinja_run *run, jinja_loop *loop, jinja_value *item, bool *is_end);
/* An attribute: missing if there is none of that name. */
bool sw_jinja_loop_attribute(jinja_run *run, jinja_loop *loop, const jinja_text *name,
                             jinja_value *out);
/* loop(items), in a recursive one. */
bool sw_jinja_loop_again(jinja_run *run, const jinja_loop *loop, const jinja_arguments *arguments,
                         jinja_value *out);
bool sw_jinja_show_loop(jinja_run *run, jinja_loop *loop);

#endif
