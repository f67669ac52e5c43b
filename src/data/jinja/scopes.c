/* scopes.c: which variable a name is.
 *
 * Jinja makes a Python function of a template, and what its scopes mean follows from that
 * function's variables; this is the same analysis (its idtracking). A scope knows the names that it
 * sets and those that it reads and no scope around it knows. On entry the former begin unset, or
 * with the value that the scope around has (an alias); the latter are asked of the context. So a
 * loop's body begins every round anew, what an `if` sets stays, and a name that a scope sets
 * anywhere is that scope's everywhere.
 *
 * A variable is a slot: one for each function, depth of scope and name, so that scopes side by side
 * share them, as there.
 */
#include "base/integer.h"
#include "data/jinja/collection.h"
#include "data/jinja/symbols.h"
#include "data/jinja/text.h"

/* The number by which the context is asked for a name; -1: failed. */
static int32_t context_of(jinja_settler *st, jinja_text *name) {
    sw_jinja *template = st->template;
    int64_t known = (int64_t)(intptr_t)sw_jinja_look_up(&st->names, name, 0);
    if (known)
        return (int32_t)known - 1;
    if (template->n_names == st->names_capacity) {
        int64_t wider = larger(2 * st->names_capacity, 16);
        jinja_text **moved = sw_jinja_take(st->run, wider * (int64_t)sizeof *moved);
        if (!moved)
            return -1;
        if (template->n_names)
            memcpy(moved, template->names, (size_t) template->n_names * sizeof *moved);
        template->names = moved;
        st->names_capacity = wider;
    }
    template->names[template->n_names++] = name;
    return sw_jinja_put(st->run, &st->names, name, 0, (void *)(intptr_t) template->n_names)
               ? template->n_names - 1
               : -1;
}

static jinja_place place_from(const jinja_function *from, const jinja_symbol *sy) {
    jinja_place place = {.slot = sy->slot};
    for (; from && from != sy->owner; from = from->outer)
        place.hops++;
    return place;
}

/* What a scope does on entry, once it is known whole. */
static bool settle_loads(jinja_settler *st, const jinja_known *sc, jinja_scope *out) {
    int32_t n = 0;
    for (const jinja_symbol *sy = sc->first; sy; sy = sy->next)
        n += sy->has_load;
    jinja_load *loads = sw_jinja_take(st->run, n * (int64_t)sizeof *loads);
    if (!loads)
        return false;
    *out = (jinja_scope){loads, n};
    for (const jinja_symbol *sy = sc->first; sy; sy = sy->next) {
        if (!sy->has_load)
            continue;
        *loads = (jinja_load){.kind = sy->load, .slot = sy->slot};
        if (sy->load == JINJA_LOAD_ALIAS)
            loads->from = place_from(sc->function, sy->outer);
        else if (sy->load == JINJA_LOAD_CONTEXT && (loads->name = context_of(st, sy->name)) < 0)
            return false;
        loads++;
    }
    return true;
}

/* More of `settle`: is what is set here the template's own, which its blocks see? */
static bool settle(jinja_settler *st, jinja_known *sc, jinja_node *node, void *is_outermost);

static bool settle_name(jinja_settler *st, const jinja_known *sc, jinja_node *node,
                        bool is_exported) {
    const jinja_symbol *sy = sw_jinja_find_symbol(sc, node->as.name.name);
    if (!sy)
        return sw_jinja_fail_line(st->run, node->line, "'%.*s' cannot be resolved here",
                                  (int)node->as.name.name->n_bytes, node->as.name.name->bytes);
    node->as.name.place = place_from(sc->function, sy);
    if (is_exported && st->template->blocks.n)
        node->as.name.context = context_of(st, node->as.name.name);
    return st->run->status == SW_OK;
}

static bool settle_target(jinja_settler *st, const jinja_known *sc, jinja_node *target,
                          bool is_exported) {
    if (target->kind != JINJA_MAKE_TUPLE)
        return settle_name(st, sc, target, is_exported && target->kind == JINJA_NAME);
    for (int32_t i = 0; i < target->as.list.n; i++)
        if (!settle_target(st, sc, target->as.list.items[i], is_exported))
            return false;
    return true;
}

