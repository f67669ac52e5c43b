/* macro.c: macros, and the bodies of call blocks, which are macros without a name. */
#include "data/jinja/call.h"
#include "data/jinja/collection.h"
#include "data/jinja/execute.h"
#include "data/jinja/text.h"

static int name_bytes(const jinja_macro *macro) {
    const jinja_node *name = macro->node->as.macro.name;
    return name ? (int)name->as.name.name->n_bytes : 6;
}

static const char *name_of(const jinja_macro *macro) {
    const jinja_node *name = macro->node->as.macro.name;
    return name ? name->as.name.name->bytes : "caller";
}

/* What is given by name: to a parameter, or else into `kwargs`. */
static bool bind_keywords(jinja_run *run, const jinja_macro *macro,
                          const jinja_arguments *arguments, jinja_frame *frame,
                          int64_t n_positional) {
    const jinja_signature_node *signature = &macro->node->as.macro.signature;
    jinja_dict *others = signature->kwargs >= 0 ? sw_jinja_dict(run, 0) : NULL;
    if (signature->kwargs >= 0 && !others)
        return false;
    for (int64_t i = 0; i < arguments->n_keywords; i++) {
        const jinja_keyword *keyword = &arguments->keywords[i];
        const jinja_text *name = keyword->name.as.text;
        bool is_bound = false;
        for (int64_t j = n_positional; j < signature->parameters.n && !is_bound; j++) {
            const jinja_node *parameter = signature->parameters.items[j];
            is_bound = sw_jinja_same_text(parameter->as.name.name, name);
            if (is_bound)
                frame->slots[parameter->as.name.place.slot] = keyword->value;
        }
        if (!is_bound && signature->caller >= 0 && sw_jinja_is_word(name, "caller")) {
            frame->slots[signature->caller] = keyword->value;
            is_bound = true;
        }
        if (!is_bound && !others)
            return sw_jinja_fail(run, "macro '%.*s' takes no keyword argument '%.*s'",
                                 name_bytes(macro), name_of(macro), (int)name->n_bytes,
                                 name->bytes);
        if ((!is_bound && !sw_jinja_set(run, others, &keyword->name, &keyword->value)) ||
            !sw_jinja_spend(run, signature->parameters.n))
            return false;
    }
    if (others)
        frame->slots[signature->kwargs] = sw_jinja_of_dict(others);
    return true;
}

static bool bind_positional(jinja_run *run, const jinja_macro *macro,
                            const jinja_arguments *arguments, jinja_frame *frame,
                            int64_t *n_positional) {
    const jinja_signature_node *signature = &macro->node->as.macro.signature;
    int64_t n = arguments->n < signature->parameters.n ? arguments->n : signature->parameters.n;
    *n_positional = n;
    for (int64_t i = 0; i < n; i++)
        frame->slots[signature->parameters.items[i]->as.name.place.slot] = arguments->values[i];
    if (signature->varargs < 0)
        return arguments->n == n ||
               sw_jinja_fail(run, "macro '%.*s' takes not more than %d argument(s)",
                             name_bytes(macro), name_of(macro), signature->parameters.n);
    jinja_value *rest = sw_jinja_take(run, (arguments->n - n) * (int64_t)sizeof *rest);
    if (!rest)
        return false;
    for (int64_t i = n; i < arguments->n; i++)
        rest[i - n] = arguments->values[i];
    return sw_jinja_give_list(sw_jinja_list(run, rest, arguments->n - n), JINJA_TUPLE,
                              &frame->slots[signature->varargs]);
}

