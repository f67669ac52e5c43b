/* occupancy.c: see occupancy.h. */
#include "shard/occupancy.h"

#include <stdlib.h>
#include <string.h>

typedef struct interval {
    int64_t begin, end;
} interval;

/* Addresses that are taken: intervals in order, none touching the next. */
typedef struct addresses {
    int n, capacity;
    interval *item;
} addresses;

typedef struct node {
    addresses
        own; /* by buffers that are alive at all its instructions and not at all of its parent's */
    addresses whole; /* at any of its instructions */
} node;

struct sw_occupancy {
    int n_leaves; /* a power of two */
    bool is_short;
    node *nodes; /* [2 n_leaves] node 1 is the root, the children of i are 2 i and 2 i + 1 */
};

sw_occupancy *sw_occupancy_create(int n) {
    sw_occupancy *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->n_leaves = 1;
    while (o->n_leaves < n)
        o->n_leaves *= 2;
    o->nodes = calloc(2 * (size_t)o->n_leaves, sizeof *o->nodes);
    if (!o->nodes) {
        free(o);
        return NULL;
    }
    return o;
}

void sw_occupancy_free(sw_occupancy *o) {
    for (int i = 0; o && i < 2 * o->n_leaves; i++) {
        free(o->nodes[i].own.item);
        free(o->nodes[i].whole.item);
    }
    if (o)
        free(o->nodes);
    free(o);
}

void sw_occupancy_clear(sw_occupancy *o) {
    for (int i = 0; i < 2 * o->n_leaves; i++)
        o->nodes[i].own.n = o->nodes[i].whole.n = 0;
}

bool sw_occupancy_is_short(const sw_occupancy *o) {
    return o->is_short;
}

/* The first interval that ends beyond `address`, or n. */
static int first_beyond(const addresses *a, int64_t address) {
    int low = 0, high = a->n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (a->item[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* ---- find ---- */

enum { MOST_LISTS = 4 * 32 }; /* two nodes on each level, and what is above them */

typedef struct lists {
    int n;
    const addresses *item[MOST_LISTS];
} lists;

static void add_list(lists *l, const addresses *a) {
    if (a->n)
        l->item[l->n++] = a;
}

/* The lists of node i, of instructions low .. high, that matter to first .. last. */
static void collect(const sw_occupancy *o, int i, int low, int high, int first, int last,
                    lists *l) {
    if (last < low || first > high || !o->nodes[i].whole.n)
        return;
    if (first <= low && high <= last) {
        add_list(l, &o->nodes[i].whole);
        return;
    }
    add_list(l, &o->nodes[i].own);
    int middle = low + (high - low) / 2;
    collect(o, 2 * i, low, middle, first, last, l);
    collect(o, 2 * i + 1, middle + 1, high, first, last, l);
}

int64_t sw_occupancy_find(const sw_occupancy *o, int first, int last, int64_t bytes) {
    lists l = {0};
    int64_t address = 0;
    collect(o, 1, 0, o->n_leaves - 1, first, last, &l);
    /* Each list in turn pushes the address up to where it has room; what all of them have left
     * alone fits. */
    for (int k = 0, n_content = 0; n_content < l.n; k = (k + 1) % l.n, n_content++) {
        const addresses *a = l.item[k];
        int i = first_beyond(a, address);
        for (; i < a->n && a->item[i].begin < address + bytes; i++) {
            address = a->item[i].end;
            n_content = -1;
        }
    }
    return address;
}

/* ---- take ---- */

/* [begin, end) is taken too. */
static void join(sw_occupancy *o, addresses *a, int64_t begin, int64_t end) {
    int from = first_beyond(a, begin - 1), to = from; /* those that it touches */
    for (; to < a->n && a->item[to].begin <= end; to++) {
        begin = a->item[to].begin < begin ? a->item[to].begin : begin;
        end = a->item[to].end > end ? a->item[to].end : end;
    }
    if (from == to && a->n == a->capacity) {
        int capacity = a->capacity ? 2 * a->capacity : 2;
        interval *grown = realloc(a->item, (size_t)capacity * sizeof *grown);
        if (!grown) {
            o->is_short = true;
            return;
        }
        a->item = grown;
        a->capacity = capacity;
    }
    memmove(&a->item[from + 1], &a->item[to], (size_t)(a->n - to) * sizeof *a->item);
    a->item[from] = (interval){begin, end};
    a->n += 1 - (to - from);
}

static void take(sw_occupancy *o, int i, int low, int high, int first, int last, int64_t begin,
                 int64_t end) {
    if (last < low || first > high)
        return;
    join(o, &o->nodes[i].whole, begin, end);
    if (first <= low && high <= last) {
        join(o, &o->nodes[i].own, begin, end);
        return;
    }
    int middle = low + (high - low) / 2;
    take(o, 2 * i, low, middle, first, last, begin, end);
    take(o, 2 * i + 1, middle + 1, high, first, last, begin, end);
}

void sw_occupancy_take(sw_occupancy *o, int first, int last, int64_t address, int64_t bytes) {
    if (bytes > 0)
        take(o, 1, 0, o->n_leaves - 1, first, last, address, address + bytes);
}
