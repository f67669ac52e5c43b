/* execute.c: statements. */
#include "data/jinja/execute.h"

#include "data/jinja/collection.h"
#include "data/jinja/compare.h"
#include "data/jinja/iterate.h"
#include "data/jinja/print.h"
#include "data/jinja/text.h"

jinja_frame *sw_jinja_frame(jinja_run *run, const jinja_body *body, jinja_frame *outer,
                            jinja_frame *local) {
    jinja_frame *frame = body->is_captured ? sw_jinja_take(run, sizeof *frame) : local;
    if (!frame)
        return NULL;
    frame->outer = outer;
    frame->slots = body->is_captured
                       ? sw_jinja_take(run, body->n_slots * (int64_t)sizeof *frame->slots)
                       : sw_jinja_push(run, body->n_slots);
    if (!frame->slots)
        return NULL;
    for (int32_t i = 0; i < body->n_slots; i++)
        frame->slots[i] = sw_jinja_missing();
    return frame;
}

bool sw_jinja_enter_scope(jinja_run *run, const jinja_scope *scope, jinja_frame *frame) {
    for (int32_t i = 0; i < scope->n_loads; i++) {
        const jinja_load *load = &scope->loads[i];
        const jinja_frame *from = frame;
        switch (load->kind) {
        case JINJA_LOAD_PARAMETER:
            break;
        case JINJA_LOAD_UNSET:
            frame->slots[load->slot] = sw_jinja_missing();
            break;
        case JINJA_LOAD_ALIAS:
            for (int32_t hops = load->from.hops; hops > 0; hops--)
                from = from->outer;
            frame->slots[load->slot] = from->slots[load->from.slot];
            break;
        case JINJA_LOAD_CONTEXT:
            if (!sw_jinja_context(run, load->name, &frame->slots[load->slot]))
                return false;
            break;
        }
    }
    return sw_jinja_spend(run, scope->n_loads / 4);
}

void sw_jinja_leave_scope(const jinja_scope *scope, jinja_frame *frame) {
    for (int32_t i = 0; i < scope->n_loads; i++)
        frame->slots[scope->loads[i].slot] = sw_jinja_missing();
}

static bool assign_name(jinja_run *run, const jinja_node *target, const jinja_value *value,
                        jinja_frame *frame, const int32_t **slots) {
    if (*slots) {
        frame->slots[*(*slots)++] = *value;
        return true;
    }
    jinja_frame *at = frame;
    for (int32_t hops = target->as.name.place.hops; hops > 0; hops--)
        at = at->outer;
    jinja_value *variable = &at->slots[target->as.name.place.slot];
    if (target->kind == JINJA_NAME) {
        *variable = *value;
        if (target->as.name.context >= 0) {
            run->context[target->as.name.context] = *value;
            run->is_asked[target->as.name.context] = true;
        }
        return true;
    }
    if (variable->kind != JINJA_NAMESPACE)
        return sw_jinja_fail(
            run, "cannot assign attribute on non-namespace object: '%.*s' is no namespace()",
            (int)target->as.name.name->n_bytes, target->as.name.name->bytes);
    if (target->as.name.attribute->bytes[0] == '_')
        return sw_jinja_fail(
            run, "a namespace has no attributes that begin with an underscore: '%.*s'",
            (int)target->as.name.attribute->n_bytes, target->as.name.attribute->bytes);
    jinja_value key = sw_jinja_of_text(target->as.name.attribute);
    return sw_jinja_set(run, &variable->as.space->attributes, &key, value);
}