/* Parameters that were not given have their defaults, which may speak of those before. */
static bool bind_defaults(jinja_run *run, const jinja_signature_node *signature,
                          jinja_frame *frame) {
    int32_t n = signature->parameters.n, first_default = n - signature->defaults.n;
    for (int32_t i = 0; i < n; i++) {
        jinja_value *slot = &frame->slots[signature->parameters.items[i]->as.name.place.slot],
                    value;
        if (slot->kind != JINJA_MISSING)
            continue;
        if (i >= first_default) {
            if (!sw_jinja_evaluate(run, signature->defaults.items[i - first_default], frame,
                                   &value))
                return false;
        } else {
            const jinja_text *name = signature->parameters.items[i]->as.name.name;
            jinja_start start = sw_jinja_start(run);
            if (!sw_jinja_write_words(run, "parameter '") ||
                !sw_jinja_write(run, name->bytes, name->n_bytes) ||
                !sw_jinja_write(run, "' was not provided", 19))
                return false;
            jinja_text *hint = sw_jinja_collect(run, start);
            if (!hint || !sw_jinja_give_hint(run, hint->bytes, &value))
                return false;
        }
        *slot = value;
    }
    return true;
}

static bool run_macro(jinja_run *run, const jinja_macro *macro, const jinja_arguments *arguments) {
    const jinja_node *node = macro->node;
    const jinja_signature_node *signature = &node->as.macro.signature;
    jinja_frame local, *frame = sw_jinja_frame(run, &node->as.macro.frame, macro->outer, &local);
    int64_t n_positional;
    if (!frame || !bind_positional(run, macro, arguments, frame, &n_positional) ||
        !bind_keywords(run, macro, arguments, frame, n_positional))
        return false;
    if (signature->caller >= 0 && frame->slots[signature->caller].kind == JINJA_MISSING &&
        !sw_jinja_give_hint(run, "No caller defined", &frame->slots[signature->caller]))
        return false;
    return sw_jinja_enter_scope(run, &node->as.macro.frame.scope, frame) &&
           bind_defaults(run, signature, frame) &&
           sw_jinja_run_body(run, &node->as.macro.body, frame) == JINJA_DONE;
}

bool sw_jinja_call_macro(jinja_run *run, const jinja_macro *macro, const jinja_arguments *arguments,
                         jinja_value *out) {
    int n_stack = run->n_stack;
    jinja_start start = sw_jinja_start(run);
    bool is_done =
        sw_jinja_enter(run) && sw_jinja_spend(run, 5) && run_macro(run, macro, arguments);
    sw_jinja_leave(run);
    run->n_stack = n_stack;
    return is_done && sw_jinja_give_text(sw_jinja_collect(run, start), out);
}

bool sw_jinja_show_macro(jinja_run *run, const jinja_macro *macro) {
    if (!macro->node->as.macro.name)
        return sw_jinja_write_words(run, "<Macro anonymous>");
    return sw_jinja_write_words(run, "<Macro '") &&
           sw_jinja_write(run, name_of(macro), name_bytes(macro)) &&
           sw_jinja_write_words(run, "'>");
}

bool sw_jinja_macro_attribute(jinja_run *run, const jinja_macro *macro, const jinja_text *name,
                              jinja_value *out) {
    const jinja_signature_node *signature = &macro->node->as.macro.signature;
    if (sw_jinja_is_word(name, "name")) {
        *out = macro->node->as.macro.name
                   ? sw_jinja_of_text(macro->node->as.macro.name->as.name.name)
                   : sw_jinja_none();
    } else if (sw_jinja_is_word(name, "arguments")) {
        jinja_items names = {0};
        for (int32_t i = 0; i < signature->parameters.n; i++) {
            jinja_value parameter = sw_jinja_of_text(signature->parameters.items[i]->as.name.name);
            if (!sw_jinja_add(run, &names, &parameter))
                return false;
        }
        return sw_jinja_give_items(run, &names, JINJA_TUPLE, out);
    } else if (sw_jinja_is_word(name, "caller")) {
        *out = sw_jinja_bool(signature->caller >= 0 || signature->has_caller_parameter);
    } else if (sw_jinja_is_word(name, "catch_kwargs")) {
        *out = sw_jinja_bool(signature->kwargs >= 0);
    } else if (sw_jinja_is_word(name, "catch_varargs")) {
        *out = sw_jinja_bool(signature->varargs >= 0);
    } else if (sw_jinja_is_word(name, "explicit_caller")) {
        *out = sw_jinja_bool(signature->has_caller_parameter);
    }
    return true;
}
