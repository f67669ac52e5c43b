/* Every public function, with each of its arguments wrong: NULL, out of range, not finite, of
 * another object. A caller's mistake is a status and a message that names the function and the
 * argument, or NULL with the graph's error; never a crash, and never taken in silence. The table
 * has a row for every declaration with SW_API.
 */
#include <ctype.h>
#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <shardwise.h>

#include "support/folder.h"

/* ---- what a wrong call must do ---- */

/* Rows run in forked ranks too, so what fails is counted and told, not asserted. */
static int n_complaints;

static void complain(int line, const char *call, const char *what) {
    n_complaints++;
    fprintf(stderr, "line %d: %s: %s\n", line, call, what);
}

/* `call`, which passes `err`, is refused with the words; so it is without anywhere to put the
 * message. */
#define REFUSED(words, call)                                                                  \
    do {                                                                                      \
        sw_error own = {0}, *err = &own;                                                      \
        sw_status refused = (call);                                                           \
        if (refused != SW_BAD_CONFIG || own.status != refused || !strstr(own.message, words)) \
            complain(__LINE__, #call, refused ? own.message : "is taken");                    \
        err = NULL;                                                                           \
        if ((call) != SW_BAD_CONFIG)                                                          \
            complain(__LINE__, #call, "is taken where err is NULL");                          \
    } while (0)

#define HOLDS(condition)                                \
    do {                                                \
        if (!(condition))                               \
            complain(__LINE__, #condition, "is false"); \
    } while (0)

/* A graph to record into, and another one whose things are strangers to the first. */
typedef struct graph_case {
    sw_graph *g;
    sw_unit *root, *child;
    sw_parameter *table, *matrix, *vector, *second;
    sw_value *tokens, *targets, *x;
} graph_case;

static graph_case c, other;

static void make_graph(graph_case *made) {
    sw_graph_free(made->g);
    memset(made, 0, sizeof *made);
    if (sw_graph_create(2, 4, &made->g, NULL))
        return;
    made->root = sw_unit_declare(made->g, NULL, "root");
    made->child = sw_unit_declare(made->g, made->root, "child");
    made->table = sw_parameter_declare(made->g, made->root, "table", 2, (int64_t[]){16, 8},
                                       SW_INIT_NORMAL, 0.1);
    made->matrix = sw_parameter_declare(made->g, made->root, "matrix", 2, (int64_t[]){8, 8},
                                        SW_INIT_NORMAL, 0.1);
    made->vector =
        sw_parameter_declare(made->g, made->root, "vector", 1, (int64_t[]){8}, SW_INIT_ONES, 0);
    made->second =
        sw_parameter_declare(made->g, made->root, "second", 1, (int64_t[]){8}, SW_INIT_ZEROS, 0);
    made->tokens = sw_tokens(made->g);
    made->targets = sw_targets(made->g);
    made->x = sw_embedding(made->g, made->tokens, made->table);
}

/* In a graph that was well until then, `call` gives NULL and leaves an error with the words. */
#define NOT_RECORDED(words, call)                                                          \
    do {                                                                                   \
        sw_error own = {0};                                                                \
        make_graph(&c);                                                                    \
        bool was_well = sw_graph_status(c.g, NULL) == SW_OK, is_null = !(call);            \
        sw_status left = sw_graph_status(c.g, &own);                                       \
        if (!was_well || !is_null || left != SW_BAD_CONFIG || !strstr(own.message, words)) \
            complain(__LINE__, #call, left ? own.message : "is recorded");                 \
    } while (0)

/* Where there is no graph, nothing is recorded and nothing crashes. */
#define NO_GRAPH(call)                                    \
    do {                                                  \
        make_graph(&c);                                   \
        if (call)                                         \
            complain(__LINE__, #call, "gives something"); \
    } while (0)

static const double not_finite[] = {NAN, INFINITY, -INFINITY};
enum { N_NOT_FINITE = sizeof not_finite / sizeof *not_finite };

/* ---- status.h ---- */

static void row_fail(void) {
    sw_error err = {0};
    HOLDS(sw_fail(NULL, SW_BAD_FILE, "x %d", 1) == SW_BAD_FILE);
    HOLDS(sw_fail(&err, (sw_status)9999, "x") == (sw_status)9999 && !strcmp(err.message, "x"));
    sw_status (*const refuse)(sw_error *, sw_status, const char *, ...) =
        sw_fail; /* compilers know no format of it */
    const char *volatile no_format = NULL;
    HOLDS(refuse(&err, SW_BUG, no_format) == SW_BUG && !*err.message);
}

static void row_fail_within(void) {
    sw_error err = {.status = SW_BAD_FILE, .message = "x"};
    sw_status (*const refuse_within)(sw_error *, const char *, ...) = sw_fail_within;
    const char *volatile no_format = NULL;
    HOLDS(sw_fail_within(NULL, "y") == SW_BUG);
    HOLDS(refuse_within(&err, no_format) == SW_BAD_FILE && !strcmp(err.message, ": x"));
}

static void row_status_name(void) {
    HOLDS(!strcmp(sw_status_name((sw_status)-1), "?"));
    HOLDS(!strcmp(sw_status_name(SW_N_STATUSES), "?"));
}

static void row_status_exit_code(void) {
    HOLDS(sw_status_exit_code((sw_status)-1) == 1);
    HOLDS(sw_status_exit_code(SW_N_STATUSES) == 1);
}

static void row_version(void) {
    HOLDS(isdigit((unsigned char)*sw_version()));
}

/* ---- graph.h: graphs, units, parameters ---- */

static void row_graph_create(void) {
    sw_graph *g;
    REFUSED("graph is NULL", sw_graph_create(1, 1, NULL, err));
    REFUSED("at least 1", sw_graph_create(0, 1, &g, err));
    REFUSED("at least 1", sw_graph_create(1, -1, &g, err));
    REFUSED("at most", sw_graph_create(INT64_MAX, INT64_MAX, &g, err));
    REFUSED("at most", sw_graph_create(1, INT64_C(1) << 31, &g, err));
    HOLDS(!g);
}

static void row_graph_free(void) {
    sw_graph_free(NULL);
}

static void row_graph_status(void) {
    REFUSED("NULL", sw_graph_status(NULL, err));
}

static void row_unit_declare(void) {
    NO_GRAPH(sw_unit_declare(NULL, NULL, "u"));
    NOT_RECORDED("only the root unit has none", sw_unit_declare(c.g, NULL, "u"));
    NOT_RECORDED("of another graph", sw_unit_declare(c.g, other.root, "u"));
    NOT_RECORDED("needs a name", sw_unit_declare(c.g, c.root, NULL));
    NOT_RECORDED("needs a name", sw_unit_declare(c.g, c.root, ""));
}

static void row_parameter_declare(void) {
    const int64_t two[] = {4, 4}, zero[] = {0, 4}, negative[] = {4, -4},
                  large[] = {INT64_C(1) << 40, INT64_C(1) << 40};
    NO_GRAPH(sw_parameter_declare(NULL, c.root, "p", 2, two, SW_INIT_ZEROS, 0));
    NOT_RECORDED("unit is NULL", sw_parameter_declare(c.g, NULL, "p", 2, two, SW_INIT_ZEROS, 0));
    NOT_RECORDED("of another graph",
                 sw_parameter_declare(c.g, other.root, "p", 2, two, SW_INIT_ZEROS, 0));
    NOT_RECORDED("needs a name", sw_parameter_declare(c.g, c.root, NULL, 2, two, SW_INIT_ZEROS, 0));
    NOT_RECORDED("needs a name", sw_parameter_declare(c.g, c.root, "", 2, two, SW_INIT_ZEROS, 0));
    NOT_RECORDED("declared already",
                 sw_parameter_declare(c.g, c.root, "table", 2, two, SW_INIT_ZEROS, 0));
    NOT_RECORDED("1 to 4", sw_parameter_declare(c.g, c.root, "p", 0, two, SW_INIT_ZEROS, 0));
    NOT_RECORDED("1 to 4", sw_parameter_declare(c.g, c.root, "p", -1, two, SW_INIT_ZEROS, 0));
    NOT_RECORDED("1 to 4", sw_parameter_declare(c.g, c.root, "p", 5, two, SW_INIT_ZEROS, 0));
    NOT_RECORDED("dimensions are NULL",
                 sw_parameter_declare(c.g, c.root, "p", 2, NULL, SW_INIT_ZEROS, 0));
    NOT_RECORDED("at least 1", sw_parameter_declare(c.g, c.root, "p", 2, zero, SW_INIT_ZEROS, 0));
    NOT_RECORDED("at least 1",
                 sw_parameter_declare(c.g, c.root, "p", 2, negative, SW_INIT_ZEROS, 0));
    NOT_RECORDED("below 2^59", sw_parameter_declare(c.g, c.root, "p", 2, large, SW_INIT_ZEROS, 0));
    NOT_RECORDED("no initializer 4",
                 sw_parameter_declare(c.g, c.root, "p", 2, two, (sw_initializer)4, 0));
    NOT_RECORDED("no initializer -1",
                 sw_parameter_declare(c.g, c.root, "p", 2, two, (sw_initializer)-1, 0));
    NOT_RECORDED("standard deviation",
                 sw_parameter_declare(c.g, c.root, "p", 2, two, SW_INIT_NORMAL, -1));
    for (int i = 0; i < N_NOT_FINITE; i++)
        NOT_RECORDED("standard deviation",
                     sw_parameter_declare(c.g, c.root, "p", 2, two, SW_INIT_NORMAL, not_finite[i]));
}

static void row_parameter_freeze(void) {
    sw_parameter_freeze(NULL);
}

static void row_tokens(void) {
    NO_GRAPH(sw_tokens(NULL));
}

static void row_targets(void) {
    NO_GRAPH(sw_targets(NULL));
}

static void row_documents(void) {
    NO_GRAPH(sw_documents(NULL));
}

static sw_value *pass_on(sw_graph *graph, void *self, sw_value *x) {
    (void)graph;
    (void)self;
    return x;
}

static sw_value *give_nothing(sw_graph *graph, void *self, sw_value *x) {
    (void)graph;
    (void)self;
    (void)x;
    return NULL;
}

static void row_call(void) {
    NO_GRAPH(sw_call(NULL, c.child, pass_on, NULL, c.x));
    NOT_RECORDED("unit is NULL", sw_call(c.g, NULL, pass_on, NULL, c.x));
    NOT_RECORDED("of another graph", sw_call(c.g, other.child, pass_on, NULL, c.x));
    NOT_RECORDED("declared below", sw_call(c.g, c.root, pass_on, NULL, c.x));
    NOT_RECORDED("it is NULL", sw_call(c.g, c.child, NULL, NULL, c.x));
    NOT_RECORDED("returned NULL", sw_call(c.g, c.child, give_nothing, NULL, c.x));
    NOT_RECORDED("returned NULL", sw_call(c.g, c.child, pass_on, NULL, NULL));
}

/* ---- graph.h: operations ---- */

static void row_embedding(void) {
    NO_GRAPH(sw_embedding(NULL, c.tokens, c.table));
    NOT_RECORDED("tokens is NULL", sw_embedding(c.g, NULL, c.table));
    NOT_RECORDED("another graph", sw_embedding(c.g, other.tokens, c.table));
    NOT_RECORDED("must be token ids", sw_embedding(c.g, c.x, c.table));
    NOT_RECORDED("table is NULL", sw_embedding(c.g, c.tokens, NULL));
    NOT_RECORDED("another graph", sw_embedding(c.g, c.tokens, other.table));
    NOT_RECORDED("is needed", sw_embedding(c.g, c.tokens, c.vector));
}

static void row_add_positions(void) {
    NO_GRAPH(sw_add_positions(NULL, c.x, c.table));
    NOT_RECORDED("x is NULL", sw_add_positions(c.g, NULL, c.table));
    NOT_RECORDED("another graph", sw_add_positions(c.g, other.x, c.table));
    NOT_RECORDED("table is NULL", sw_add_positions(c.g, c.x, NULL));
    NOT_RECORDED("another graph", sw_add_positions(c.g, c.x, other.table));
}

static void row_add_positions_within(void) {
    NO_GRAPH(sw_add_positions_within(NULL, c.x, c.table, NULL));
    NOT_RECORDED("x is a list of token ids", sw_add_positions_within(c.g, c.tokens, c.table, NULL));
    NOT_RECORDED("table is NULL", sw_add_positions_within(c.g, c.x, NULL, NULL));
    NOT_RECORDED("documents must be", sw_add_positions_within(c.g, c.x, c.table, c.x));
    NOT_RECORDED("another graph", sw_add_positions_within(c.g, c.x, c.table, other.tokens));
}

static void row_linear(void) {
    NO_GRAPH(sw_linear(NULL, c.x, c.matrix, NULL, SW_OUT_IN));
    NO_GRAPH(sw_linear(NULL, NULL, NULL, NULL, SW_OUT_IN));
    NOT_RECORDED("x is NULL", sw_linear(c.g, NULL, c.matrix, NULL, SW_OUT_IN));
    NOT_RECORDED("another graph", sw_linear(c.g, other.x, c.matrix, NULL, SW_OUT_IN));
    NOT_RECORDED("weight is NULL", sw_linear(c.g, c.x, NULL, NULL, SW_OUT_IN));
    NOT_RECORDED("another graph", sw_linear(c.g, c.x, other.matrix, NULL, SW_OUT_IN));
    NOT_RECORDED("is needed", sw_linear(c.g, c.x, c.vector, NULL, SW_OUT_IN));
    NOT_RECORDED("bias", sw_linear(c.g, c.x, c.matrix, c.matrix, SW_OUT_IN));
    NOT_RECORDED("another graph", sw_linear(c.g, c.x, c.matrix, other.vector, SW_OUT_IN));
    NOT_RECORDED("layout 2", sw_linear(c.g, c.x, c.matrix, NULL, (sw_weight_layout)2));
    NOT_RECORDED("layout -1", sw_linear(c.g, c.x, c.matrix, NULL, (sw_weight_layout)-1));
}

static void row_linear_several(void) {
    sw_parameter *none[] = {NULL, NULL};
    NO_GRAPH(sw_linear_several(NULL, c.x, 1, &c.matrix, NULL, SW_OUT_IN));
    NOT_RECORDED("x is NULL", sw_linear_several(c.g, NULL, 1, &c.matrix, NULL, SW_OUT_IN));
    NOT_RECORDED("1 to 3", sw_linear_several(c.g, c.x, 0, &c.matrix, NULL, SW_OUT_IN));
    NOT_RECORDED("1 to 3", sw_linear_several(c.g, c.x, -1, &c.matrix, NULL, SW_OUT_IN));
    NOT_RECORDED("1 to 3", sw_linear_several(c.g, c.x, 4, &c.matrix, NULL, SW_OUT_IN));
    NOT_RECORDED("weights is NULL", sw_linear_several(c.g, c.x, 1, NULL, NULL, SW_OUT_IN));
    NOT_RECORDED("weight is NULL", sw_linear_several(c.g, c.x, 2, none, NULL, SW_OUT_IN));
    NOT_RECORDED("another graph", sw_linear_several(c.g, c.x, 1, &other.matrix, NULL, SW_OUT_IN));
    NOT_RECORDED("another graph",
                 sw_linear_several(c.g, c.x, 1, &c.matrix, &other.vector, SW_OUT_IN));
    NOT_RECORDED("in common", sw_linear_several(c.g, c.x, 2, (sw_parameter *[]){c.matrix, c.matrix},
                                                NULL, SW_OUT_IN));
    NOT_RECORDED("layout 7", sw_linear_several(c.g, c.x, 1, &c.matrix, NULL, (sw_weight_layout)7));
}

static void row_rmsnorm(void) {
    NO_GRAPH(sw_rmsnorm(NULL, c.x, c.vector, 0));
    NOT_RECORDED("x is NULL", sw_rmsnorm(c.g, NULL, c.vector, 0));
    NOT_RECORDED("weight is NULL", sw_rmsnorm(c.g, c.x, NULL, 0));
    NOT_RECORDED("another graph", sw_rmsnorm(c.g, c.x, other.vector, 0));
    NOT_RECORDED("epsilon", sw_rmsnorm(c.g, c.x, c.vector, -1));
    for (int i = 0; i < N_NOT_FINITE; i++)
        NOT_RECORDED("epsilon", sw_rmsnorm(c.g, c.x, c.vector, not_finite[i]));
}

static void row_rmsnorm_heads(void) {
    NO_GRAPH(sw_rmsnorm_heads(NULL, c.x, c.vector, 0));
    NO_GRAPH(sw_rmsnorm_heads(NULL, c.x, NULL, 0));
    NOT_RECORDED("x is NULL", sw_rmsnorm_heads(c.g, NULL, c.vector, 0));
    NOT_RECORDED("weight is NULL", sw_rmsnorm_heads(c.g, c.x, NULL, 0));
    NOT_RECORDED("another graph", sw_rmsnorm_heads(c.g, c.x, other.vector, 0));
    NOT_RECORDED("is needed", sw_rmsnorm_heads(c.g, c.x, c.matrix, 0));
    NOT_RECORDED("epsilon", sw_rmsnorm_heads(c.g, c.x, c.vector, NAN));
}

static void row_layernorm(void) {
    NO_GRAPH(sw_layernorm(NULL, c.x, c.vector, c.second, 0));
    NOT_RECORDED("x is NULL", sw_layernorm(c.g, NULL, c.vector, c.second, 0));
    NOT_RECORDED("weight is NULL", sw_layernorm(c.g, c.x, NULL, c.second, 0));
    NOT_RECORDED("another graph", sw_layernorm(c.g, c.x, c.vector, other.second, 0));
    NOT_RECORDED("one parameter", sw_layernorm(c.g, c.x, c.vector, c.vector, 0));
    NOT_RECORDED("epsilon", sw_layernorm(c.g, c.x, c.vector, c.second, -1));
    for (int i = 0; i < N_NOT_FINITE; i++)
        NOT_RECORDED("epsilon", sw_layernorm(c.g, c.x, c.vector, c.second, not_finite[i]));
}

static void row_rotary(void) {
    NO_GRAPH(sw_rotary(NULL, c.x, 4, 10000));
    NOT_RECORDED("x is NULL", sw_rotary(c.g, NULL, 4, 10000));
    const int64_t channels[] = {0, 1, 3, -4, 16, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++)
        NOT_RECORDED("do not divide", sw_rotary(c.g, c.x, channels[i], 10000));
    NOT_RECORDED("theta", sw_rotary(c.g, c.x, 4, 0));
    NOT_RECORDED("theta", sw_rotary(c.g, c.x, 4, -1));
    for (int i = 0; i < N_NOT_FINITE; i++)
        NOT_RECORDED("theta", sw_rotary(c.g, c.x, 4, not_finite[i]));
}

static const sw_rotary_scaling good_scaling = {
    .theta = 10000, .factor = 2, .ramp = SW_RAMP_BY_PAIR, .from = 0, .to = 1, .amplitude = 1};

static const sw_rotary_scaling *bad_scaling(int i) {
    static sw_rotary_scaling s;
    s = good_scaling;
    double *const member[] = {&s.theta, &s.factor, &s.amplitude, &s.from, &s.to};
    if (i == 0)
        s.ramp = (sw_rotary_ramp)3;
    else if (i == 1)
        s.ramp = (sw_rotary_ramp)-1;
    else if (i == 2)
        s.from = s.to;
    else if (i < 6)
        *member[i - 3] = 0;
    else if (i < 6 + 5 * N_NOT_FINITE)
        *member[(i - 6) / N_NOT_FINITE] = not_finite[(i - 6) % N_NOT_FINITE];
    else
        return NULL;
    return &s;
}

static void row_rotary_scaled(void) {
    NO_GRAPH(sw_rotary_scaled(NULL, c.x, 4, &good_scaling));
    NOT_RECORDED("x is NULL", sw_rotary_scaled(c.g, NULL, 4, &good_scaling));
    NOT_RECORDED("do not divide", sw_rotary_scaled(c.g, c.x, 0, &good_scaling));
    NOT_RECORDED("scaling is NULL", sw_rotary_scaled(c.g, c.x, 4, NULL));
    for (int i = 0; bad_scaling(i); i++)
        NOT_RECORDED("rotary: ", sw_rotary_scaled(c.g, c.x, 4, bad_scaling(i)));
}

static void row_rotary_packed(void) {
    NO_GRAPH(sw_rotary_packed(NULL, c.x, 1, 4, &good_scaling));
    NOT_RECORDED("x is NULL", sw_rotary_packed(c.g, NULL, 1, 4, &good_scaling));
    NOT_RECORDED("do not begin", sw_rotary_packed(c.g, c.x, 0, 4, &good_scaling));
    NOT_RECORDED("do not begin", sw_rotary_packed(c.g, c.x, -1, 4, &good_scaling));
    NOT_RECORDED("do not begin", sw_rotary_packed(c.g, c.x, INT64_MAX, 4, &good_scaling));
    NOT_RECORDED("do not begin", sw_rotary_packed(c.g, c.x, 1, 0, &good_scaling));
    NOT_RECORDED("do not begin", sw_rotary_packed(c.g, c.x, 1, INT64_MAX - 1, &good_scaling));
    NOT_RECORDED("scaling is NULL", sw_rotary_packed(c.g, c.x, 1, 4, NULL));
}

static const int64_t bad_heads[][2] = {
    {0, 1},          {1, 0},        {-2, 1},        {2, -1},
    {1, 2},          {3, 2},        {INT64_MAX, 1}, {INT64_MAX, INT64_MAX},
    {INT64_MIN, -1}, {2, INT64_MIN}};
enum { N_BAD_HEADS = sizeof bad_heads / sizeof *bad_heads };

static void row_attention(void) {
    NO_GRAPH(sw_attention(NULL, c.x, c.x, c.x, 2, 2));
    NOT_RECORDED("q is NULL", sw_attention(c.g, NULL, c.x, c.x, 2, 2));
    NOT_RECORDED("k is NULL", sw_attention(c.g, c.x, NULL, c.x, 2, 2));
    NOT_RECORDED("v is NULL", sw_attention(c.g, c.x, c.x, NULL, 2, 2));
    NOT_RECORDED("another graph", sw_attention(c.g, c.x, other.x, c.x, 2, 2));
    for (int i = 0; i < N_BAD_HEADS; i++)
        NOT_RECORDED("share", sw_attention(c.g, c.x, c.x, c.x, bad_heads[i][0], bad_heads[i][1]));
    NOT_RECORDED("do not divide", sw_attention(c.g, c.x, c.x, c.x, 3, 3));
}

static void row_attention_packed(void) {
    NO_GRAPH(sw_attention_packed(NULL, c.x, 2, 1));
    NOT_RECORDED("qkv is NULL", sw_attention_packed(c.g, NULL, 2, 1));
    for (int i = 0; i < N_BAD_HEADS; i++)
        NOT_RECORDED("share", sw_attention_packed(c.g, c.x, bad_heads[i][0], bad_heads[i][1]));
    NOT_RECORDED("do not divide", sw_attention_packed(c.g, c.x, 3, 1));
}

static void bad_options(int i, sw_attention_options *options) {
    *options = (sw_attention_options){.span = i == 0 ? -1 : 0, .scale = i == 1 ? -1 : 0};
    if (i >= 2)
        options->scale = not_finite[i - 2];
}

static void row_attention_with(void) {
    sw_attention_options options = {0};
    NO_GRAPH(sw_attention_with(NULL, c.x, c.x, c.x, 2, 2, &options));
    NOT_RECORDED("q is NULL", sw_attention_with(c.g, NULL, c.x, c.x, 2, 2, &options));
    for (int i = 0; i < 2 + N_NOT_FINITE; i++) {
        bad_options(i, &options);
        NOT_RECORDED("0 or more, and finite",
                     sw_attention_with(c.g, c.x, c.x, c.x, 2, 2, &options));
    }
    NOT_RECORDED("documents must be", sw_attention_with(c.g, c.x, c.x, c.x, 2, 2,
                                                        &(sw_attention_options){.documents = c.x}));
    NOT_RECORDED("another graph",
                 sw_attention_with(c.g, c.x, c.x, c.x, 2, 2,
                                   &(sw_attention_options){.documents = other.tokens}));
    make_graph(&c);
    HOLDS(sw_attention_with(c.g, c.x, c.x, c.x, 2, 2, NULL)); /* the usual */
}

static void row_attention_packed_with(void) {
    sw_attention_options options = {0};
    NO_GRAPH(sw_attention_packed_with(NULL, c.x, 2, 1, &options));
    NOT_RECORDED("qkv is NULL", sw_attention_packed_with(c.g, NULL, 2, 1, &options));
    NOT_RECORDED("share", sw_attention_packed_with(c.g, c.x, 2, 0, &options));
    for (int i = 0; i < 2 + N_NOT_FINITE; i++) {
        bad_options(i, &options);
        NOT_RECORDED("0 or more, and finite", sw_attention_packed_with(c.g, c.x, 2, 1, &options));
    }
}

static void row_activate(void) {
    NO_GRAPH(sw_activate(NULL, c.x, SW_GELU));
    NOT_RECORDED("x is NULL", sw_activate(c.g, NULL, SW_GELU));
    NOT_RECORDED("another graph", sw_activate(c.g, other.x, SW_GELU));
    NOT_RECORDED("no function", sw_activate(c.g, c.x, SW_N_ACTIVATIONS));
    NOT_RECORDED("no function -1", sw_activate(c.g, c.x, (sw_activation)-1));
}

static void row_gelu(void) {
    NO_GRAPH(sw_gelu(NULL, c.x));
    NOT_RECORDED("x is NULL", sw_gelu(c.g, NULL));
}

static void row_swiglu(void) {
    NO_GRAPH(sw_swiglu(NULL, c.x, c.x));
    NOT_RECORDED("gate is NULL", sw_swiglu(c.g, NULL, c.x));
    NOT_RECORDED("up is NULL", sw_swiglu(c.g, c.x, NULL));
    NOT_RECORDED("another graph", sw_swiglu(c.g, c.x, other.x));
}

static void row_swiglu_packed(void) {
    NO_GRAPH(sw_swiglu_packed(NULL, c.x));
    NOT_RECORDED("gate_up is NULL", sw_swiglu_packed(c.g, NULL));
    NOT_RECORDED("another graph", sw_swiglu_packed(c.g, other.x));
}

static void row_scale(void) {
    NO_GRAPH(sw_scale(NULL, c.x, 1));
    NOT_RECORDED("x is NULL", sw_scale(c.g, NULL, 1));
    for (int i = 0; i < N_NOT_FINITE; i++)
        NOT_RECORDED("finite", sw_scale(c.g, c.x, not_finite[i]));
}

typedef sw_value *share_function(sw_graph *graph, sw_value *x, const char *axis);

static void check_share(share_function *share) {
    NO_GRAPH(share(NULL, c.x, "shard"));
    NOT_RECORDED("x is NULL", share(c.g, NULL, "shard"));
    NOT_RECORDED("another graph", share(c.g, other.x, "shard"));
    NOT_RECORDED("no axis", share(c.g, c.x, NULL));
    NOT_RECORDED("no axis \"rows\"", share(c.g, c.x, "rows"));
}

static void row_gather_over(void) {
    check_share(sw_gather_over);
}

static void row_sum_over(void) {
    check_share(sw_sum_over);
}

static void row_sum_slice_over(void) {
    check_share(sw_sum_slice_over);
}

static void row_add(void) {
    NO_GRAPH(sw_add(NULL, c.x, c.x));
    NOT_RECORDED("first argument is NULL", sw_add(c.g, NULL, c.x));
    NOT_RECORDED("second argument is NULL", sw_add(c.g, c.x, NULL));
    NOT_RECORDED("another graph", sw_add(c.g, c.x, other.x));
    NOT_RECORDED("list of token ids", sw_add(c.g, c.x, c.tokens));
}

static void row_dropout(void) {
    NO_GRAPH(sw_dropout(NULL, c.x, 0.5));
    NOT_RECORDED("x is NULL", sw_dropout(c.g, NULL, 0.5));
    NOT_RECORDED("x is NULL", sw_dropout(c.g, NULL, 0));
    NOT_RECORDED("probability", sw_dropout(c.g, c.x, 1));
    NOT_RECORDED("probability", sw_dropout(c.g, c.x, -0.1));
    for (int i = 0; i < N_NOT_FINITE; i++)
        NOT_RECORDED("probability", sw_dropout(c.g, c.x, not_finite[i]));
}

static void row_cross_entropy(void) {
    NO_GRAPH(sw_cross_entropy(NULL, c.x, c.table, c.targets));
    NOT_RECORDED("x is NULL", sw_cross_entropy(c.g, NULL, c.table, c.targets));
    NOT_RECORDED("head is NULL", sw_cross_entropy(c.g, c.x, NULL, c.targets));
    NOT_RECORDED("another graph", sw_cross_entropy(c.g, c.x, other.table, c.targets));
    NOT_RECORDED("targets is NULL", sw_cross_entropy(c.g, c.x, c.table, NULL));
    NOT_RECORDED("targets must be", sw_cross_entropy(c.g, c.x, c.table, c.x));
    NOT_RECORDED("has one", (sw_cross_entropy(c.g, c.x, c.table, c.targets),
                             sw_cross_entropy(c.g, c.x, c.table, c.targets)));
}

static void row_predict(void) {
    NO_GRAPH(sw_predict(NULL, c.x, c.table));
    NOT_RECORDED("x is NULL", sw_predict(c.g, NULL, c.table));
    NOT_RECORDED("head is NULL", sw_predict(c.g, c.x, NULL));
    NOT_RECORDED("another graph", sw_predict(c.g, c.x, other.table));
    NOT_RECORDED("another graph", sw_predict(c.g, other.x, c.table));
    NOT_RECORDED("has one", (sw_predict(c.g, c.x, c.table), sw_predict(c.g, c.x, c.table)));
}

static void row_logits_at_position(void) {
    NO_GRAPH(sw_logits_at_position(NULL, c.x, c.table));
    NOT_RECORDED("x is NULL", sw_logits_at_position(c.g, NULL, c.table));
    NOT_RECORDED("head is NULL", sw_logits_at_position(c.g, c.x, NULL));
    NOT_RECORDED("another graph", sw_logits_at_position(c.g, c.x, other.table));
    NOT_RECORDED("has one", (sw_logits_at_position(c.g, c.x, c.table),
                             sw_logits_at_position(c.g, c.x, c.table)));
}

/* ---- launch.h ---- */

static sw_status return_number(sw_comm *comm, void *arg, sw_error *err) {
    (void)comm;
    (void)err;
    return (sw_status) * (const int *)arg;
}

static void row_launch(void) {
    const int ok = SW_OK, no_status = 9999, negative = -1;
    sw_launch_options o = SW_LAUNCH_OPTIONS_INIT;
    REFUSED("options is NULL", sw_launch(NULL, return_number, NULL, err));
    REFUSED("fn, what a rank runs, is NULL", sw_launch(&o, NULL, NULL, err));
#define REFUSED_WITH(words, member, wrong)                                 \
    do {                                                                   \
        sw_launch_options with = o;                                        \
        with.member = wrong;                                               \
        REFUSED(words, sw_launch(&with, return_number, (void *)&ok, err)); \
    } while (0)
    REFUSED_WITH("has size 0", size, 0);
    REFUSED_WITH("has size", size, sizeof o + 1);
    REFUSED_WITH("sw_launch_options.n_ranks is 0; 1 to 256", n_ranks, 0);
    REFUSED_WITH("1 to 256", n_ranks, -1);
    REFUSED_WITH("1 to 256", n_ranks, 257);
    REFUSED_WITH("1 to 256", n_ranks, INT32_MAX);
    REFUSED_WITH("sw_launch_options.mode 3 is none of view, copy, trap", mode, (sw_shm_mode)3);
    REFUSED_WITH("view, copy, trap", mode, (sw_shm_mode)-1);
    REFUSED_WITH("sw_launch_options.deadline_seconds is 0; seconds above 0", deadline_seconds, 0);
    REFUSED_WITH("seconds above 0", deadline_seconds, -1);
    REFUSED_WITH("seconds above 0", deadline_seconds, NAN);
    REFUSED_WITH("n_threads", n_threads, -1);
    REFUSED_WITH("n_threads", n_threads, INT32_MAX);
    REFUSED("returned 9999", sw_launch(&o, return_number, (void *)&no_status, err));
    REFUSED("returned -1", sw_launch(&o, return_number, (void *)&negative, err));
    HOLDS(sw_launch(&o, return_number, (void *)&ok, NULL) == SW_OK);
}

static void row_comm_rank(void) {
    HOLDS(sw_comm_rank(NULL) == -1);
}

static void row_comm_size(void) {
    HOLDS(sw_comm_size(NULL) == 0);
}

static void row_stop_requested(void) {
    HOLDS(sw_stop_requested(NULL) == 0);
}

static void row_saves_requested(void) {
    HOLDS(sw_saves_requested(NULL) == 0);
}

/* A row that needs a rank is run in one; what it complains of is its rank's status. */
static sw_status run_in_rank(sw_comm *comm, void *arg, sw_error *err) {
    void (*const *row)(sw_comm *) = arg;
    n_complaints = 0;
    (*row)(comm);
    return n_complaints ? sw_fail(err, SW_BAD_FILE, "%d complaints", n_complaints) : SW_OK;
}

static void in_rank(void (*row)(sw_comm *)) {
    sw_launch_options o = SW_LAUNCH_OPTIONS_INIT;
    sw_error err = {0};
    if (sw_launch(&o, run_in_rank, &row, &err))
        complain(0, "in a rank", err.message);
}

static void barrier_in_rank(sw_comm *comm) {
    HOLDS(sw_barrier(comm, NULL) == SW_OK);
}

static void row_barrier(void) {
    REFUSED("comm is NULL", sw_barrier(NULL, err));
    in_rank(barrier_in_rank);
}

static void exchange_in_rank(sw_comm *comm) {
    static char bytes[2 * SW_EXCHANGE_BYTES];
    REFUSED("mine is NULL", sw_exchange(comm, NULL, bytes, 1, err));
    REFUSED("all is NULL", sw_exchange(comm, bytes, NULL, 1, err));
    REFUSED("at most 4096", sw_exchange(comm, bytes, bytes, SW_EXCHANGE_BYTES + 1, err));
    REFUSED("at most 4096", sw_exchange(comm, bytes, bytes, SIZE_MAX, err));
    HOLDS(sw_exchange(comm, NULL, NULL, 0, NULL) == SW_OK);
    HOLDS(sw_exchange(comm, bytes, bytes + SW_EXCHANGE_BYTES, SW_EXCHANGE_BYTES, NULL) == SW_OK);
}

static void row_exchange(void) {
    char byte = 0;
    REFUSED("comm is NULL", sw_exchange(NULL, &byte, &byte, 1, err));
    in_rank(exchange_in_rank);
}

/* ---- sharded.h ---- */

/* An object with a unit of one parameter, and things that are not its own. */
typedef struct sharded_case {
    sw_sharded *s, *stranger, *bare; /* bare: not committed */
    sw_unit *unit, *strange_unit, *bare_unit;
    sw_parameter *parameter, *strange_parameter, *bare_parameter, *frozen;
} sharded_case;

static sw_status make_object(sw_comm *comm, sw_sharded **s, sw_unit **unit,
                             sw_parameter **parameter) {
    sw_sharded_options o = SW_SHARDED_OPTIONS_INIT;
    sw_status status = sw_sharded_create(comm, &o, s, NULL);
    if (!status)
        status = sw_sharded_add_unit(*s, "unit", unit, NULL);
    if (!status)
        status = sw_sharded_add_parameter(*s, *unit, "p", 1, (int64_t[]){100},
                                          (sw_initial){SW_INIT_ONES}, parameter, NULL);
    return status;
}

static void make_sharded(sw_comm *comm, sharded_case *k) {
    memset(k, 0, sizeof *k);
    HOLDS(make_object(comm, &k->s, &k->unit, &k->parameter) == SW_OK);
    HOLDS(make_object(comm, &k->stranger, &k->strange_unit, &k->strange_parameter) == SW_OK);
    HOLDS(make_object(comm, &k->bare, &k->bare_unit, &k->bare_parameter) == SW_OK);
    HOLDS(sw_sharded_add_parameter(k->s, k->unit, "frozen", 1, (int64_t[]){10},
                                   (sw_initial){SW_INIT_ONES}, &k->frozen, NULL) == SW_OK);
    sw_parameter_freeze(k->frozen);
    HOLDS(sw_sharded_commit(k->s, NULL) == SW_OK);
}

static void free_sharded(sharded_case *k) {
    sw_sharded_free(k->s);
    sw_sharded_free(k->stranger);
    sw_sharded_free(k->bare);
}

static void create_in_rank(sw_comm *comm) {
    sw_sharded *s = (void *)comm;
    const sw_sharded_options good = SW_SHARDED_OPTIONS_INIT;
    REFUSED("comm is NULL", sw_sharded_create(NULL, &good, &s, err));
    HOLDS(!s);
    REFUSED("options is NULL", sw_sharded_create(comm, NULL, &s, err));
    REFUSED("sharded, where", sw_sharded_create(comm, &good, NULL, err));
#define SHARDED_WITH(words, member, wrong)                       \
    do {                                                         \
        sw_sharded_options with = good;                          \
        with.member = wrong;                                     \
        REFUSED(words, sw_sharded_create(comm, &with, &s, err)); \
    } while (0)
    SHARDED_WITH("has size 3", size, 3);
    SHARDED_WITH("has size", size, sizeof good + 8);
    SHARDED_WITH("optimizer 2", optimizer, (sw_sharded_optimizer)2);
    SHARDED_WITH("optimizer -1", optimizer, (sw_sharded_optimizer)-1);
    for (int i = 0; i < N_NOT_FINITE + 1; i++) {
        double wrong = i < N_NOT_FINITE ? not_finite[i] : -1;
        SHARDED_WITH("beta1", beta1, wrong);
        SHARDED_WITH("beta2", beta2, wrong);
        SHARDED_WITH("momentum", momentum, wrong);
        SHARDED_WITH("epsilon", epsilon, wrong);
        SHARDED_WITH("weight_decay", weight_decay, wrong);
        SHARDED_WITH("clip_norm", clip_norm, wrong);
    }
    SHARDED_WITH("beta1", beta1, 1);
    SHARDED_WITH("epsilon", epsilon, 0);
    SHARDED_WITH("n_gradient_buffers", n_gradient_buffers, 0);
    SHARDED_WITH("n_gradient_buffers", n_gradient_buffers, -1);
    SHARDED_WITH("n_gradient_buffers", n_gradient_buffers, INT32_MAX);
    SHARDED_WITH("stage is -1", stage, -1);
    SHARDED_WITH("stage is 4", stage, 4);
    SHARDED_WITH("parameter_dtype 2", parameter_dtype, (sw_sharded_dtype)2);
    SHARDED_WITH("parameter_dtype -1", parameter_dtype, (sw_sharded_dtype)-1);
    SHARDED_WITH("n_threads is 0", n_threads, 0);
    SHARDED_WITH("n_threads is -1", n_threads, -1);
    SHARDED_WITH("n_threads is 2147483647", n_threads, INT32_MAX);
}

static void row_sharded_create(void) {
    in_rank(create_in_rank);
}

static void row_sharded_free(void) {
    sw_sharded_free(NULL);
}

static void add_unit_in_rank(sw_comm *comm) {
    sharded_case k;
    sw_unit *unit;
    make_sharded(comm, &k);
    REFUSED("sharded is NULL", sw_sharded_add_unit(NULL, "u", &unit, err));
    REFUSED("name is NULL", sw_sharded_add_unit(k.bare, NULL, &unit, err));
    REFUSED("unit, where", sw_sharded_add_unit(k.bare, "u", NULL, err));
    REFUSED("added twice", sw_sharded_add_unit(k.bare, "unit", &unit, err));
    REFUSED("after sw_sharded_commit", sw_sharded_add_unit(k.s, "u", &unit, err));
    REFUSED("needs a name", sw_sharded_add_unit(k.stranger, "", &unit, err));
    free_sharded(&k);
}

static void row_sharded_add_unit(void) {
    in_rank(add_unit_in_rank);
}

static void add_parameter_in_rank(sw_comm *comm) {
    const int64_t two[] = {4, 4}, wrong[][2] = {{0, 4}, {-4, 4}, {INT64_MAX, 4}};
    const sw_initial good = {SW_INIT_ONES};
    sharded_case k;
    sw_parameter *p;
    make_sharded(comm, &k);
    REFUSED("sharded is NULL",
            sw_sharded_add_parameter(NULL, k.bare_unit, "q", 2, two, good, &p, err));
    REFUSED("none of the 1", sw_sharded_add_parameter(k.bare, NULL, "q", 2, two, good, &p, err));
    REFUSED("none of the 1",
            sw_sharded_add_parameter(k.bare, k.strange_unit, "q", 2, two, good, &p, err));
    REFUSED("name is NULL",
            sw_sharded_add_parameter(k.bare, k.bare_unit, NULL, 2, two, good, &p, err));
    REFUSED("dimensions is NULL",
            sw_sharded_add_parameter(k.bare, k.bare_unit, "q", 2, NULL, good, &p, err));
    REFUSED("parameter, where",
            sw_sharded_add_parameter(k.bare, k.bare_unit, "q", 2, two, good, NULL, err));
    REFUSED("after sw_sharded_commit",
            sw_sharded_add_parameter(k.s, k.unit, "q", 2, two, good, &p, err));
    free_sharded(&k);
    /* What the graph refuses stays with it: a new object for each. */
#define REFUSED_ANEW(words, name, n, dimensions, ...)                                     \
    do {                                                                                  \
        make_sharded(comm, &k);                                                           \
        REFUSED(words, sw_sharded_add_parameter(k.bare, k.bare_unit, name, n, dimensions, \
                                                (sw_initial){__VA_ARGS__}, &p, err));     \
        HOLDS(!p);                                                                        \
        free_sharded(&k);                                                                 \
    } while (0)
    REFUSED_ANEW("needs a name", "", 2, two, SW_INIT_ONES);
    REFUSED_ANEW("declared already", "p", 2, two, SW_INIT_ONES);
    REFUSED_ANEW("1 to 4", "q", 0, two, SW_INIT_ONES);
    REFUSED_ANEW("1 to 4", "q", -1, two, SW_INIT_ONES);
    REFUSED_ANEW("1 to 4", "q", 9, two, SW_INIT_ONES);
    for (int i = 0; i < 3; i++)
        REFUSED_ANEW("each dimension", "q", 2, wrong[i], SW_INIT_ONES);
    REFUSED_ANEW("no initializer", "q", 2, two, (sw_initializer)99);
    REFUSED_ANEW("standard deviation", "q", 2, two, SW_INIT_NORMAL, .std = NAN);
    REFUSED_ANEW("standard deviation", "q", 2, two, SW_INIT_UNIFORM, .std = -1);
}

static void row_sharded_add_parameter(void) {
    in_rank(add_parameter_in_rank);
}

static sw_status fill_with_nonsense(void *self, const char *name, int64_t first, int64_t n,
                                    float *values, sw_error *err) {
    (void)self;
    (void)name;
    (void)first;
    (void)err;
    memset(values, 0, (size_t)n * sizeof *values);
    return (sw_status)9999;
}

static void commit_in_rank(sw_comm *comm) {
    sharded_case k;
    sw_sharded_options o = SW_SHARDED_OPTIONS_INIT;
    sw_sharded *empty = NULL;
    sw_parameter *p;
    REFUSED("sharded is NULL", sw_sharded_commit(NULL, err));
    make_sharded(comm, &k);
    REFUSED("called twice", sw_sharded_commit(k.s, err));
    HOLDS(sw_sharded_create(comm, &o, &empty, NULL) == SW_OK);
    REFUSED("no parameter was added", sw_sharded_commit(empty, err));
    sw_sharded_free(empty);
    HOLDS(sw_sharded_add_parameter(k.bare, k.bare_unit, "q", 1, (int64_t[]){4},
                                   (sw_initial){.fill = fill_with_nonsense}, &p, NULL) == SW_OK);
    sw_error err = {0};
    HOLDS(sw_sharded_commit(k.bare, &err) == SW_BAD_CONFIG && strstr(err.message, "returned 9999"));
    free_sharded(&k);
}

static void row_sharded_commit(void) {
    in_rank(commit_in_rank);
}

/* What gather, release and reduce have in common. */
static void wrong_units(sw_comm *comm,
                        sw_status (*call)(sw_sharded *, const sw_unit *, sw_error *)) {
    sharded_case k;
    make_sharded(comm, &k);
    REFUSED("sharded is NULL", call(NULL, k.unit, err));
    REFUSED("none of the 1", call(k.s, NULL, err));
    REFUSED("none of the 1", call(k.s, k.strange_unit, err));
    REFUSED("before sw_sharded_commit", call(k.bare, k.bare_unit, err));
    free_sharded(&k);
}

static void gather_in_rank(sw_comm *comm) {
    sharded_case k;
    wrong_units(comm, sw_sharded_gather);
    make_sharded(comm, &k);
    HOLDS(sw_sharded_gather(k.s, k.unit, NULL) == SW_OK);
    REFUSED("gathered already", sw_sharded_gather(k.s, k.unit, err));
    free_sharded(&k);
}

static void row_sharded_gather(void) {
    in_rank(gather_in_rank);
}

static void values_in_rank(sw_comm *comm) {
    sharded_case k;
    const float *values;
    make_sharded(comm, &k);
    REFUSED("sharded is NULL", sw_sharded_values(NULL, k.parameter, &values, err));
    REFUSED("none of the 2", sw_sharded_values(k.s, NULL, &values, err));
    REFUSED("none of the 2", sw_sharded_values(k.s, k.strange_parameter, &values, err));
    REFUSED("values is NULL", sw_sharded_values(k.s, k.parameter, NULL, err));
    REFUSED("is not gathered", sw_sharded_values(k.s, k.parameter, &values, err));
    HOLDS(!values);
    REFUSED("before sw_sharded_commit", sw_sharded_values(k.bare, k.bare_parameter, &values, err));
    free_sharded(&k);
}

static void values_bf16_in_rank(sw_comm *comm) {
    sharded_case k;
    const uint16_t *values;
    make_sharded(comm, &k);
    REFUSED("sharded is NULL", sw_sharded_values_bf16(NULL, k.parameter, &values, err));
    REFUSED("none of the 2", sw_sharded_values_bf16(k.s, NULL, &values, err));
    REFUSED("none of the 2", sw_sharded_values_bf16(k.s, k.strange_parameter, &values, err));
    REFUSED("values is NULL", sw_sharded_values_bf16(k.s, k.parameter, NULL, err));
    REFUSED("call sw_sharded_values", sw_sharded_values_bf16(k.s, k.parameter, &values, err));
    HOLDS(!values);
    REFUSED("before sw_sharded_commit",
            sw_sharded_values_bf16(k.bare, k.bare_parameter, &values, err));
    free_sharded(&k);
}

static void row_sharded_values_bf16(void) {
    in_rank(values_bf16_in_rank);
}

static void row_sharded_values(void) {
    in_rank(values_in_rank);
}

static void release_in_rank(sw_comm *comm) {
    sharded_case k;
    wrong_units(comm, sw_sharded_release);
    make_sharded(comm, &k);
    REFUSED("is not gathered", sw_sharded_release(k.s, k.unit, err));
    free_sharded(&k);
}

static void row_sharded_release(void) {
    in_rank(release_in_rank);
}

static void gradient_in_rank(sw_comm *comm) {
    sharded_case k;
    float *gradient;
    make_sharded(comm, &k);
    REFUSED("sharded is NULL", sw_sharded_gradient(NULL, k.parameter, &gradient, err));
    REFUSED("none of the 2", sw_sharded_gradient(k.s, NULL, &gradient, err));
    REFUSED("none of the 2", sw_sharded_gradient(k.s, k.strange_parameter, &gradient, err));
    REFUSED("gradient is NULL", sw_sharded_gradient(k.s, k.parameter, NULL, err));
    REFUSED("is frozen", sw_sharded_gradient(k.s, k.frozen, &gradient, err));
    REFUSED("before sw_sharded_commit",
            sw_sharded_gradient(k.bare, k.bare_parameter, &gradient, err));
    free_sharded(&k);
}

static void row_sharded_gradient(void) {
    in_rank(gradient_in_rank);
}

static void reduce_in_rank(sw_comm *comm) {
    sharded_case k;
    wrong_units(comm, sw_sharded_reduce);
    make_sharded(comm, &k);
    REFUSED("no open gradients", sw_sharded_reduce(k.s, k.unit, err));
    free_sharded(&k);
}

static void row_sharded_reduce(void) {
    in_rank(reduce_in_rank);
}

static void step_in_rank(sw_comm *comm) {
    sharded_case k;
    double norm;
    make_sharded(comm, &k);
    REFUSED("sharded is NULL", sw_sharded_step(NULL, 0.1, &norm, err));
    REFUSED("learning rate", sw_sharded_step(k.s, -0.1, &norm, err));
    for (int i = 0; i < N_NOT_FINITE; i++)
        REFUSED("learning rate", sw_sharded_step(k.s, not_finite[i], &norm, err));
    REFUSED("was not reduced", sw_sharded_step(k.s, 0.1, &norm, err));
    REFUSED("before sw_sharded_commit", sw_sharded_step(k.bare, 0.1, NULL, err));
    free_sharded(&k);
}

static void row_sharded_step(void) {
    in_rank(step_in_rank);
}

static void fetch_in_rank(sw_comm *comm) {
    sharded_case k;
    float values[100];
    make_sharded(comm, &k);
    REFUSED("sharded is NULL", sw_sharded_fetch(NULL, k.parameter, values, err));
    REFUSED("none of the 2", sw_sharded_fetch(k.s, NULL, values, err));
    REFUSED("none of the 2", sw_sharded_fetch(k.s, k.strange_parameter, values, err));
    REFUSED("values is NULL", sw_sharded_fetch(k.s, k.parameter, NULL, err));
    REFUSED("before sw_sharded_commit", sw_sharded_fetch(k.bare, k.bare_parameter, values, err));
    free_sharded(&k);
}

static void row_sharded_fetch(void) {
    in_rank(fetch_in_rank);
}

/* ---- train.h ---- */

static sw_status trace_with(void *self, sw_graph *g, sw_error *err) {
    switch (*(const int *)self) {
    case 0: /* records nothing */
        return SW_OK;
    case 1:
        sw_linear(g, NULL, NULL, NULL, SW_OUT_IN);
        return SW_OK;
    case 2:
        sw_linear(NULL, NULL, NULL, NULL, SW_OUT_IN);
        return SW_OK;
    case 3:
        sw_parameter_declare(g, sw_unit_declare(g, NULL, "root"), NULL, 2, NULL, SW_INIT_NORMAL,
                             0.1);
        return sw_graph_status(g, err);
    case 4:
        return (sw_status)9999;
    default:
        return sw_graph_status(NULL, err);
    }
}

static void row_train_file(void) {
    const sw_train_options good = SW_TRAIN_OPTIONS_INIT;
    const char *const settings[] = {"train.steps=1", NULL};
    REFUSED("run_yaml is NULL", sw_train_file(NULL, NULL, 0, &good, err));
    REFUSED("nowhere.yaml", sw_train_file("nowhere.yaml", NULL, 0, &good, err));
    REFUSED("overrides, of which there are 3, are NULL at 0",
            sw_train_file("run.yaml", NULL, 3, &good, err));
    REFUSED("overrides, of which there are 2, are NULL at 1",
            sw_train_file("run.yaml", settings, 2, &good, err));
    REFUSED("overrides are -1", sw_train_file("run.yaml", settings, -1, &good, err));
    REFUSED("options is NULL", sw_train_file("run.yaml", NULL, 0, NULL, err));
#define TRAIN_WITH(words, member, wrong)                                    \
    do {                                                                    \
        sw_train_options with = good;                                       \
        with.member = wrong;                                                \
        REFUSED(words, sw_train_file("run.yaml", settings, 1, &with, err)); \
    } while (0)
    TRAIN_WITH("has size 0", size, 0);
    TRAIN_WITH("has size", size, 1 << 20);
    TRAIN_WITH("faults are -2", n_faults, -2);
    TRAIN_WITH("faults, of which there are 2, are NULL at 0", n_faults, 2);
    sw_custom_model model = {trace_with, NULL, 0};
    TRAIN_WITH("vocabulary of at least 1", model, &model);
    model.vocabulary = -1;
    TRAIN_WITH("vocabulary of at least 1", model, &model);
    model = (sw_custom_model){NULL, NULL, 256};
    TRAIN_WITH("needs a trace function", model, &model);
    static const char *const words[] = {"has no loss",  "x is NULL",     "has no loss",
                                        "needs a name", "returned 9999", "the graph is NULL"};
    for (int i = 0; i < 6; i++) {
        model = (sw_custom_model){trace_with, &i, 256};
        TRAIN_WITH(words[i], model, &model);
    }
    HOLDS(access("new", F_OK) != 0);
}

static void row_train_text(void) {
    const sw_train_options good = SW_TRAIN_OPTIONS_INIT;
    const char *const settings[] = {"train.steps=1", NULL};
    const char text[] = "data: {train: [text.txt], tokenizer: bytes, sequence_length: 8}\n"
                        "checkpoint: {path: new}\n";
    REFUSED("text is NULL", sw_train_text(NULL, NULL, NULL, 0, &good, err));
    REFUSED("no model is named", sw_train_text("", NULL, NULL, 0, &good, err));
    REFUSED("the settings' text:2",
            sw_train_text("data:\n  trian: [x]\n", NULL, NULL, 0, &good, err));
    REFUSED("nowhere", sw_train_text(text, "nowhere", NULL, 0, &good, err));
    REFUSED("no folder", sw_train_text(text, "text.txt", NULL, 0, &good, err));
    REFUSED("sw_train_text: overrides, of which there are 3, are NULL at 0",
            sw_train_text(text, NULL, NULL, 3, &good, err));
    REFUSED("sw_train_text: overrides are -1", sw_train_text(text, NULL, settings, -1, &good, err));
    REFUSED("sw_train_text: options is NULL", sw_train_text(text, NULL, settings, 1, NULL, err));
    sw_train_options with = good;
    with.size = 0;
    REFUSED("has size 0", sw_train_text(text, NULL, settings, 1, &with, err));
    with = good;
    with.n_faults = 1;
    REFUSED("sw_train_text: sw_train_options.faults",
            sw_train_text(text, NULL, settings, 1, &with, err));
    HOLDS(access("new", F_OK) != 0);
}

static void row_plan_text(void) {
    const sw_train_options good = SW_TRAIN_OPTIONS_INIT;
    const char text[] = "data: {sequence_length: 8}\n";
    char *json = (char *)text;
    REFUSED("text is NULL", sw_plan_text(NULL, NULL, NULL, 0, &good, &json, err));
    HOLDS(!json);
    REFUSED("json is NULL", sw_plan_text(text, NULL, NULL, 0, &good, NULL, err));
    REFUSED("no model is named", sw_plan_text(text, NULL, NULL, 0, &good, &json, err));
    REFUSED("nowhere", sw_plan_text(text, "nowhere", NULL, 0, &good, &json, err));
    REFUSED("sw_plan_text: overrides, of which there are 1, are NULL at 0",
            sw_plan_text(text, NULL, NULL, 1, &good, &json, err));
    REFUSED("sw_plan_text: options is NULL", sw_plan_text(text, NULL, NULL, 0, NULL, &json, err));
    sw_train_options with = good;
    with.size = 1;
    REFUSED("has size 1", sw_plan_text(text, NULL, NULL, 0, &with, &json, err));
    with = good;
    sw_custom_model model = {trace_with, NULL, 0};
    with.model = &model;
    REFUSED("vocabulary of at least 1", sw_plan_text(text, NULL, NULL, 0, &with, &json, err));
    HOLDS(!json);
}

static void row_evaluate_text(void) {
    const sw_train_options good = SW_TRAIN_OPTIONS_INIT;
    const char text[] = "data: {sequence_length: 8}\ncheckpoint: {path: new}\n";
    double loss;
    int64_t n;
    REFUSED("text is NULL", sw_evaluate_text(NULL, NULL, NULL, 0, &good, &loss, &n, err));
    REFUSED("loss is NULL", sw_evaluate_text(text, NULL, NULL, 0, &good, NULL, &n, err));
    REFUSED("nowhere", sw_evaluate_text(text, "nowhere", NULL, 0, &good, &loss, &n, err));
    REFUSED("sw_evaluate_text: overrides are -1",
            sw_evaluate_text(text, NULL, NULL, -1, &good, &loss, NULL, err));
    REFUSED("sw_evaluate_text: options is NULL",
            sw_evaluate_text(text, NULL, NULL, 0, NULL, &loss, NULL, err));
    REFUSED("no model is named", sw_evaluate_text(text, NULL, NULL, 0, &good, &loss, NULL, err));
    sw_train_options with = good;
    with.size = 1;
    REFUSED("has size 1", sw_evaluate_text(text, NULL, NULL, 0, &with, &loss, NULL, err));
    with = good;
    sw_custom_model model = {trace_with, NULL, 256};
    with.model = &model;
    REFUSED("new/model does not exist yet",
            sw_evaluate_text(text, NULL, NULL, 0, &with, &loss, NULL, err));
}

static void drop_text(void *to, const char *bytes, size_t n_bytes) {
    (void)to;
    (void)bytes;
    (void)n_bytes;
}

static void row_generate_text(void) {
    sw_train_options good = SW_TRAIN_OPTIONS_INIT;
    sw_custom_model model = {trace_with, NULL, 256};
    const char text[] = "data: {sequence_length: 8}\ncheckpoint: {path: new}\n";
    sw_writing_options how = SW_WRITING_OPTIONS_INIT;
    how.text = drop_text;
    good.model = &model;
    REFUSED("text is NULL", sw_generate_text(NULL, NULL, NULL, 0, &good, "a", &how, err));
    REFUSED("prompt is NULL", sw_generate_text(text, NULL, NULL, 0, &good, NULL, &how, err));
    REFUSED("how is NULL", sw_generate_text(text, NULL, NULL, 0, &good, "a", NULL, err));
    REFUSED("nowhere", sw_generate_text(text, "nowhere", NULL, 0, &good, "a", &how, err));
    REFUSED("sw_generate_text: overrides are -1",
            sw_generate_text(text, NULL, NULL, -1, &good, "a", &how, err));
    REFUSED("sw_generate_text: options is NULL",
            sw_generate_text(text, NULL, NULL, 0, NULL, "a", &how, err));
    REFUSED("new/model does not exist yet",
            sw_generate_text(text, NULL, NULL, 0, &good, "a", &how, err));
    const char *const there[] = {"model.path=."};
#define WRITING_WITH(words, member, wrong)                                              \
    do {                                                                                \
        sw_writing_options with = how;                                                  \
        with.member = wrong;                                                            \
        REFUSED(words, sw_generate_text(text, NULL, there, 1, &good, "a", &with, err)); \
    } while (0)
    WRITING_WITH("has size 0", size, 0);
    WRITING_WITH("sw_writing_options.text is NULL", text, NULL);
    WRITING_WITH("at least 1", max_tokens, 0);
    WRITING_WITH("temperature", temperature, -1);
    WRITING_WITH("temperature", temperature, NAN);
    WRITING_WITH("top_k", top_k, -1);
    WRITING_WITH("top_p", top_p, 0);
    WRITING_WITH("top_p", top_p, NAN);
    REFUSED("prompt 1 is empty", sw_generate_text(text, NULL, there, 1, &good, "", &how, err));
}

static void save_in_rank(sw_comm *comm) {
    sharded_case k;
    make_sharded(comm, &k);
    REFUSED("sharded is NULL", sw_sharded_save(NULL, "saved", err));
    REFUSED("folder is NULL", sw_sharded_save(k.s, NULL, err));
    REFUSED("before sw_sharded_commit", sw_sharded_save(k.bare, "saved", err));
    HOLDS(sw_sharded_gather(k.s, k.unit, NULL) == SW_OK);
    REFUSED("is gathered", sw_sharded_save(k.s, "saved", err));
    HOLDS(access("saved", F_OK) != 0);
    free_sharded(&k);
}

static void row_sharded_save(void) {
    in_rank(save_in_rank);
}

static void load_in_rank(sw_comm *comm) {
    sharded_case k;
    int64_t loaded;
    make_sharded(comm, &k);
    REFUSED("sharded is NULL", sw_sharded_load(NULL, "saved", 0, &loaded, err));
    REFUSED("folder is NULL", sw_sharded_load(k.s, NULL, 0, &loaded, err));
    REFUSED("step is -2", sw_sharded_load(k.s, "saved", -2, &loaded, err));
    REFUSED("before sw_sharded_commit", sw_sharded_load(k.bare, "saved", 0, &loaded, err));
    HOLDS(sw_sharded_save(k.s, "saved", NULL) == SW_OK &&
          sw_sharded_load(k.s, "saved", 0, NULL, NULL) == SW_OK);
    free_sharded(&k);
}

static void row_sharded_load(void) {
    in_rank(load_in_rank);
}

/* ---- the table ---- */

static const struct {
    const char *name;
    void (*run)(void);
} rows[] = {
    {"sw_fail", row_fail},
    {"sw_fail_within", row_fail_within},
    {"sw_status_name", row_status_name},
    {"sw_status_exit_code", row_status_exit_code},
    {"sw_version", row_version},
    {"sw_graph_create", row_graph_create},
    {"sw_graph_free", row_graph_free},
    {"sw_graph_status", row_graph_status},
    {"sw_unit_declare", row_unit_declare},
    {"sw_parameter_declare", row_parameter_declare},
    {"sw_parameter_freeze", row_parameter_freeze},
    {"sw_tokens", row_tokens},
    {"sw_targets", row_targets},
    {"sw_documents", row_documents},
    {"sw_call", row_call},
    {"sw_embedding", row_embedding},
    {"sw_add_positions", row_add_positions},
    {"sw_add_positions_within", row_add_positions_within},
    {"sw_linear", row_linear},
    {"sw_linear_several", row_linear_several},
    {"sw_rmsnorm", row_rmsnorm},
    {"sw_rmsnorm_heads", row_rmsnorm_heads},
    {"sw_layernorm", row_layernorm},
    {"sw_rotary", row_rotary},
    {"sw_rotary_scaled", row_rotary_scaled},
    {"sw_rotary_packed", row_rotary_packed},
    {"sw_attention", row_attention},
    {"sw_attention_packed", row_attention_packed},
    {"sw_attention_with", row_attention_with},
    {"sw_attention_packed_with", row_attention_packed_with},
    {"sw_activate", row_activate},
    {"sw_gelu", row_gelu},
    {"sw_swiglu", row_swiglu},
    {"sw_swiglu_packed", row_swiglu_packed},
    {"sw_scale", row_scale},
    {"sw_gather_over", row_gather_over},
    {"sw_sum_over", row_sum_over},
    {"sw_sum_slice_over", row_sum_slice_over},
    {"sw_add", row_add},
    {"sw_dropout", row_dropout},
    {"sw_cross_entropy", row_cross_entropy},
    {"sw_predict", row_predict},
    {"sw_logits_at_position", row_logits_at_position},
    {"sw_launch", row_launch},
    {"sw_comm_rank", row_comm_rank},
    {"sw_comm_size", row_comm_size},
    {"sw_stop_requested", row_stop_requested},
    {"sw_saves_requested", row_saves_requested},
    {"sw_barrier", row_barrier},
    {"sw_exchange", row_exchange},
    {"sw_sharded_create", row_sharded_create},
    {"sw_sharded_free", row_sharded_free},
    {"sw_sharded_add_unit", row_sharded_add_unit},
    {"sw_sharded_add_parameter", row_sharded_add_parameter},
    {"sw_sharded_commit", row_sharded_commit},
    {"sw_sharded_gather", row_sharded_gather},
    {"sw_sharded_values", row_sharded_values},
    {"sw_sharded_save", row_sharded_save},
    {"sw_sharded_load", row_sharded_load},
    {"sw_sharded_values_bf16", row_sharded_values_bf16},
    {"sw_sharded_release", row_sharded_release},
    {"sw_sharded_gradient", row_sharded_gradient},
    {"sw_sharded_reduce", row_sharded_reduce},
    {"sw_sharded_step", row_sharded_step},
    {"sw_sharded_fetch", row_sharded_fetch},
    {"sw_train_file", row_train_file},
    {"sw_train_text", row_train_text},
    {"sw_plan_text", row_plan_text},
    {"sw_evaluate_text", row_evaluate_text},
    {"sw_generate_text", row_generate_text},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static void each_argument_is_checked(void **state) {
    (void)state;
    make_graph(&other);
    for (int i = 0; i < N_ROWS; i++) {
        n_complaints = 0;
        rows[i].run();
        if (n_complaints)
            fail_msg("%s: %d complaints", rows[i].name, n_complaints);
    }
    sw_graph_free(c.g);
    sw_graph_free(other.g);
}

/* The name that a line declares with SW_API, "" if it declares none. */
static void declared_name(const char *line, char name[64]) {
    const char *end = strncmp(line, "SW_API ", 7) ? NULL : strchr(line, '('), *begin = end;
    while (begin && begin > line && (isalnum((unsigned char)begin[-1]) || begin[-1] == '_'))
        begin--;
    snprintf(name, 64, "%.*s", begin ? (int)(end - begin) : 0, begin ? begin : "");
}

static void every_public_function_has_a_row(void **state) {
    (void)state;
    char line[512], name[64];
    int n_declared = 0;
    glob_t found;
    assert_int_equal(glob(SW_SOURCE_FOLDER "/include/shardwise/*.h", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *header = fopen(found.gl_pathv[i], "r");
        assert_non_null(header);
        while (fgets(line, sizeof line, header)) {
            declared_name(line, name);
            if (!*name)
                continue;
            int row = 0;
            while (row < N_ROWS && strcmp(rows[row].name, name))
                row++;
            if (row == N_ROWS)
                fail_msg("%s has no row: call it with each of its arguments wrong", name);
            n_declared++;
        }
        fclose(header);
    }
    globfree(&found);
    assert_int_equal(n_declared, N_ROWS);
}

/* A folder with text and settings, which is the current one from then on. */
static int enter_folder(void **state) {
    char folder[FOLDER_BYTES];
    *state = folder_make(folder) && chdir(folder) == 0 ? strdup(folder) : NULL;
    FILE *text = fopen("text.txt", "w"), *settings = fopen("run.yaml", "w");
    if (!*state || !text || !settings)
        return -1;
    for (int i = 0; i < 200; i++)
        fprintf(text, "line %d\n", i);
    fputs(
        "data: {train: [text.txt], tokenizer: bytes, sequence_length: 8}\n"
        "train: {batch_size: 2, micro_batch_size: 1}\nshard: {ranks: 1}\ncheckpoint: {path: new}\n",
        settings);
    return fclose(text) || fclose(settings);
}

static int leave_folder(void **state) {
    bool is_left = chdir("/") == 0 && folder_remove(*state) == 0;
    free(*state);
    return is_left ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_argument_is_checked, enter_folder, leave_folder),
        cmocka_unit_test(every_public_function_has_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