static int32_t count_names(const jinja_node *target) {
    int32_t n = target->kind != JINJA_MAKE_TUPLE;
    for (int32_t i = 0; target->kind == JINJA_MAKE_TUPLE && i < target->as.list.n; i++)
        n += count_names(target->as.list.items[i]);
    return n;
}

static void list_slots(const jinja_known *sc, const jinja_node *target, int32_t **slots) {
    if (target->kind == JINJA_NAME)
        *(*slots)++ = sw_jinja_find_symbol(sc, target->as.name.name)->slot;
    for (int32_t i = 0; target->kind == JINJA_MAKE_TUPLE && i < target->as.list.n; i++)
        list_slots(sc, target->as.list.items[i], slots);
}

static bool settle_loop_test(jinja_settler *st, jinja_known *sc, jinja_node *node) {
    jinja_known *inner = sw_jinja_make_known(st, sc, sw_jinja_make_function(st, sc->function));
    if (!inner || !sw_jinja_store_target(st, inner, node->as.loop.target, true) ||
        !sw_jinja_analyse(st, inner, node->as.loop.test, NULL) ||
        !settle_loads(st, inner, &node->as.loop.test_body.scope) ||
        !settle(st, inner, node->as.loop.test, NULL))
        return false;
    int32_t *slots =
        sw_jinja_take(st->run, count_names(node->as.loop.target) * (int64_t)sizeof *slots);
    if (!slots)
        return false;
    node->as.loop.test_slots = slots;
    list_slots(inner, node->as.loop.target, &slots);
    node->as.loop.test_body.n_slots = inner->function->n_slots;
    return true;
}

static void capture(jinja_function *of) {
    for (; of && !of->is_captured; of = of->outer)
        of->is_captured = true;
}

static bool settle_for(jinja_settler *st, jinja_known *sc, jinja_node *node) {
    bool is_extended = node->as.loop.is_recursive;
    jinja_function *of =
        node->as.loop.is_recursive ? sw_jinja_make_function(st, sc->function) : sc->function;
    jinja_known *inner = sw_jinja_make_known(st, sc, of),
                *otherwise = sw_jinja_make_known(st, sc, of);
    if (!inner || !otherwise ||
        (!is_extended && !sw_jinja_reads(st, &node->as.loop.body, "loop", &is_extended)))
        return false;
    if (is_extended) {
        jinja_value key = sw_jinja_of_text(sw_jinja_words(st->run, "loop"));
        const jinja_value *word =
            key.as.text ? sw_jinja_get_text(st->template->words, key.as.text) : NULL;
        jinja_text *name = word ? word->as.text : key.as.text;
        if (!name || !sw_jinja_declare(st, inner, name))
            return false;
        node->as.loop.loop_slot = sw_jinja_find_here(inner, name)->slot;
    }
    if (node->as.loop.is_recursive)
        capture(sc->function);
    if (!sw_jinja_store_target(st, inner, node->as.loop.target, true) ||
        !sw_jinja_each(st, inner, &node->as.loop.body, sw_jinja_analyse, NULL) ||
        !sw_jinja_each(st, otherwise, &node->as.loop.otherwise, sw_jinja_analyse, NULL) ||
        !settle_loads(st, inner, &node->as.loop.scope) ||
        !settle_loads(st, otherwise, &node->as.loop.otherwise_scope))
        return false;
    if ((node->as.loop.test && !settle_loop_test(st, sc, node)) ||
        !settle(st, sc, node->as.loop.iterated, NULL) ||
        !settle_target(st, inner, node->as.loop.target, false) ||
        !sw_jinja_each(st, inner, &node->as.loop.body, settle, NULL) ||
        !sw_jinja_each(st, otherwise, &node->as.loop.otherwise, settle, NULL))
        return false;
    node->as.loop.body_of_itself =
        (jinja_body){.n_slots = of->n_slots, .is_captured = of->is_captured};
    return true;
}

