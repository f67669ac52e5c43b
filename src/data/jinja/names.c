/* names.c: which names statements and expressions speak of. */
#include "data/jinja/symbols.h"
#include "data/jinja/text.h"

bool sw_jinja_each(jinja_settler *st, jinja_known *sc, const jinja_nodes *nodes,
                   jinja_visitor *visit, void *more) {
    for (int32_t i = 0; i < nodes->n; i++)
        if (!visit(st, sc, nodes->items[i], more))
            return false;
    return true;
}

bool sw_jinja_one(jinja_settler *st, jinja_known *sc, jinja_node *node, jinja_visitor *visit,
                  void *more) {
    return !node || visit(st, sc, node, more);
}

/* The parts of an expression. */
bool sw_jinja_each_part(jinja_settler *st, jinja_known *sc, jinja_node *node, jinja_visitor *visit,
                        void *more) {
    switch ((jinja_node_kind)node->kind) {
    case JINJA_MAKE_TUPLE:
    case JINJA_MAKE_LIST:
    case JINJA_MAKE_DICT:
    case JINJA_CONCAT:
    case JINJA_OUTPUT:
        return sw_jinja_each(st, sc, &node->as.list, visit, more);
    case JINJA_AND:
    case JINJA_OR:
    case JINJA_NOT:
    case JINJA_BINARY:
    case JINJA_NEGATIVE:
    case JINJA_POSITIVE:
        return visit(st, sc, node->as.binary.left, more) &&
               sw_jinja_one(st, sc, node->as.binary.right, visit, more);
    case JINJA_COMPARE:
        return visit(st, sc, node->as.compare.first, more) &&
               sw_jinja_each(st, sc, &node->as.compare.others, visit, more);
    case JINJA_ATTRIBUTE:
        return visit(st, sc, node->as.item.owner, more);
    case JINJA_ITEM:
        return visit(st, sc, node->as.item.owner, more) && visit(st, sc, node->as.item.index, more);
    case JINJA_SLICE:
        return sw_jinja_one(st, sc, node->as.slice.start, visit, more) &&
               sw_jinja_one(st, sc, node->as.slice.stop, visit, more) &&
               sw_jinja_one(st, sc, node->as.slice.step, visit, more);
    case JINJA_CALL:
    case JINJA_FILTER:
    case JINJA_TEST: {
        const jinja_call_parts *parts = &node->as.call.parts;
        return sw_jinja_one(st, sc, node->as.call.called, visit, more) &&
               sw_jinja_each(st, sc, &parts->arguments, visit, more) &&
               sw_jinja_each(st, sc, &parts->values, visit, more) &&
               sw_jinja_one(st, sc, parts->more, visit, more) &&
               sw_jinja_one(st, sc, parts->named_more, visit, more);
    }
    case JINJA_CONDITIONAL:
        return visit(st, sc, node->as.conditional.test, more) &&
               visit(st, sc, node->as.conditional.yes, more) &&
               sw_jinja_one(st, sc, node->as.conditional.no, visit, more);
    default:
        return true;
    }
}

bool sw_jinja_analyse(jinja_settler *st, jinja_known *sc, jinja_node *node, void *more);
static bool analyse_if(jinja_settler *st, jinja_known *sc, jinja_node *node) {
    if (!sw_jinja_analyse(st, sc, node->as.condition.test, NULL))
        return false;
    jinja_known *branches[3];
    for (int i = 0; i < 3; i++)
        if (!(branches[i] = sw_jinja_make_branch(st, sc)))
            return false;
    return sw_jinja_each(st, branches[0], &node->as.condition.body, sw_jinja_analyse, NULL) &&
           sw_jinja_each(st, branches[1], &node->as.condition.elifs, sw_jinja_analyse, NULL) &&
           sw_jinja_each(st, branches[2], &node->as.condition.otherwise, sw_jinja_analyse, NULL) &&
           sw_jinja_merge_branches(st, sc, branches);
}

/* What a statement or expression of this scope reads and sets; inner scopes are looked at when they
 * come. */
