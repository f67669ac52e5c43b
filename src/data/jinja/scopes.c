/* scopes.c: which variable a name is.
 *
 * Jinja makes a Python function of a template, and what its scopes mean follows from that function's variables; this is the same
 * analysis (its idtracking). A scope knows the names that it sets and those that it reads and no scope around it knows. On entry
 * the former begin unset, or with the value that the scope around has (an alias); the latter are asked of the context. So a
 * loop's body begins every round anew, what an `if` sets stays, and a name that a scope sets anywhere is that scope's everywhere.
 *
 * A variable is a slot: one for each function, depth of scope and name, so that scopes side by side share them, as there.
 */
#include "base/integer.h"
#include "data/jinja/collection.h"
#include "data/jinja/syntax.h"
#include "data/jinja/text.h"

/* A table of what belongs to a pair of pointer and number. */
typedef struct cell {
    const void *key;
    int64_t number;
    void *value;
} cell;
typedef struct table {
    cell *cells;
    int64_t n, size;
} table;

typedef struct function {
    struct function *outer;
    table slots; /* by name and level */
    int32_t n_slots;
    bool is_captured;
} function;

/* A name as one scope knows it. */
typedef struct symbol {
    struct symbol *next; /* in order of appearance */
    jinja_text *name;
    function *owner;
    int32_t slot; /* -1: only known to be set; which slot it has, the scope below this branch knows */
    bool is_stored, has_load, is_new;
    jinja_load_kind load;
    const struct symbol *outer; /* of an alias */
} symbol;

typedef struct scope {
    struct scope *parent; /* the scope around it */
    struct scope *base;   /* in the branch of an if: what it adds to */
    function *function;
    int level;
    table symbols; /* by name */
    symbol *first, **last;
} scope;

typedef struct settler {
    jinja_run *run;
    sw_jinja *template;
    table names; /* of the context */
    int64_t names_capacity;
} settler;

static cell *place_of(const table *of, const void *key, int64_t number) {
    uint64_t hash = ((uint64_t)(uintptr_t)key >> 4) * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)number * 0x85EBCA6B;
    for (int64_t at = (int64_t)(hash >> 20) & (of->size - 1);; at = (at + 1) & (of->size - 1))
        if (!of->cells[at].key || (of->cells[at].key == key && of->cells[at].number == number))
            return &of->cells[at];
}

static void *look_up(const table *of, const void *key, int64_t number) {
    return of->size ? place_of(of, key, number)->value : NULL;
}

static bool put(jinja_run *run, table *of, const void *key, int64_t number, void *value) {
    if (2 * (of->n + 1) > of->size) {
        table wider = {.n = of->n, .size = larger(2 * of->size, 16)};
        wider.cells = sw_jinja_take(run, wider.size * (int64_t)sizeof *wider.cells);
        if (!wider.cells)
            return false;
        memset(wider.cells, 0, (size_t)wider.size * sizeof *wider.cells);
        for (int64_t i = 0; i < of->size; i++)
            if (of->cells[i].key)
                *place_of(&wider, of->cells[i].key, of->cells[i].number) = of->cells[i];
        *of = wider;
    }
    cell *at = place_of(of, key, number);
    of->n += at->key == NULL;
    *at = (cell){key, number, value};
    return true;
}

static function *make_function(settler *st, function *outer) {
    function *made = sw_jinja_take(st->run, sizeof *made);
    if (made)
        *made = (function){.outer = outer};
    return made;
}

static scope *make_scope(settler *st, scope *parent, function *of) {
    scope *made = of ? sw_jinja_take(st->run, sizeof *made) : NULL;
    if (!made)
        return NULL;
    *made = (scope){.parent = parent, .function = of, .level = parent ? parent->level + 1 : 0};
    made->last = &made->first;
    return made;
}

static scope *make_branch(settler *st, scope *base) {
    scope *made = make_scope(st, base->parent, base->function);
    if (made) {
        made->base = base;
        made->level = base->level;
    }
    return made;
}

