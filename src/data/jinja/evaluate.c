/* evaluate.c: expressions. */
#include "data/jinja/attributes.h"
#include "data/jinja/builtins.h"
#include "data/jinja/collection.h"
#include "data/jinja/compare.h"
#include "data/jinja/execute.h"
#include "data/jinja/iterate.h"
#include "data/jinja/number.h"
#include "data/jinja/print.h"
#include "data/jinja/text.h"

static bool evaluate_name(jinja_run *run, const jinja_node *node, const jinja_frame *frame,
                          jinja_value *out) {
    for (int32_t i = node->as.name.place.hops; i > 0; i--)
        frame = frame->outer;
    *out = frame->slots[node->as.name.place.slot];
    if (out->kind != JINJA_MISSING)
        return true;
    jinja_value name = sw_jinja_of_text(node->as.name.name);
    return sw_jinja_give_undefined(run, NULL, &name, false, out);
}

static bool evaluate_items(jinja_run *run, const jinja_nodes *nodes, jinja_frame *frame,
                           jinja_value *items) {
    for (int32_t i = 0; i < nodes->n; i++)
        if (!sw_jinja_evaluate(run, nodes->items[i], frame, &items[i]))
            return false;
    return true;
}

static bool evaluate_list(jinja_run *run, const jinja_node *node, jinja_frame *frame,
                          jinja_value *out) {
    jinja_value *items = sw_jinja_take(run, node->as.list.n * (int64_t)sizeof *items);
    return items && evaluate_items(run, &node->as.list, frame, items) &&
           sw_jinja_give_list(sw_jinja_list(run, items, node->as.list.n),
                              node->kind == JINJA_MAKE_LIST ? JINJA_LIST : JINJA_TUPLE, out);
}

static bool evaluate_dict(jinja_run *run, const jinja_node *node, jinja_frame *frame,
                          jinja_value *out) {
    const jinja_nodes *nodes = &node->as.list;
    jinja_dict *dict = sw_jinja_dict(run, nodes->n / 2);
    jinja_value key, value;
    for (int32_t i = 0; dict && i < nodes->n; i += 2)
        if (!sw_jinja_evaluate(run, nodes->items[i], frame, &key) ||
            !sw_jinja_evaluate(run, nodes->items[i + 1], frame, &value) ||
            !sw_jinja_set(run, dict, &key, &value))
            return false;
    if (dict)
        *out = sw_jinja_of_dict(dict);
    return dict != NULL;
}

static bool evaluate_concat(jinja_run *run, const jinja_node *node, jinja_frame *frame,
                            jinja_value *out) {
    jinja_text *whole = NULL;
    for (int32_t i = 0; i < node->as.list.n; i++) {
        jinja_value part;
        jinja_text *text = sw_jinja_evaluate(run, node->as.list.items[i], frame, &part)
                               ? sw_jinja_str(run, &part)
                               : NULL;
        whole = !text ? NULL : whole ? sw_jinja_join(run, whole, text) : text;
        if (!whole)
            return false;
    }
    return sw_jinja_give_text(whole, out);
}

static bool compare_two(jinja_run *run, jinja_comparison comparison, const jinja_value *a,
                        const jinja_value *b, bool *holds) {
    switch (comparison) {
    case JINJA_IS_LESS:
    case JINJA_IS_LESS_EQUAL:
    case JINJA_IS_GREATER:
    case JINJA_IS_GREATER_EQUAL:
        return sw_jinja_order(run, a, b, (jinja_order)comparison, holds);
    case JINJA_IS_EQUAL:
    case JINJA_IS_NOT_EQUAL:
        if (!sw_jinja_equal(run, a, b, holds))
            return false;
        break;
    default:
        if (!sw_jinja_contains(run, b, a, holds))
            return false;
        break;
    }
    *holds = *holds == (comparison == JINJA_IS_EQUAL || comparison == JINJA_IS_IN);
    return true;
}