bool sw_jinja_analyse(jinja_settler *st, jinja_known *sc, jinja_node *node, void *more) {
    switch ((jinja_node_kind)node->kind) {
    case JINJA_NAME:
        return sw_jinja_load_name(st, sc, node->as.name.name);
    case JINJA_FOR:
        return sw_jinja_analyse(st, sc, node->as.loop.iterated, more);
    case JINJA_IF:
        return analyse_if(st, sc, node);
    case JINJA_SET:
        return sw_jinja_analyse(st, sc, node->as.set.value, more) &&
               sw_jinja_store_target(st, sc, node->as.set.target, false);
    case JINJA_SET_BLOCK:
        return sw_jinja_store_target(st, sc, node->as.set.target, false);
    case JINJA_WITH:
        return sw_jinja_each(st, sc, &node->as.with.values, sw_jinja_analyse, more);
    case JINJA_DEFINE_MACRO:
        return sw_jinja_store(st, sc, node->as.macro.name->as.name.name);
    case JINJA_CALL_BLOCK:
        return sw_jinja_analyse(st, sc, node->as.macro.call, more);
    case JINJA_FILTER_BLOCK:
        return sw_jinja_analyse(st, sc, node->as.filtered.filter, more);
    default:
        return sw_jinja_each_part(st, sc, node, sw_jinja_analyse, more);
    }
}

/* Does a body read `name` before it gives it a meaning of its own? Goes into inner scopes as well,
 * but not into blocks. */
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

static bool search_node(jinja_settler *st, jinja_known *sc, jinja_node *node, void *more) {
    search *se = more;
    if (se->is_over || se->is_found || !sw_jinja_spend(st->run, 1))
        return st->run->status == SW_OK;
    switch ((jinja_node_kind)node->kind) {
    case JINJA_NAME:
        se->is_found = sw_jinja_is_word(node->as.name.name, se->name);
        return true;
    case JINJA_FOR:
        search_target(node->as.loop.target, se);
        return search_node(st, sc, node->as.loop.iterated, se) &&
               sw_jinja_each(st, sc, &node->as.loop.body, search_node, se) &&
               sw_jinja_each(st, sc, &node->as.loop.otherwise, search_node, se) &&
               sw_jinja_one(st, sc, node->as.loop.test, search_node, se);
    case JINJA_IF:
        return search_node(st, sc, node->as.condition.test, se) &&
               sw_jinja_each(st, sc, &node->as.condition.body, search_node, se) &&
               sw_jinja_each(st, sc, &node->as.condition.elifs, search_node, se) &&
               sw_jinja_each(st, sc, &node->as.condition.otherwise, search_node, se);
    case JINJA_SET:
    case JINJA_SET_BLOCK:
        search_target(node->as.set.target, se);
        return sw_jinja_one(st, sc, node->as.set.value, search_node, se) &&
               sw_jinja_one(st, sc, node->as.set.filter, search_node, se) &&
               sw_jinja_each(st, sc, &node->as.set.body, search_node, se);
    case JINJA_WITH:
        for (int32_t i = 0; i < node->as.with.targets.n; i++)
            search_target(node->as.with.targets.items[i], se);
        return sw_jinja_each(st, sc, &node->as.with.values, search_node, se) &&
               sw_jinja_each(st, sc, &node->as.with.body, search_node, se);
    case JINJA_DEFINE_MACRO:
    case JINJA_CALL_BLOCK:
    case JINJA_GENERATION:
        if (!sw_jinja_one(st, sc, node->as.macro.call, search_node, se))
            return false;
        for (int32_t i = 0; i < node->as.macro.signature.parameters.n; i++)
            search_target(node->as.macro.signature.parameters.items[i], se);
        return sw_jinja_each(st, sc, &node->as.macro.signature.defaults, search_node, se) &&
               sw_jinja_each(st, sc, &node->as.macro.body, search_node, se);
    case JINJA_FILTER_BLOCK:
    case JINJA_SCOPE:
        return sw_jinja_each(st, sc, &node->as.filtered.body, search_node, se) &&
               sw_jinja_one(st, sc, node->as.filtered.filter, search_node, se);
    default:
        return sw_jinja_each_part(st, sc, node, search_node, se);
    }
}

bool sw_jinja_reads(jinja_settler *st, const jinja_nodes *body, const char *name, bool *is_read) {
    search se = {.name = name};
    bool is_done = sw_jinja_each(st, NULL, body, search_node, &se);
    *is_read = se.is_found;
    return is_done;
}
