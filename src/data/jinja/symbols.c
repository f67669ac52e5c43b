/* symbols.c: what scopes know of names while a template is read: tables by name, and how a name
 * that is set or read gets its place. */
#include "data/jinja/symbols.h"

#include "base/integer.h"
#include "data/jinja/text.h"

static jinja_cell *place_of(const jinja_table *of, const void *key, int64_t number) {
    uint64_t hash = ((uint64_t)(uintptr_t)key >> 4) * UINT64_C(0x9E3779B97F4A7C15) +
                    (uint64_t)number * 0x85EBCA6B;
    for (int64_t at = (int64_t)(hash >> 20) & (of->size - 1);; at = (at + 1) & (of->size - 1))
        if (!of->cells[at].key || (of->cells[at].key == key && of->cells[at].number == number))
            return &of->cells[at];
}

void *sw_jinja_look_up(const jinja_table *of, const void *key, int64_t number) {
    return of->size ? place_of(of, key, number)->value : NULL;
}

bool sw_jinja_put(jinja_run *run, jinja_table *of, const void *key, int64_t number, void *value) {
    if (2 * (of->n + 1) > of->size) {
        jinja_table wider = {.n = of->n, .size = larger(2 * of->size, 16)};
        wider.cells = sw_jinja_take(run, wider.size * (int64_t)sizeof *wider.cells);
        if (!wider.cells)
            return false;
        memset(wider.cells, 0, (size_t)wider.size * sizeof *wider.cells);
        for (int64_t i = 0; i < of->size; i++)
            if (of->cells[i].key)
                *place_of(&wider, of->cells[i].key, of->cells[i].number) = of->cells[i];
        *of = wider;
    }
    jinja_cell *at = place_of(of, key, number);
    of->n += at->key == NULL;
    *at = (jinja_cell){key, number, value};
    return true;
}

jinja_function *sw_jinja_make_function(jinja_settler *st, jinja_function *outer) {
    jinja_function *made = sw_jinja_take(st->run, sizeof *made);
    if (made)
        *made = (jinja_function){.outer = outer};
    return made;
}

jinja_known *sw_jinja_make_known(jinja_settler *st, jinja_known *parent, jinja_function *of) {
    jinja_known *made = of ? sw_jinja_take(st->run, sizeof *made) : NULL;
    if (!made)
        return NULL;
    *made =
        (jinja_known){.parent = parent, .function = of, .level = parent ? parent->level + 1 : 0};
    made->last = &made->first;
    return made;
}

jinja_known *sw_jinja_make_branch(jinja_settler *st, jinja_known *base) {
    jinja_known *made = sw_jinja_make_known(st, base->parent, base->function);
    if (made) {
        made->base = base;
        made->level = base->level;
    }
    return made;
}

/* The symbol of a name in this scope itself, made where there is none. */
static jinja_symbol *own(jinja_settler *st, jinja_known *sc, jinja_text *name) {
    jinja_symbol *found = sw_jinja_look_up(&sc->symbols, name, 0);
    if (found)
        return found;
    found = sw_jinja_take(st->run, sizeof *found);
    if (!found || !sw_jinja_put(st->run, &sc->symbols, name, 0, found))
        return NULL;
    *found = (jinja_symbol){.name = name, .slot = -1};
    *sc->last = found;
    sc->last = &found->next;
    return found;
}

/* The variable that a name is in this scope, without those around it; NULL: it knows none. */
jinja_symbol *sw_jinja_find_here(const jinja_known *sc, const jinja_text *name) {
    for (; sc; sc = sc->base) {
        jinja_symbol *found = sw_jinja_look_up(&sc->symbols, name, 0);
        if (found && found->slot >= 0)
            return found;
    }
    return NULL;
}

jinja_symbol *sw_jinja_find_symbol(const jinja_known *sc, const jinja_text *name) {
    for (; sc; sc = sc->parent) {
        jinja_symbol *found = sw_jinja_find_here(sc, name);
        if (found)
            return found;
    }
    return NULL;
}