/* A parameter that a macro has when its body speaks of it; -1: it does not. */
static bool settle_special(jinja_settler *st, jinja_known *inner, jinja_node *node,
                           const char *word, int32_t *slot) {
    bool is_read, is_parameter = false;
    *slot = -1;
    if (!sw_jinja_reads(st, &node->as.macro.body, word, &is_read))
        return false;
    const jinja_nodes *parameters = &node->as.macro.signature.parameters;
    for (int32_t i = 0; i < parameters->n; i++)
        is_parameter = is_parameter || sw_jinja_is_word(parameters->items[i]->as.name.name, word);
    bool is_caller = word[0] == 'c';
    if (is_caller)
        node->as.macro.signature.has_caller_parameter = is_parameter;
    if (!is_read)
        return true;
    const jinja_value *name = sw_jinja_get_word(st->template->words, word);
    if (is_parameter && is_caller) {
        int32_t n_without = parameters->n - node->as.macro.signature.defaults.n;
        for (int32_t i = 0; i < n_without; i++)
            if (sw_jinja_is_word(parameters->items[i]->as.name.name, word))
                return sw_jinja_fail_line(
                    st->run, node->line,
                    "the parameter 'caller' of a macro must have a default, or be left out");
    }
    if (is_parameter || !name)
        return true;
    if (!sw_jinja_declare(st, inner, name->as.text))
        return false;
    *slot = sw_jinja_find_here(inner, name->as.text)->slot;
    return true;
}

static bool settle_macro(jinja_settler *st, jinja_known *sc, jinja_node *node) {
    jinja_signature_node *signature = &node->as.macro.signature;
    jinja_known *inner = sw_jinja_make_known(st, sc, sw_jinja_make_function(st, sc->function));
    if (!inner || !settle_special(st, inner, node, "caller", &signature->caller) ||
        !settle_special(st, inner, node, "kwargs", &signature->kwargs) ||
        !settle_special(st, inner, node, "varargs", &signature->varargs))
        return false;
    for (int32_t i = 0; i < signature->parameters.n; i++)
        if (!sw_jinja_declare(st, inner, signature->parameters.items[i]->as.name.name))
            return false;
    if (!sw_jinja_each(st, inner, &signature->defaults, sw_jinja_analyse, NULL) ||
        !sw_jinja_each(st, inner, &node->as.macro.body, sw_jinja_analyse, NULL) ||
        !settle_loads(st, inner, &node->as.macro.frame.scope))
        return false;
    for (int32_t i = 0; i < signature->parameters.n; i++)
        if (!settle_name(st, inner, signature->parameters.items[i], false))
            return false;
    if (!sw_jinja_each(st, inner, &signature->defaults, settle, NULL) ||
        !sw_jinja_each(st, inner, &node->as.macro.body, settle, NULL))
        return false;
    node->as.macro.frame.n_slots = inner->function->n_slots;
    node->as.macro.frame.is_captured = inner->function->is_captured;
    return true;
}

static bool settle_block(jinja_settler *st, jinja_node *node) {
    jinja_known *inner = sw_jinja_make_known(st, NULL, sw_jinja_make_function(st, NULL));
    if (!inner || !sw_jinja_each(st, inner, &node->as.macro.body, sw_jinja_analyse, NULL) ||
        !settle_loads(st, inner, &node->as.macro.frame.scope) ||
        !sw_jinja_each(st, inner, &node->as.macro.body, settle, NULL))
        return false;
    node->as.macro.frame.n_slots = inner->function->n_slots;
    node->as.macro.frame.is_captured = true;
    return true;
}