/* The symbol of a name in this scope itself, made where there is none. */
static symbol *own(settler *st, scope *sc, jinja_text *name) {
    symbol *found = look_up(&sc->symbols, name, 0);
    if (found)
        return found;
    found = sw_jinja_take(st->run, sizeof *found);
    if (!found || !put(st->run, &sc->symbols, name, 0, found))
        return NULL;
    *found = (symbol){.name = name, .slot = -1};
    *sc->last = found;
    sc->last = &found->next;
    return found;
}

/* The variable that a name is in this scope, without those around it; NULL: it knows none. */
static symbol *find_here(const scope *sc, const jinja_text *name) {
    for (; sc; sc = sc->base) {
        symbol *found = look_up(&sc->symbols, name, 0);
        if (found && found->slot >= 0)
            return found;
    }
    return NULL;
}

static symbol *find(const scope *sc, const jinja_text *name) {
    for (; sc; sc = sc->parent) {
        symbol *found = find_here(sc, name);
        if (found)
            return found;
    }
    return NULL;
}

static bool define(settler *st, scope *sc, symbol *sy, jinja_load_kind load, const symbol *outer) {
    function *owner = sc->function;
    int64_t known = (int64_t)(intptr_t)look_up(&owner->slots, sy->name, sc->level);
    if (known == 0) {
        known = ++owner->n_slots;
        if (!put(st->run, &owner->slots, sy->name, sc->level, (void *)(intptr_t)known))
            return false;
    }
    sy->owner = owner;
    sy->slot = (int32_t)known - 1;
    sy->has_load = true;
    sy->load = load;
    sy->outer = outer;
    return sw_jinja_spend(st->run, 1);
}

static bool store(settler *st, scope *sc, jinja_text *name) {
    symbol *sy = own(st, sc, name);
    if (!sy)
        return false;
    sy->is_stored = true;
    if (find_here(sc, name))
        return true;
    const symbol *outer = sc->parent ? find(sc->parent, name) : NULL;
    return define(st, sc, sy, outer ? JINJA_LOAD_ALIAS : JINJA_LOAD_UNSET, outer);
}

static bool declare(settler *st, scope *sc, jinja_text *name) {
    symbol *sy = own(st, sc, name);
    if (!sy)
        return false;
    sy->is_stored = true;
    return define(st, sc, sy, JINJA_LOAD_PARAMETER, NULL);
}

static bool load(settler *st, scope *sc, jinja_text *name) {
    if (find(sc, name))
        return true;
    symbol *sy = own(st, sc, name);
    return sy && define(st, sc, sy, JINJA_LOAD_CONTEXT, NULL);
}

/* Names that are assigned to. */
static bool store_target(settler *st, scope *sc, const jinja_node *target, bool is_parameter) {
    if (target->kind == JINJA_NAMESPACE_PART)
        return load(st, sc, target->as.name.name);
    if (target->kind == JINJA_NAME)
        return is_parameter ? declare(st, sc, target->as.name.name) : store(st, sc, target->as.name.name);
    for (int32_t i = 0; i < target->as.list.n; i++)
        if (!store_target(st, sc, target->as.list.items[i], is_parameter))
            return false;
    return true;
}

/* Go over what stands directly in a node: expressions and, with it, statements of the same scope. */
typedef bool visitor(settler *st, scope *sc, jinja_node *node, void *more);

static bool each(settler *st, scope *sc, const jinja_nodes *nodes, visitor *visit, void *more) {
    for (int32_t i = 0; i < nodes->n; i++)
        if (!visit(st, sc, nodes->items[i], more))
            return false;
    return true;
}

static bool one(settler *st, scope *sc, jinja_node *node, visitor *visit, void *more) {
    return !node || visit(st, sc, node, more);
}