static bool evaluate_compare(jinja_run *run, const jinja_node *node, jinja_frame *frame,
                             jinja_value *out) {
    jinja_value left, right;
    bool holds = true;
    if (!sw_jinja_evaluate(run, node->as.compare.first, frame, &left))
        return false;
    for (int32_t i = 0; i < node->as.compare.others.n && holds; i++) {
        if (!sw_jinja_evaluate(run, node->as.compare.others.items[i], frame, &right) ||
            !compare_two(run, node->as.compare.operators[i], &left, &right, &holds))
            return false;
        left = right;
    }
    *out = sw_jinja_bool(holds);
    return true;
}

static bool evaluate_sign(jinja_run *run, const jinja_node *node, jinja_frame *frame,
                          jinja_value *out) {
    jinja_value value;
    if (!sw_jinja_evaluate(run, node->as.binary.left, frame, &value))
        return false;
    if (value.kind == JINJA_UNDEFINED)
        return sw_jinja_fail_undefined(run, &value);
    if (!sw_jinja_is_number(&value))
        return sw_jinja_fail(run, "bad operand type for unary %c: '%s'",
                             node->kind == JINJA_NEGATIVE ? '-' : '+', sw_jinja_type_name(&value));
    if (node->kind == JINJA_NEGATIVE)
        return sw_jinja_negate(run, &value, out);
    *out = value.kind == JINJA_BOOL ? sw_jinja_integer(value.as.truth) : value;
    return true;
}

static bool evaluate_item(jinja_run *run, const jinja_node *node, jinja_frame *frame,
                          jinja_value *out) {
    jinja_value owner, index, parts[3];
    const jinja_node *at = node->as.item.index;
    if (!sw_jinja_evaluate(run, node->as.item.owner, frame, &owner))
        return false;
    if (at->kind != JINJA_SLICE)
        return sw_jinja_evaluate(run, at, frame, &index) &&
               sw_jinja_get_item(run, &owner, &index, out);
    const jinja_node *nodes[3] = {at->as.slice.start, at->as.slice.stop, at->as.slice.step};
    for (int i = 0; i < 3; i++) {
        parts[i] = sw_jinja_none();
        if (nodes[i] && !sw_jinja_evaluate(run, nodes[i], frame, &parts[i]))
            return false;
    }
    return sw_jinja_get_slice(run, &owner, parts, out);
}

/* *values, of whatever has items. */
static bool add_more(jinja_run *run, const jinja_node *node, jinja_frame *frame,
                     jinja_arguments *arguments) {
    jinja_value more;
    const jinja_value *items;
    int64_t n;
    if (!sw_jinja_evaluate(run, node, frame, &more))
        return false;
    if (!sw_jinja_items_of(run, &more, &items, &n))
        return false;
    jinja_value *values = sw_jinja_push(run, arguments->n + n);
    if (!values)
        return false;
    for (int64_t i = 0; i < arguments->n; i++)
        values[i] = arguments->values[i];
    for (int64_t i = 0; i < n; i++)
        values[arguments->n + i] = items[i];
    arguments->values = values;
    arguments->n += n;
    return sw_jinja_spend(run, n);
}

/* **values, of a dict with texts for keys. */
static bool add_named_more(jinja_run *run, const jinja_node *node, jinja_frame *frame,
                           jinja_arguments *arguments) {
    jinja_value more;
    if (!sw_jinja_evaluate(run, node, frame, &more))
        return false;
    if (more.kind != JINJA_DICT)
        return sw_jinja_fail(run, "argument after ** must be a mapping, not %s",
                             sw_jinja_type_name(&more));
    const jinja_dict *dict = more.as.dict;
    jinja_keyword *keywords =
        (jinja_keyword *)sw_jinja_push(run, 2 * (arguments->n_keywords + dict->n));
    if (!keywords || !sw_jinja_spend(run, dict->n * (1 + arguments->n_keywords)))
        return false;
    for (int64_t i = 0; i < arguments->n_keywords; i++)
        keywords[i] = arguments->keywords[i];
    for (int64_t i = 0; i < dict->n; i++) {
        const jinja_value *name = &dict->entries[i].key;
        if (name->kind != JINJA_TEXT)
            return sw_jinja_fail(run, "keywords must be strings");
        for (int64_t j = 0; j < arguments->n_keywords; j++)
            if (sw_jinja_same_text(keywords[j].name.as.text, name->as.text))
                return sw_jinja_fail(run, "got multiple values for keyword argument '%.*s'",
                                     (int)name->as.text->n_bytes, name->as.text->bytes);
        keywords[arguments->n_keywords + i] = (jinja_keyword){*name, dict->entries[i].value};
    }
    arguments->keywords = keywords;
    arguments->n_keywords += dict->n;
    return true;
}

