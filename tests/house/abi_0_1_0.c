/* A program as it was built with the headers of 0.1.0: tests/abi/0.1.0. What it does must be the
 * same with today's library. */
#include <shardwise.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static int n_wrong;

static void holds(int is_right, const char *what) {
    if (!is_right) {
        fprintf(stderr, "0.1.0: %s\n", what);
        n_wrong++;
    }
}

/* Options end with `documents` here; what lies behind them is nobody's. */
static void attention_reads_what_it_knew(void) {
    sw_error err;
    sw_graph *graph;
    struct {
        sw_attention_options options;
        unsigned char behind[64];
    } mine = {.options = {.span = 2, .scale = 0.5}};
    memset(mine.behind, 0xff, sizeof mine.behind);
    holds(sw_graph_create(1, 4, &graph, &err) == SW_OK, "sw_graph_create");
    sw_unit *unit = sw_unit_declare(graph, NULL, "root");
    int64_t table[] = {5, 8}, wide[] = {24, 8};
    sw_parameter *embedding =
        sw_parameter_declare(graph, unit, "table", 2, table, SW_INIT_NORMAL, 0.02);
    sw_parameter *weight = sw_parameter_declare(graph, unit, "qkv", 2, wide, SW_INIT_NORMAL, 0.02);
    sw_value *x = sw_embedding(graph, sw_tokens(graph), embedding);
    sw_value *y = sw_attention_with(graph, x, x, x, 2, 2, &mine.options);
    holds(y != NULL, "sw_attention_with");
    holds(sw_attention_packed_with(graph, sw_linear(graph, y, weight, NULL, SW_OUT_IN), 2, 2,
                                   &mine.options) != NULL,
          "sw_attention_packed_with");
    holds(sw_graph_status(graph, &err) == SW_OK, err.message);
    sw_graph_free(graph);
}

static sw_status train(sw_comm *comm, void *arg, sw_error *err) {
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT;
    sw_sharded *sharded;
    (void)arg;
    options.optimizer = SW_SHARDED_SGD;
    options.momentum = 0;
    sw_status status = sw_sharded_create(comm, &options, &sharded, err);
    if (!status)
        sw_sharded_free(sharded);
    return status ? status : sw_barrier(comm, err);
}

static int n_lines;

static void line(void *to, const char *text) {
    holds(to == &n_lines && text != NULL, "a listener's line");
    n_lines++;
}

int main(int argc, char **argv) {
    sw_error err = {SW_OK, ""};
    sw_launch_options launch = SW_LAUNCH_OPTIONS_INIT;
    launch.n_ranks = 2;
    holds(sw_launch(&launch, train, NULL, &err) == SW_OK, err.message);
    attention_reads_what_it_knew();
    struct {
        sw_train_options options;
        unsigned char behind[64];
    } mine = {.options = SW_TRAIN_OPTIONS_INIT};
    memset(mine.behind, 0xff, sizeof mine.behind);
    mine.options.listener = (sw_listener){.line = line, .to = &n_lines};
    mine.options.dry_run = true;
    holds(argc == 2 && sw_train_file(argv[1], NULL, 0, &mine.options, &err) == SW_OK, err.message);
    holds(n_lines > 5, "a dry run reports");
    return n_wrong != 0;
}