static bool assign_parts(jinja_run *run, const jinja_node *target, const jinja_value *value,
                         jinja_frame *frame, const int32_t **slots) {
    if (target->kind != JINJA_MAKE_TUPLE)
        return assign_name(run, target, value, frame, slots);
    const jinja_value *items;
    int64_t n, n_wanted = target->as.list.n;
    if (!sw_jinja_is_iterable(value))
        return sw_jinja_fail(run, "cannot unpack non-iterable %s object",
                             sw_jinja_type_name(value));
    if (!sw_jinja_items_of(run, value, &items, &n))
        return false;
    if (n > n_wanted)
        return sw_jinja_fail(run, "too many values to unpack (expected %lld)", (long long)n_wanted);
    if (n < n_wanted)
        return sw_jinja_fail(run, "not enough values to unpack (expected %lld, got %lld)",
                             (long long)n_wanted, (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (!assign_parts(run, target->as.list.items[i], &items[i], frame, slots))
            return false;
    return true;
}

bool sw_jinja_assign(jinja_run *run, const jinja_node *target, const jinja_value *value,
                     jinja_frame *frame, const int32_t *slots) {
    return assign_parts(run, target, value, frame, &slots);
}

/* What a filter block or a called macro gives must be a text already. */
static bool print_text(jinja_run *run, const jinja_value *value, const char *what) {
    if (value->kind != JINJA_TEXT)
        return sw_jinja_fail(run, "a %s must give a str, not %s", what, sw_jinja_type_name(value));
    return sw_jinja_print(run, value);
}

static bool evaluate_and_print(jinja_run *run, const jinja_node *node, jinja_frame *frame) {
    jinja_value value;
    return sw_jinja_evaluate(run, node, frame, &value) && sw_jinja_print(run, &value);
}

static bool run_set(jinja_run *run, const jinja_node *node, jinja_frame *frame) {
    jinja_value value;
    return sw_jinja_evaluate(run, node->as.set.value, frame, &value) &&
           sw_jinja_assign(run, node->as.set.target, &value, frame, NULL);
}

/* A filter node whose innermost filter has the block's text. */
static bool filter_block_text(jinja_run *run, const jinja_node *filter, jinja_text *text,
                              jinja_frame *frame, jinja_value *out) {
    jinja_value value = sw_jinja_of_text(text);
    if (!text || (filter->as.call.called &&
                  !filter_block_text(run, filter->as.call.called, text, frame, &value)))
        return false;
    return sw_jinja_apply_filter(run, filter, &value, frame, out);
}

/* A body whose text is a value: {% set x %}...{% endset %}, {% filter f %}...{% endfilter %}. */
static jinja_signal run_captured(jinja_run *run, const jinja_nodes *body, const jinja_node *filter,
                                 const jinja_scope *scope, jinja_frame *frame, jinja_value *out) {
    jinja_start start = sw_jinja_start(run);
    if (!sw_jinja_enter_scope(run, scope, frame))
        return JINJA_FAILED;
    jinja_signal signal = sw_jinja_run_body(run, body, frame);
    if (signal != JINJA_DONE) {
        sw_jinja_drop(run, start);
        return signal;
    }
    jinja_text *text = sw_jinja_collect(run, start);
    bool is_done = text && (filter ? filter_block_text(run, filter, text, frame, out)
                                   : sw_jinja_give_text(text, out));
    sw_jinja_leave_scope(scope, frame);
    return is_done ? JINJA_DONE : JINJA_FAILED;
}

static jinja_signal run_set_block(jinja_run *run, const jinja_node *node, jinja_frame *frame) {
    jinja_value value;
    jinja_signal signal = run_captured(run, &node->as.set.body, node->as.set.filter,
                                       &node->as.set.scope, frame, &value);
    if (signal != JINJA_DONE)
        return signal;
    return sw_jinja_assign(run, node->as.set.target, &value, frame, NULL) ? JINJA_DONE
                                                                          : JINJA_FAILED;
}

static jinja_signal run_filter_block(jinja_run *run, const jinja_node *node, jinja_frame *frame) {
    jinja_value value;
    jinja_signal signal = run_captured(run, &node->as.filtered.body, node->as.filtered.filter,
                                       &node->as.filtered.scope, frame, &value);
    if (signal != JINJA_DONE)
        return signal;
    return print_text(run, &value, "filter block") ? JINJA_DONE : JINJA_FAILED;
}

static jinja_signal run_scope(jinja_run *run, const jinja_scope *scope, const jinja_nodes *body,
                              jinja_frame *frame) {
    jinja_signal signal = sw_jinja_run_body(run, body, frame);
    if (signal == JINJA_DONE)
        sw_jinja_leave_scope(scope, frame);
    return signal;
}

static jinja_signal run_with(jinja_run *run, const jinja_node *node, jinja_frame *frame) {
    if (!sw_jinja_enter_scope(run, &node->as.with.scope, frame))
        return JINJA_FAILED;
    for (int32_t i = 0; i < node->as.with.targets.n; i++) {
        jinja_value value;
        if (!sw_jinja_evaluate(run, node->as.with.values.items[i], frame, &value) ||
            !sw_jinja_assign(run, node->as.with.targets.items[i], &value, frame, NULL))
            return JINJA_FAILED;
    }
    return run_scope(run, &node->as.with.scope, &node->as.with.body, frame);
}

static jinja_signal run_if(jinja_run *run, const jinja_node *node, jinja_frame *frame) {
    jinja_value value;
    if (!sw_jinja_evaluate(run, node->as.condition.test, frame, &value))
        return JINJA_FAILED;
    if (sw_jinja_truth(&value))
        return sw_jinja_run_body(run, &node->as.condition.body, frame);
    for (int32_t i = 0; i < node->as.condition.elifs.n; i++) {
        const jinja_node *branch = node->as.condition.elifs.items[i];
        if (!sw_jinja_evaluate(run, branch->as.condition.test, frame, &value))
            return JINJA_FAILED;
        if (sw_jinja_truth(&value))
            return sw_jinja_run_body(run, &branch->as.condition.body, frame);
    }
    return sw_jinja_run_body(run, &node->as.condition.otherwise, frame);
}

static bool make_macro(jinja_run *run, const jinja_node *node, jinja_frame *frame,
                       jinja_value *out) {
    jinja_macro *macro = sw_jinja_take(run, sizeof *macro);
    if (!macro)
        return false;
    *macro = (jinja_macro){node, frame};
    *out = (jinja_value){.kind = JINJA_MACRO, .as.macro = macro};
    return true;
}

static bool run_define_macro(jinja_run *run, const jinja_node *node, jinja_frame *frame) {
    jinja_value macro;
    return make_macro(run, node, frame, &macro) &&
           sw_jinja_assign(run, node->as.macro.name, &macro, frame, NULL);
}

static bool run_call_block(jinja_run *run, const jinja_node *node, jinja_frame *frame) {
    jinja_value caller, value;
    return make_macro(run, node, frame, &caller) &&
           sw_jinja_call_node(run, node->as.macro.call, frame, &caller, &value) &&
           print_text(run, &value, "call block");
}

/* {% generation %}: a body with variables of its own, and a mark on what it prints. */
static bool run_generation(jinja_run *run, const jinja_node *node, jinja_frame *outer) {
    int n_stack = run->n_stack, id;
    int64_t first = run->n_output;
    jinja_frame local, *frame = sw_jinja_frame(run, &node->as.macro.frame, outer, &local);
    const jinja_signature_node *signature = &node->as.macro.signature;
    if (!frame || !sw_jinja_begin_generation(run, node->line, &id))
        return false;
    if (signature->caller >= 0 &&
        !sw_jinja_give_hint(run, "No caller defined", &frame->slots[signature->caller]))
        return false;
    if (signature->varargs >= 0 && !sw_jinja_give_list(sw_jinja_list(run, NULL, 0), JINJA_TUPLE,
                                                       &frame->slots[signature->varargs]))
        return false;
    if (signature->kwargs >= 0) {
        jinja_dict *dict = sw_jinja_dict(run, 0);
        if (!dict)
            return false;
        frame->slots[signature->kwargs] = sw_jinja_of_dict(dict);
    }
    bool is_done = sw_jinja_enter_scope(run, &node->as.macro.frame.scope, frame) &&
                   sw_jinja_run_body(run, &node->as.macro.body, frame) == JINJA_DONE &&
                   sw_jinja_mark_output(run, first, run->n_output, id);
    run->n_stack = n_stack;
    return is_done;
}

static bool run_block(jinja_run *run, const jinja_node *node) {
    int n_stack = run->n_stack;
    jinja_frame local, *frame = sw_jinja_frame(run, &node->as.macro.frame, NULL, &local);
    bool is_done = frame && sw_jinja_enter_scope(run, &node->as.macro.frame.scope, frame) &&
                   sw_jinja_run_body(run, &node->as.macro.body, frame) == JINJA_DONE;
    run->n_stack = n_stack;
    return is_done;
}

static jinja_signal run_statement(jinja_run *run, const jinja_node *node, jinja_frame *frame) {
    bool is_done;
    switch ((jinja_node_kind)node->kind) {
    case JINJA_DATA:
        is_done = sw_jinja_write(run, node->as.constant.as.text->bytes,
                                 node->as.constant.as.text->n_bytes);
        break;
    case JINJA_FOR:
        return sw_jinja_run_for(run, node, frame);
    case JINJA_IF:
        return run_if(run, node, frame);
    case JINJA_SET:
        is_done = run_set(run, node, frame);
        break;
    case JINJA_SET_BLOCK:
        return run_set_block(run, node, frame);
    case JINJA_WITH:
        return run_with(run, node, frame);
    case JINJA_DEFINE_MACRO:
        is_done = run_define_macro(run, node, frame);
        break;
    case JINJA_CALL_BLOCK:
        is_done = run_call_block(run, node, frame);
        break;
    case JINJA_GENERATION:
        is_done = run_generation(run, node, frame);
        break;
    case JINJA_FILTER_BLOCK:
        return run_filter_block(run, node, frame);
    case JINJA_SCOPE:
        if (!sw_jinja_enter_scope(run, &node->as.filtered.scope, frame))
            return JINJA_FAILED;
        return run_scope(run, &node->as.filtered.scope, &node->as.filtered.body, frame);
    case JINJA_BLOCK:
        is_done = run_block(run, node);
        break;
    case JINJA_BREAK:
        return JINJA_BROKEN;
    case JINJA_CONTINUE:
        return JINJA_CONTINUED;
    case JINJA_REFUSED:
        is_done = sw_jinja_fail(run, "%s", node->as.refused);
        break;
    case JINJA_OUTPUT:
        is_done = true;
        for (int32_t i = 0; i < node->as.list.n && is_done; i++)
            is_done = evaluate_and_print(run, node->as.list.items[i], frame);
        break;
    default:
        is_done = evaluate_and_print(run, node, frame);
        break;
    }
    return is_done ? JINJA_DONE : JINJA_FAILED;
}

jinja_signal sw_jinja_run_body(jinja_run *run, const jinja_nodes *body, jinja_frame *frame) {
    jinja_signal signal = sw_jinja_enter(run) ? JINJA_DONE : JINJA_FAILED;
    for (int32_t i = 0; i < body->n && signal == JINJA_DONE; i++) {
        signal = sw_jinja_spend(run, 1) ? run_statement(run, body->items[i], frame) : JINJA_FAILED;
        if (signal == JINJA_FAILED && run->failed_line == 0)
            run->failed_line = body->items[i]->line;
    }
    sw_jinja_leave(run);
    return signal;
}