/* All arguments of a call, on the stack. */
static bool gather(jinja_run *run, const jinja_call_parts *parts, jinja_frame *frame,
                   const jinja_value *caller, jinja_arguments *arguments) {
    *arguments = (jinja_arguments){0};
    jinja_value *values = sw_jinja_push(run, parts->arguments.n);
    int32_t n_keywords = parts->values.n + (caller != NULL);
    jinja_keyword *keywords =
        n_keywords ? (jinja_keyword *)sw_jinja_push(run, 2 * (int64_t)n_keywords) : NULL;
    if (!values || (n_keywords && !keywords) ||
        !evaluate_items(run, &parts->arguments, frame, values))
        return false;
    for (int32_t i = 0; i < parts->values.n; i++) {
        keywords[i].name = sw_jinja_of_text(parts->names[i]);
        if (!sw_jinja_evaluate(run, parts->values.items[i], frame, &keywords[i].value))
            return false;
    }
    *arguments = (jinja_arguments){values, parts->arguments.n, keywords, parts->values.n};
    if ((parts->more && !add_more(run, parts->more, frame, arguments)) ||
        (parts->named_more && !add_named_more(run, parts->named_more, frame, arguments)))
        return false;
    if (!caller)
        return true;
    jinja_keyword *with_caller =
        (jinja_keyword *)sw_jinja_push(run, 2 * (arguments->n_keywords + 1));
    jinja_text *word = sw_jinja_words(run, "caller");
    if (!with_caller || !word)
        return false;
    for (int64_t i = 0; i < arguments->n_keywords; i++)
        with_caller[i] = arguments->keywords[i];
    with_caller[arguments->n_keywords++] = (jinja_keyword){sw_jinja_of_text(word), *caller};
    arguments->keywords = with_caller;
    return true;
}

bool sw_jinja_call_node(jinja_run *run, const jinja_node *node, jinja_frame *frame,
                        const jinja_value *caller, jinja_value *out) {
    const jinja_node *called = node->as.call.called;
    int n_stack = run->n_stack;
    jinja_value self, function;
    jinja_arguments arguments;
    const jinja_builtin *method = NULL;
    bool is_done;
    if (called->kind == JINJA_ATTRIBUTE) {
        is_done = sw_jinja_evaluate(run, called->as.item.owner, frame, &self);
        method = is_done && called->as.item.may_be_attribute
                     ? sw_jinja_method(&self, called->as.item.name)
                     : NULL;
        if (is_done && !method)
            is_done = sw_jinja_get_attribute(run, &self, called->as.item.name,
                                             called->as.item.may_be_attribute, &function);
    } else {
        is_done = sw_jinja_evaluate(run, called, frame, &function);
    }
    is_done = is_done && gather(run, &node->as.call.parts, frame, caller, &arguments) &&
              (method ? sw_jinja_call_builtin(run, method, &self, &arguments, out)
                      : sw_jinja_call(run, &function, &arguments, out));
    run->n_stack = n_stack;
    return is_done;
}