/* The parts of an expression. */
static bool each_part(settler *st, scope *sc, jinja_node *node, visitor *visit, void *more) {
    switch ((jinja_node_kind)node->kind) {
    case JINJA_MAKE_TUPLE:
    case JINJA_MAKE_LIST:
    case JINJA_MAKE_DICT:
    case JINJA_CONCAT:
    case JINJA_OUTPUT:
        return each(st, sc, &node->as.list, visit, more);
    case JINJA_AND:
    case JINJA_OR:
    case JINJA_NOT:
    case JINJA_BINARY:
    case JINJA_NEGATIVE:
    case JINJA_POSITIVE:
        return visit(st, sc, node->as.binary.left, more) && one(st, sc, node->as.binary.right, visit, more);
    case JINJA_COMPARE:
        return visit(st, sc, node->as.compare.first, more) && each(st, sc, &node->as.compare.others, visit, more);
    case JINJA_ATTRIBUTE:
        return visit(st, sc, node->as.item.owner, more);
    case JINJA_ITEM:
        return visit(st, sc, node->as.item.owner, more) && visit(st, sc, node->as.item.index, more);
    case JINJA_SLICE:
        return one(st, sc, node->as.slice.start, visit, more) && one(st, sc, node->as.slice.stop, visit, more) &&
               one(st, sc, node->as.slice.step, visit, more);
    case JINJA_CALL:
    case JINJA_FILTER:
    case JINJA_TEST: {
        const jinja_call_parts *parts = &node->as.call.parts;
        return one(st, sc, node->as.call.called, visit, more) && each(st, sc, &parts->arguments, visit, more) &&
               each(st, sc, &parts->values, visit, more) && one(st, sc, parts->more, visit, more) &&
               one(st, sc, parts->named_more, visit, more);
    }
    case JINJA_CONDITIONAL:
        return visit(st, sc, node->as.conditional.test, more) && visit(st, sc, node->as.conditional.yes, more) &&
               one(st, sc, node->as.conditional.no, visit, more);
    default:
        return true;
    }
}

static bool analyse(settler *st, scope *sc, jinja_node *node, void *more);

static bool is_stored_here(const scope *sc, const jinja_text *name) {
    for (; sc; sc = sc->base) {
        const symbol *known = look_up(&sc->symbols, name, 0);
        if (known && known->is_stored)
            return true;
    }
    return false;
}

/* What branches add to the scope: all that any of them knows; what they set and the scope did not, is known on entry from
 * outside. */
static bool merge_branches(settler *st, scope *sc, scope *const branches[3]) {
    for (int i = 0; i < 3; i++) /* before the scope itself is said to set them */
        for (symbol *from = branches[i]->first; from; from = from->next)
            from->is_new = from->is_stored && !is_stored_here(sc, from->name);
    for (int i = 0; i < 3; i++)
        for (const symbol *from = branches[i]->first; from; from = from->next) {
            symbol *to = own(st, sc, from->name);
            if (!to)
                return false;
            to->is_stored = to->is_stored || from->is_stored;
            if (from->slot >= 0) {
                to->owner = from->owner;
                to->slot = from->slot;
                to->has_load = true;
                to->load = from->load;
                to->outer = from->outer;
            }
        }
    for (int i = 0; i < 3; i++)
        for (const symbol *from = branches[i]->first; from; from = from->next) {
            const symbol *outer = from->is_new && sc->parent ? find(sc->parent, from->name) : NULL;
            if (from->is_new && !define(st, sc, own(st, sc, from->name), outer ? JINJA_LOAD_ALIAS : JINJA_LOAD_CONTEXT, outer))
                return false;
        }
    return true;
}

static bool analyse_if(settler *st, scope *sc, jinja_node *node) {
    if (!analyse(st, sc, node->as.condition.test, NULL))
        return false;
    scope *branches[3];
    for (int i = 0; i < 3; i++)
        if (!(branches[i] = make_branch(st, sc)))
            return false;
    return each(st, branches[0], &node->as.condition.body, analyse, NULL) &&
           each(st, branches[1], &node->as.condition.elifs, analyse, NULL) &&
           each(st, branches[2], &node->as.condition.otherwise, analyse, NULL) && merge_branches(st, sc, branches);
}