static bool settle_with(jinja_settler *st, jinja_known *sc, jinja_node *node) {
    jinja_known *inner = sw_jinja_make_known(st, sc, sc->function);
    if (!inner)
        return false;
    for (int32_t i = 0; i < node->as.with.targets.n; i++)
        if (!sw_jinja_store_target(st, inner, node->as.with.targets.items[i], true))
            return false;
    if (!sw_jinja_each(st, inner, &node->as.with.body, sw_jinja_analyse, NULL) ||
        !settle_loads(st, inner, &node->as.with.scope) ||
        !sw_jinja_each(st, sc, &node->as.with.values, settle, NULL))
        return false;
    for (int32_t i = 0; i < node->as.with.targets.n; i++)
        if (!settle_target(st, inner, node->as.with.targets.items[i], false))
            return false;
    return sw_jinja_each(st, inner, &node->as.with.body, settle, NULL);
}

/* A set block, a filter block, a scope: a body, and a filter that is read in it. */
static bool settle_captured(jinja_settler *st, jinja_known *sc, const jinja_nodes *body,
                            jinja_node *filter, jinja_scope *out) {
    jinja_known *inner = sw_jinja_make_known(st, sc, sc->function);
    return inner && sw_jinja_each(st, inner, body, sw_jinja_analyse, NULL) &&
           sw_jinja_one(st, inner, filter, sw_jinja_analyse, NULL) &&
           settle_loads(st, inner, out) && sw_jinja_each(st, inner, body, settle, NULL) &&
           sw_jinja_one(st, inner, filter, settle, NULL);
}

static bool settle(jinja_settler *st, jinja_known *sc, jinja_node *node, void *is_outermost) {
    switch ((jinja_node_kind)node->kind) {
    case JINJA_NAME:
        return settle_name(st, sc, node, false);
    case JINJA_FOR:
        return settle_for(st, sc, node);
    case JINJA_IF:
        return settle(st, sc, node->as.condition.test, NULL) &&
               sw_jinja_each(st, sc, &node->as.condition.body, settle, is_outermost) &&
               sw_jinja_each(st, sc, &node->as.condition.elifs, settle, is_outermost) &&
               sw_jinja_each(st, sc, &node->as.condition.otherwise, settle, is_outermost);
    case JINJA_SET:
        return settle(st, sc, node->as.set.value, NULL) &&
               settle_target(st, sc, node->as.set.target, is_outermost != NULL);
    case JINJA_SET_BLOCK:
        return settle_captured(st, sc, &node->as.set.body, node->as.set.filter,
                               &node->as.set.scope) &&
               settle_target(st, sc, node->as.set.target, is_outermost != NULL);
    case JINJA_WITH:
        return settle_with(st, sc, node);
    case JINJA_DEFINE_MACRO:
        capture(sc->function);
        return settle_macro(st, sc, node) &&
               settle_name(st, sc, node->as.macro.name, is_outermost != NULL);
    case JINJA_CALL_BLOCK:
        capture(sc->function);
        return settle_macro(st, sc, node) && settle(st, sc, node->as.macro.call, NULL);
    case JINJA_GENERATION:
        return settle_macro(st, sc, node);
    case JINJA_FILTER_BLOCK:
        return settle_captured(st, sc, &node->as.filtered.body, node->as.filtered.filter,
                               &node->as.filtered.scope);
    case JINJA_SCOPE:
        return settle_captured(st, sc, &node->as.filtered.body, NULL, &node->as.filtered.scope);
    case JINJA_BLOCK:
        return settle_block(st, node);
    default:
        return sw_jinja_each_part(st, sc, node, settle, NULL);
    }
}

bool sw_jinja_settle_scopes(jinja_run *run, sw_jinja *template) {
    jinja_settler st = {.run = run, .template = template};
    jinja_function *of = sw_jinja_make_function(&st, NULL);
    jinja_known *root = sw_jinja_make_known(&st, NULL, of);
    if (!root || !sw_jinja_each(&st, root, &template->body, sw_jinja_analyse, NULL) ||
        !settle_loads(&st, root, &template->frame.scope) ||
        !sw_jinja_each(&st, root, &template->body, settle, template))
        return false;
    template->frame.n_slots = of->n_slots;
    return true;
}
