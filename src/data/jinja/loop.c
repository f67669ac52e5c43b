/* loop.c: for, and what `loop` tells of it. */
#include "data/jinja/loop.h"

#include "data/jinja/compare.h"
#include "data/jinja/execute.h"
#include "data/jinja/text.h"

/* Items that pass a loop's condition, whose variables lie in a frame of their own. */
typedef struct passing {
    const jinja_node *node;
    jinja_frame *frame;
} passing;

static bool next_passing(jinja_run *run, jinja_iterator *iterator, jinja_value *item,
                         bool *is_end) {
    const passing *state = iterator->state;
    const jinja_node *node = state->node;
    for (;;) {
        if (!sw_jinja_next(run, iterator->inner, item, is_end) || *is_end)
            return run->status == SW_OK;
        jinja_value holds;
        if (!sw_jinja_assign(run, node->as.loop.target, item, state->frame,
                             node->as.loop.test_slots) ||
            !sw_jinja_evaluate(run, node->as.loop.test, state->frame, &holds))
            return false;
        if (sw_jinja_truth(&holds))
            return true;
    }
}

bool sw_jinja_loop_next(jinja_run *run, jinja_loop *loop, jinja_value *item, bool *is_end) {
    if (loop->has_following) {
        *item = loop->following;
        *is_end = false;
        loop->has_following = false;
    } else if (loop->is_at_end) {
        *is_end = true;
    } else if (!sw_jinja_next(run, &loop->items, item, is_end)) {
        return false;
    }
    if (!*is_end) {
        loop->index++;
        loop->previous = loop->current;
        loop->current = *item;
    }
    return true;
}

/* Look one item ahead. */
static bool look_ahead(jinja_run *run, jinja_loop *loop) {
    if (loop->has_following || loop->is_at_end)
        return true;
    bool is_end;
    if (!sw_jinja_next(run, &loop->items, &loop->following, &is_end))
        return false;
    loop->has_following = !is_end;
    loop->is_at_end = is_end;
    return true;
}

/* Of what has no length, the rest is gone over first. */
static bool measure(jinja_run *run, jinja_loop *loop) {
    if (loop->length >= 0)
        return true;
    loop->length = loop->node->as.loop.test ? -1 : sw_jinja_size(&loop->iterated);
    if (loop->length >= 0)
        return true;
    jinja_items rest = {0};
    jinja_value item, list;
    bool is_end = loop->is_at_end;
    while (!is_end) {
        if (!sw_jinja_next(run, &loop->items, &item, &is_end) ||
            (!is_end && !sw_jinja_add(run, &rest, &item)))
            return false;
    }
    loop->length = rest.n + loop->index + 1 + loop->has_following;
    loop->is_at_end = false;
    return sw_jinja_give_items(run, &rest, JINJA_LIST, &list) &&
           sw_jinja_iterate(run, &list, &loop->items);
}

bool sw_jinja_loop_attribute(jinja_run *run, jinja_loop *loop, const jinja_text *name,
                             jinja_value *out) {
    static const struct {
        const char *name;
        enum {
            INDEX,
            INDEX0,
            REVINDEX,
            REVINDEX0,
            FIRST,
            LAST,
            LENGTH,
            DEPTH,
            DEPTH0,
            PREVIOUS,
            NEXT
        } part;
    } parts[] = {{"index", INDEX},         {"index0", INDEX0}, {"revindex", REVINDEX},
                 {"revindex0", REVINDEX0}, {"first", FIRST},   {"last", LAST},
                 {"length", LENGTH},       {"depth", DEPTH},   {"depth0", DEPTH0},
                 {"previtem", PREVIOUS},   {"nextitem", NEXT}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!sw_jinja_is_word(name, parts[i].name))
            continue;
        switch (parts[i].part) {
        case INDEX:
            *out = sw_jinja_integer(loop->index + 1);
            return true;
        case INDEX0:
            *out = sw_jinja_integer(loop->index);
            return true;
        case FIRST:
            *out = sw_jinja_bool(loop->index == 0);
            return true;
        case DEPTH:
            *out = sw_jinja_integer(loop->depth + 1);
            return true;
        case DEPTH0:
            *out = sw_jinja_integer(loop->depth);
            return true;
        case PREVIOUS:
            if (loop->index == 0)
                return sw_jinja_give_hint(run, "there is no previous item", out);
            *out = loop->previous;
            return true;
        case LAST:
        case NEXT:
            if (!look_ahead(run, loop))
                return false;
            if (parts[i].part == NEXT && !loop->has_following)
                return sw_jinja_give_hint(run, "there is no next item", out);
            *out = parts[i].part == NEXT ? loop->following : sw_jinja_bool(!loop->has_following);
            return true;
        default:
            if (!measure(run, loop))
                return false;
            *out = sw_jinja_integer(parts[i].part == LENGTH     ? loop->length
                                    : parts[i].part == REVINDEX ? loop->length - loop->index
                                                                : loop->length - loop->index - 1);
            return true;
        }
    }
    return true;
}

bool sw_jinja_show_loop(jinja_run *run, jinja_loop *loop) {
    return measure(run, loop) &&
           sw_jinja_write_format(run, "<LoopContext %lld/%lld>", (long long)loop->index + 1,
                                 (long long)loop->length);
}