/* What a statement or expression of this scope reads and sets; inner scopes are looked at when they come. */
static bool analyse(settler *st, scope *sc, jinja_node *node, void *more) {
    switch ((jinja_node_kind)node->kind) {
    case JINJA_NAME:
        return load(st, sc, node->as.name.name);
    case JINJA_FOR:
        return analyse(st, sc, node->as.loop.iterated, more);
    case JINJA_IF:
        return analyse_if(st, sc, node);
    case JINJA_SET:
        return analyse(st, sc, node->as.set.value, more) && store_target(st, sc, node->as.set.target, false);
    case JINJA_SET_BLOCK:
        return store_target(st, sc, node->as.set.target, false);
    case JINJA_WITH:
        return each(st, sc, &node->as.with.values, analyse, more);
    case JINJA_DEFINE_MACRO:
        return store(st, sc, node->as.macro.name->as.name.name);
    case JINJA_CALL_BLOCK:
        return analyse(st, sc, node->as.macro.call, more);
    case JINJA_FILTER_BLOCK:
        return analyse(st, sc, node->as.filtered.filter, more);
    default:
        return each_part(st, sc, node, analyse, more);
    }
}

/* Does a body read `name` before it gives it a meaning of its own? Goes into inner scopes as well, but not into blocks. */
typedef struct search {
    const char *name;
    bool is_over, is_found;
} search;

static void search_target(const jinja_node *target, search *se) {
    if (target->kind == JINJA_NAME && sw_jinja_is_word(target->as.name.name, se->name))
        se->is_over = true;
    for (int32_t i = 0; target->kind == JINJA_MAKE_TUPLE && i < target->as.list.n; i++)
        search_target(target->as.list.items[i], se);
}

static bool search_node(settler *st, scope *sc, jinja_node *node, void *more) {
    search *se = more;
    if (se->is_over || se->is_found || !sw_jinja_spend(st->run, 1))
        return st->run->status == SW_OK;
    switch ((jinja_node_kind)node->kind) {
    case JINJA_NAME:
        se->is_found = sw_jinja_is_word(node->as.name.name, se->name);
        return true;
    case JINJA_FOR:
        search_target(node->as.loop.target, se);
        return search_node(st, sc, node->as.loop.iterated, se) && each(st, sc, &node->as.loop.body, search_node, se) &&
               each(st, sc, &node->as.loop.otherwise, search_node, se) && one(st, sc, node->as.loop.test, search_node, se);
    case JINJA_IF:
        return search_node(st, sc, node->as.condition.test, se) && each(st, sc, &node->as.condition.body, search_node, se) &&
               each(st, sc, &node->as.condition.elifs, search_node, se) &&
               each(st, sc, &node->as.condition.otherwise, search_node, se);
    case JINJA_SET:
    case JINJA_SET_BLOCK:
        search_target(node->as.set.target, se);
        return one(st, sc, node->as.set.value, search_node, se) && one(st, sc, node->as.set.filter, search_node, se) &&
               each(st, sc, &node->as.set.body, search_node, se);
    case JINJA_WITH:
        for (int32_t i = 0; i < node->as.with.targets.n; i++)
            search_target(node->as.with.targets.items[i], se);
        return each(st, sc, &node->as.with.values, search_node, se) && each(st, sc, &node->as.with.body, search_node, se);
    case JINJA_DEFINE_MACRO:
    case JINJA_CALL_BLOCK:
    case JINJA_GENERATION:
        if (!one(st, sc, node->as.macro.call, search_node, se))
            return false;
        for (int32_t i = 0; i < node->as.macro.signature.parameters.n; i++)
            search_target(node->as.macro.signature.parameters.items[i], se);
        return each(st, sc, &node->as.macro.signature.defaults, search_node, se) &&
               each(st, sc, &node->as.macro.body, search_node, se);
    case JINJA_FILTER_BLOCK:
    case JINJA_SCOPE:
        return each(st, sc, &node->as.filtered.body, search_node, se) && one(st, sc, node->as.filtered.filter, search_node, se);
    default:
        return each_part(st, sc, node, search_node, se);
    }
}