static bool define(jinja_settler *st, jinja_known *sc, jinja_symbol *sy, jinja_load_kind load,
                   const jinja_symbol *outer) {
    jinja_function *owner = sc->function;
    int64_t known = (int64_t)(intptr_t)sw_jinja_look_up(&owner->slots, sy->name, sc->level);
    if (known == 0) {
        known = ++owner->n_slots;
        if (!sw_jinja_put(st->run, &owner->slots, sy->name, sc->level, (void *)(intptr_t)known))
            return false;
    }
    sy->owner = owner;
    sy->slot = (int32_t)known - 1;
    sy->has_load = true;
    sy->load = load;
    sy->outer = outer;
    return sw_jinja_spend(st->run, 1);
}

bool sw_jinja_store(jinja_settler *st, jinja_known *sc, jinja_text *name) {
    jinja_symbol *sy = own(st, sc, name);
    if (!sy)
        return false;
    sy->is_stored = true;
    if (sw_jinja_find_here(sc, name))
        return true;
    const jinja_symbol *outer = sc->parent ? sw_jinja_find_symbol(sc->parent, name) : NULL;
    return define(st, sc, sy, outer ? JINJA_LOAD_ALIAS : JINJA_LOAD_UNSET, outer);
}

bool sw_jinja_declare(jinja_settler *st, jinja_known *sc, jinja_text *name) {
    jinja_symbol *sy = own(st, sc, name);
    if (!sy)
        return false;
    sy->is_stored = true;
    return define(st, sc, sy, JINJA_LOAD_PARAMETER, NULL);
}

bool sw_jinja_load_name(jinja_settler *st, jinja_known *sc, jinja_text *name) {
    if (sw_jinja_find_symbol(sc, name))
        return true;
    jinja_symbol *sy = own(st, sc, name);
    return sy && define(st, sc, sy, JINJA_LOAD_CONTEXT, NULL);
}

/* Names that are assigned to. */
bool sw_jinja_store_target(jinja_settler *st, jinja_known *sc, const jinja_node *target,
                           bool is_parameter) {
    if (target->kind == JINJA_NAMESPACE_PART)
        return sw_jinja_load_name(st, sc, target->as.name.name);
    if (target->kind == JINJA_NAME)
        return is_parameter ? sw_jinja_declare(st, sc, target->as.name.name)
                            : sw_jinja_store(st, sc, target->as.name.name);
    for (int32_t i = 0; i < target->as.list.n; i++)
        if (!sw_jinja_store_target(st, sc, target->as.list.items[i], is_parameter))
            return false;
    return true;
}
static bool is_stored_here(const jinja_known *sc, const jinja_text *name) {
    for (; sc; sc = sc->base) {
        const jinja_symbol *known = sw_jinja_look_up(&sc->symbols, name, 0);
        if (known && known->is_stored)
            return true;
    }
    return false;
}

/* What branches add to the scope: all that any of them knows; what they set and the scope did not,
 * is known on entry from outside. */
bool sw_jinja_merge_branches(jinja_settler *st, jinja_known *sc, jinja_known *const branches[3]) {
    for (int i = 0; i < 3; i++) /* before the scope itself is said to set them */
        for (jinja_symbol *from = branches[i]->first; from; from = from->next)
            from->is_new = from->is_stored && !is_stored_here(sc, from->name);
    for (int i = 0; i < 3; i++)
        for (const jinja_symbol *from = branches[i]->first; from; from = from->next) {
            jinja_symbol *to = own(st, sc, from->name);
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
        for (const jinja_symbol *from = branches[i]->first; from; from = from->next) {
            const jinja_symbol *outer =
                from->is_new && sc->parent ? sw_jinja_find_symbol(sc->parent, from->name) : NULL;
            if (from->is_new && !define(st, sc, own(st, sc, from->name),
                                        outer ? JINJA_LOAD_ALIAS : JINJA_LOAD_CONTEXT, outer))
                return false;
        }
    return true;
}