/* Go over the items in a frame: the loop's own where it is recursive, else the one around it. */
static jinja_signal run_items(jinja_run *run, const jinja_node *node, const jinja_value *iterated,
                              int64_t depth, jinja_frame *outer, jinja_frame *frame) {
    jinja_iterator direct;
    jinja_frame local;
    passing state = {node, NULL};
    jinja_loop *loop = NULL;
    jinja_iterator *items = &direct;
    if (node->as.loop.loop_slot >= 0) {
        loop = sw_jinja_take(run, sizeof *loop);
        if (!loop)
            return JINJA_FAILED;
        *loop = (jinja_loop){.iterated = *iterated,
                             .index = -1,
                             .depth = depth,
                             .length = -1,
                             .node = node,
                             .outer = outer};
        items = &loop->items;
    }
    if (!sw_jinja_iterate(run, iterated, items))
        return JINJA_FAILED;
    if (node->as.loop.test) {
        /* They outlive the loop only with a `loop` that does; its condition's frame is gone then,
         * and what it would pass. */
        jinja_iterator *all = sw_jinja_take(run, sizeof *all);
        passing *kept = sw_jinja_take(run, sizeof *kept);
        jinja_body body = node->as.loop.test_body;
        body.is_captured = true;
        if (!all || !kept || !(state.frame = sw_jinja_frame(run, &body, outer, &local)) ||
            !sw_jinja_enter_scope(run, &body.scope, state.frame))
            return JINJA_FAILED;
        *all = *items;
        *kept = state;
        *items = (jinja_iterator){
            .next = next_passing, .source = *iterated, .inner = all, .state = kept};
    }
    bool is_end = false, was_whole = false;
    jinja_signal signal = JINJA_DONE;
    while (signal == JINJA_DONE || signal == JINJA_CONTINUED) {
        jinja_value item;
        if (!(loop ? sw_jinja_loop_next(run, loop, &item, &is_end)
                   : sw_jinja_next(run, items, &item, &is_end)))
            return JINJA_FAILED;
        if (is_end)
            break;
        if (!sw_jinja_assign(run, node->as.loop.target, &item, frame, NULL))
            return JINJA_FAILED;
        if (loop)
            frame->slots[node->as.loop.loop_slot] =
                (jinja_value){.kind = JINJA_LOOP, .as.loop = loop};
        if (!sw_jinja_enter_scope(run, &node->as.loop.scope, frame) || !sw_jinja_spend(run, 3))
            return JINJA_FAILED;
        signal = sw_jinja_run_body(run, &node->as.loop.body, frame);
        was_whole =
            was_whole ||
            signal == JINJA_DONE; /* a round that ends early does not count: so has the reference */
    }
    if (signal == JINJA_FAILED)
        return signal;
    sw_jinja_leave_scope(&node->as.loop.scope, frame);
    if (was_whole || node->as.loop.otherwise.n == 0)
        return JINJA_DONE;
    if (!sw_jinja_enter_scope(run, &node->as.loop.otherwise_scope, frame))
        return JINJA_FAILED;
    signal = sw_jinja_run_body(run, &node->as.loop.otherwise, frame);
    if (signal == JINJA_DONE)
        sw_jinja_leave_scope(&node->as.loop.otherwise_scope, frame);
    return signal;
}

/* A recursive loop is a function of its own. */
static jinja_signal run_recursive(jinja_run *run, const jinja_node *node,
                                  const jinja_value *iterated, int64_t depth, jinja_frame *outer) {
    int n_stack = run->n_stack;
    jinja_frame local, *frame = sw_jinja_frame(run, &node->as.loop.body_of_itself, outer, &local);
    jinja_signal signal =
        frame ? run_items(run, node, iterated, depth, outer, frame) : JINJA_FAILED;
    run->n_stack = n_stack;
    return signal;
}

jinja_signal sw_jinja_run_for(jinja_run *run, const jinja_node *node, jinja_frame *frame) {
    jinja_value iterated;
    if (!sw_jinja_evaluate(run, node->as.loop.iterated, frame, &iterated))
        return JINJA_FAILED;
    return node->as.loop.is_recursive ? run_recursive(run, node, &iterated, 0, frame)
                                      : run_items(run, node, &iterated, 0, frame, frame);
}

bool sw_jinja_loop_again(jinja_run *run, const jinja_loop *loop, const jinja_arguments *arguments,
                         jinja_value *out) {
    if (!loop->node->as.loop.is_recursive)
        return sw_jinja_fail(run,
                             "the loop must have the 'recursive' marker to be called recursively");
    if (arguments->n != 1 || arguments->n_keywords)
        return sw_jinja_fail(run, "loop() takes what to go over, and nothing else");
    jinja_start start = sw_jinja_start(run);
    bool is_done = sw_jinja_enter(run) && run_recursive(run, loop->node, &arguments->values[0],
                                                        loop->depth + 1, loop->outer) == JINJA_DONE;
    sw_jinja_leave(run);
    return is_done && sw_jinja_give_text(sw_jinja_collect(run, start), out);
}