static bool reads(settler *st, const jinja_nodes *body, const char *name, bool *is_read) {
    search se = {.name = name};
    bool is_done = each(st, NULL, body, search_node, &se);
    *is_read = se.is_found;
    return is_done;
}

/* The number by which the context is asked for a name; -1: failed. */
static int32_t context_of(settler *st, jinja_text *name) {
    sw_jinja *template = st->template;
    int64_t known = (int64_t)(intptr_t)look_up(&st->names, name, 0);
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
    return put(st->run, &st->names, name, 0, (void *)(intptr_t) template->n_names) ? template->n_names - 1 : -1;
}

static jinja_place place_from(const function *from, const symbol *sy) {
    jinja_place place = {.slot = sy->slot};
    for (; from && from != sy->owner; from = from->outer)
        place.hops++;
    return place;
}

/* What a scope does on entry, once it is known whole. */
static bool settle_loads(settler *st, const scope *sc, jinja_scope *out) {
    int32_t n = 0;
    for (const symbol *sy = sc->first; sy; sy = sy->next)
        n += sy->has_load;
    jinja_load *loads = sw_jinja_take(st->run, n * (int64_t)sizeof *loads);
    if (!loads)
        return false;
    *out = (jinja_scope){loads, n};
    for (const symbol *sy = sc->first; sy; sy = sy->next) {
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
static bool settle(settler *st, scope *sc, jinja_node *node, void *is_outermost);

static bool settle_name(settler *st, const scope *sc, jinja_node *node, bool is_exported) {
    const symbol *sy = find(sc, node->as.name.name);
    if (!sy)
        return sw_jinja_fail_line(st->run, node->line, "'%.*s' cannot be resolved here", (int)node->as.name.name->n_bytes,
                                  node->as.name.name->bytes);
    node->as.name.place = place_from(sc->function, sy);
    if (is_exported && st->template->blocks.n)
        node->as.name.context = context_of(st, node->as.name.name);
    return st->run->status == SW_OK;
}

static bool settle_target(settler *st, const scope *sc, jinja_node *target, bool is_exported) {
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

static void list_slots(const scope *sc, const jinja_node *target, int32_t **slots) {
    if (target->kind == JINJA_NAME)
        *(*slots)++ = find(sc, target->as.name.name)->slot;
    for (int32_t i = 0; target->kind == JINJA_MAKE_TUPLE && i < target->as.list.n; i++)
        list_slots(sc, target->as.list.items[i], slots);
}

static bool settle_loop_test(settler *st, scope *sc, jinja_node *node) {
    scope *inner = make_scope(st, sc, make_function(st, sc->function));
    if (!inner || !store_target(st, inner, node->as.loop.target, true) || !analyse(st, inner, node->as.loop.test, NULL) ||
        !settle_loads(st, inner, &node->as.loop.test_body.scope) || !settle(st, inner, node->as.loop.test, NULL))
        return false;
    int32_t *slots = sw_jinja_take(st->run, count_names(node->as.loop.target) * (int64_t)sizeof *slots);
    if (!slots)
        return false;
    node->as.loop.test_slots = slots;
    list_slots(inner, node->as.loop.target, &slots);
    node->as.loop.test_body.n_slots = inner->function->n_slots;
    return true;
}

static void capture(function *of) {
    for (; of && !of->is_captured; of = of->outer)
        of->is_captured = true;
}

static bool settle_for(settler *st, scope *sc, jinja_node *node) {
    bool is_extended = node->as.loop.is_recursive;
    function *of = node->as.loop.is_recursive ? make_function(st, sc->function) : sc->function;
    scope *inner = make_scope(st, sc, of), *otherwise = make_scope(st, sc, of);
    if (!inner || !otherwise || (!is_extended && !reads(st, &node->as.loop.body, "loop", &is_extended)))
        return false;
    if (is_extended) {
        jinja_value key = sw_jinja_of_text(sw_jinja_words(st->run, "loop"));
        const jinja_value *word = key.as.text ? sw_jinja_get_text(st->template->words, key.as.text) : NULL;
        jinja_text *name = word ? word->as.text : key.as.text;
        if (!name || !declare(st, inner, name))
            return false;
        node->as.loop.loop_slot = find_here(inner, name)->slot;
    }
    if (node->as.loop.is_recursive)
        capture(sc->function);
    if (!store_target(st, inner, node->as.loop.target, true) || !each(st, inner, &node->as.loop.body, analyse, NULL) ||
        !each(st, otherwise, &node->as.loop.otherwise, analyse, NULL) || !settle_loads(st, inner, &node->as.loop.scope) ||
        !settle_loads(st, otherwise, &node->as.loop.otherwise_scope))
        return false;
    if ((node->as.loop.test && !settle_loop_test(st, sc, node)) || !settle(st, sc, node->as.loop.iterated, NULL) ||
        !settle_target(st, inner, node->as.loop.target, false) || !each(st, inner, &node->as.loop.body, settle, NULL) ||
        !each(st, otherwise, &node->as.loop.otherwise, settle, NULL))
        return false;
    node->as.loop.body_of_itself = (jinja_body){.n_slots = of->n_slots, .is_captured = of->is_captured};
    return true;
}

/* A parameter that a macro has when its body speaks of it; -1: it does not. */
static bool settle_special(settler *st, scope *inner, jinja_node *node, const char *word, int32_t *slot) {
    bool is_read, is_parameter = false;
    *slot = -1;
    if (!reads(st, &node->as.macro.body, word, &is_read))
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
                return sw_jinja_fail_line(st->run, node->line,
                                          "the parameter 'caller' of a macro must have a default, or be left out");
    }
    if (is_parameter || !name)
        return true;
    if (!declare(st, inner, name->as.text))
        return false;
    *slot = find_here(inner, name->as.text)->slot;
    return true;
}

static bool settle_macro(settler *st, scope *sc, jinja_node *node) {
    jinja_signature_node *signature = &node->as.macro.signature;
    scope *inner = make_scope(st, sc, make_function(st, sc->function));
    if (!inner || !settle_special(st, inner, node, "caller", &signature->caller) ||
        !settle_special(st, inner, node, "kwargs", &signature->kwargs) ||
        !settle_special(st, inner, node, "varargs", &signature->varargs))
        return false;
    for (int32_t i = 0; i < signature->parameters.n; i++)
        if (!declare(st, inner, signature->parameters.items[i]->as.name.name))
            return false;
    if (!each(st, inner, &signature->defaults, analyse, NULL) || !each(st, inner, &node->as.macro.body, analyse, NULL) ||
        !settle_loads(st, inner, &node->as.macro.frame.scope))
        return false;
    for (int32_t i = 0; i < signature->parameters.n; i++)
        if (!settle_name(st, inner, signature->parameters.items[i], false))
            return false;
    if (!each(st, inner, &signature->defaults, settle, NULL) || !each(st, inner, &node->as.macro.body, settle, NULL))
        return false;
    node->as.macro.frame.n_slots = inner->function->n_slots;
    node->as.macro.frame.is_captured = inner->function->is_captured;
    return true;
}

static bool settle_block(settler *st, jinja_node *node) {
    scope *inner = make_scope(st, NULL, make_function(st, NULL));
    if (!inner || !each(st, inner, &node->as.macro.body, analyse, NULL) ||
        !settle_loads(st, inner, &node->as.macro.frame.scope) || !each(st, inner, &node->as.macro.body, settle, NULL))
        return false;
    node->as.macro.frame.n_slots = inner->function->n_slots;
    node->as.macro.frame.is_captured = true;
    return true;
}

static bool settle_with(settler *st, scope *sc, jinja_node *node) {
    scope *inner = make_scope(st, sc, sc->function);
    if (!inner)
        return false;
    for (int32_t i = 0; i < node->as.with.targets.n; i++)
        if (!store_target(st, inner, node->as.with.targets.items[i], true))
            return false;
    if (!each(st, inner, &node->as.with.body, analyse, NULL) || !settle_loads(st, inner, &node->as.with.scope) ||
        !each(st, sc, &node->as.with.values, settle, NULL))
        return false;
    for (int32_t i = 0; i < node->as.with.targets.n; i++)
        if (!settle_target(st, inner, node->as.with.targets.items[i], false))
            return false;
    return each(st, inner, &node->as.with.body, settle, NULL);
}

/* A set block, a filter block, a scope: a body, and a filter that is read in it. */
static bool settle_captured(settler *st, scope *sc, const jinja_nodes *body, jinja_node *filter, jinja_scope *out) {
    scope *inner = make_scope(st, sc, sc->function);
    return inner && each(st, inner, body, analyse, NULL) && one(st, inner, filter, analyse, NULL) &&
           settle_loads(st, inner, out) && each(st, inner, body, settle, NULL) && one(st, inner, filter, settle, NULL);
}

static bool settle(settler *st, scope *sc, jinja_node *node, void *is_outermost) {
    switch ((jinja_node_kind)node->kind) {
    case JINJA_NAME:
        return settle_name(st, sc, node, false);
    case JINJA_FOR:
        return settle_for(st, sc, node);
    case JINJA_IF:
        return settle(st, sc, node->as.condition.test, NULL) && each(st, sc, &node->as.condition.body, settle, is_outermost) &&
               each(st, sc, &node->as.condition.elifs, settle, is_outermost) &&
               each(st, sc, &node->as.condition.otherwise, settle, is_outermost);
    case JINJA_SET:
        return settle(st, sc, node->as.set.value, NULL) && settle_target(st, sc, node->as.set.target, is_outermost != NULL);
    case JINJA_SET_BLOCK:
        return settle_captured(st, sc, &node->as.set.body, node->as.set.filter, &node->as.set.scope) &&
               settle_target(st, sc, node->as.set.target, is_outermost != NULL);
    case JINJA_WITH:
        return settle_with(st, sc, node);
    case JINJA_DEFINE_MACRO:
        capture(sc->function);
        return settle_macro(st, sc, node) && settle_name(st, sc, node->as.macro.name, is_outermost != NULL);
    case JINJA_CALL_BLOCK:
        capture(sc->function);
        return settle_macro(st, sc, node) && settle(st, sc, node->as.macro.call, NULL);
    case JINJA_GENERATION:
        return settle_macro(st, sc, node);
    case JINJA_FILTER_BLOCK:
        return settle_captured(st, sc, &node->as.filtered.body, node->as.filtered.filter, &node->as.filtered.scope);
    case JINJA_SCOPE:
        return settle_captured(st, sc, &node->as.filtered.body, NULL, &node->as.filtered.scope);
    case JINJA_BLOCK:
        return settle_block(st, node);
    default:
        return each_part(st, sc, node, settle, NULL);
    }
}

bool sw_jinja_settle_scopes(jinja_run *run, sw_jinja *template) {
    settler st = {.run = run, .template = template};
    function *of = make_function(&st, NULL);
    scope *root = make_scope(&st, NULL, of);
    if (!root || !each(&st, root, &template->body, analyse, NULL) || !settle_loads(&st, root, &template->frame.scope) ||
        !each(&st, root, &template->body, settle, template))
        return false;
    template->frame.n_slots = of->n_slots;
    return true;
}