bool sw_jinja_apply_filter(jinja_run *run, const jinja_node *node, const jinja_value *value,
                           jinja_frame *frame, jinja_value *out) {
    int n_stack = run->n_stack;
    jinja_arguments arguments;
    const jinja_text *name = node->as.call.name;
    jinja_value self = *value;
    if (!node->as.call.builtin)
        return sw_jinja_fail(run, "No %s named '%.*s'",
                             node->kind == JINJA_FILTER ? "filter" : "test", (int)name->n_bytes,
                             name->bytes);
    bool is_done = gather(run, &node->as.call.parts, frame, NULL, &arguments) &&
                   sw_jinja_call_builtin(run, node->as.call.builtin, &self, &arguments, out);
    run->n_stack = n_stack;
    return is_done;
}

static bool evaluate_within(jinja_run *run, const jinja_node *node, jinja_frame *frame,
                            jinja_value *out) {
    jinja_value value;
    switch ((jinja_node_kind)node->kind) {
    case JINJA_MAKE_TUPLE:
    case JINJA_MAKE_LIST:
        return evaluate_list(run, node, frame, out);
    case JINJA_MAKE_DICT:
        return evaluate_dict(run, node, frame, out);
    case JINJA_AND:
    case JINJA_OR:
        if (!sw_jinja_evaluate(run, node->as.binary.left, frame, out))
            return false;
        return sw_jinja_truth(out) == (node->kind == JINJA_OR) ||
               sw_jinja_evaluate(run, node->as.binary.right, frame, out);
    case JINJA_NOT:
        if (!sw_jinja_evaluate(run, node->as.binary.left, frame, &value))
            return false;
        *out = sw_jinja_bool(!sw_jinja_truth(&value));
        return true;
    case JINJA_BINARY: {
        jinja_value right;
        return sw_jinja_evaluate(run, node->as.binary.left, frame, &value) &&
               sw_jinja_evaluate(run, node->as.binary.right, frame, &right) &&
               sw_jinja_operate(run, node->as.binary.sign, &value, &right, out);
    }
    case JINJA_NEGATIVE:
    case JINJA_POSITIVE:
        return evaluate_sign(run, node, frame, out);
    case JINJA_COMPARE:
        return evaluate_compare(run, node, frame, out);
    case JINJA_CONCAT:
        return evaluate_concat(run, node, frame, out);
    case JINJA_ATTRIBUTE:
        return sw_jinja_evaluate(run, node->as.item.owner, frame, &value) &&
               sw_jinja_get_attribute(run, &value, node->as.item.name,
                                      node->as.item.may_be_attribute, out);
    case JINJA_ITEM:
        return evaluate_item(run, node, frame, out);
    case JINJA_CALL:
        return sw_jinja_call_node(run, node, frame, NULL, out);
    case JINJA_FILTER:
    case JINJA_TEST:
        return sw_jinja_evaluate(run, node->as.call.called, frame, &value) &&
               sw_jinja_apply_filter(run, node, &value, frame, out);
    case JINJA_CONDITIONAL:
        if (!sw_jinja_evaluate(run, node->as.conditional.test, frame, &value))
            return false;
        if (sw_jinja_truth(&value))
            return sw_jinja_evaluate(run, node->as.conditional.yes, frame, out);
        if (node->as.conditional.no)
            return sw_jinja_evaluate(run, node->as.conditional.no, frame, out);
        return sw_jinja_give_hint(
            run, "the inline if-expression evaluated to false and no else section was defined",
            out);
    default:
        return sw_jinja_fail(run, "this cannot stand here");
    }
}

bool sw_jinja_evaluate(jinja_run *run, const jinja_node *node, jinja_frame *frame,
                       jinja_value *out) {
    if (node->kind == JINJA_CONSTANT) {
        *out = node->as.constant;
        return true;
    }
    bool is_done = sw_jinja_spend(run, 1);
    if (node->kind == JINJA_NAME) {
        is_done = is_done && evaluate_name(run, node, frame, out);
    } else {
        is_done = sw_jinja_enter(run) && is_done && evaluate_within(run, node, frame, out);
        sw_jinja_leave(run);
    }
    if (!is_done && run->failed_line == 0)
        run->failed_line = node->line;
    return is_done;
}
