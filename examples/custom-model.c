/* custom-model.c: train a model of your own, written as a C function, split over ranks.
 *
 * The model is its forward pass. Here: blocks in which attention and MLP read the same norm side by
 * side (Wang and Komatsuzaki 2021), rotary positions, one table that is embedding and head.
 * Gradients, sharding, memory and optimizer follow from it.
 *
 *     cc custom-model.c $(pkg-config --cflags --libs shardwise) -o custom-model && ./custom-model
 *
 * It writes custom-model.txt and the run's folder custom-model-run where it is started;
 * custom-model-run/model/model.safetensors has the weights by these names. At the end it goes on
 * from two words.
 */
#include <stdio.h>

#include <shardwise.h>

enum { LAYERS = 2, CHANNELS = 64, HEADS = 4, KV_HEADS = 2, FFN = 128, BYTES = 256 };

typedef struct layer {
    sw_parameter *norm, *q, *k, *v, *out, *gate, *up, *down;
} layer;

static sw_parameter *matrix(sw_graph *g, sw_unit *unit, const char *name, int64_t rows,
                            int64_t columns) {
    return sw_parameter_declare(g, unit, name, 2, (int64_t[]){rows, columns}, SW_INIT_NORMAL, 0.05);
}

static sw_parameter *norm(sw_graph *g, sw_unit *unit, const char *name) {
    return sw_parameter_declare(g, unit, name, 1, (int64_t[]){CHANNELS}, SW_INIT_ONES, 0);
}

static layer declare_layer(sw_graph *g, sw_unit *unit, int i) {
    char name[32];
    layer l;
    int64_t kv = CHANNELS / HEADS * KV_HEADS;
#define NAME(part) (snprintf(name, sizeof name, "layers.%d.%s", i, part), name)
    l.norm = norm(g, unit, NAME("norm"));
    l.q = matrix(g, unit, NAME("q"), CHANNELS, CHANNELS);
    l.k = matrix(g, unit, NAME("k"), kv, CHANNELS);
    l.v = matrix(g, unit, NAME("v"), kv, CHANNELS);
    l.out = matrix(g, unit, NAME("out"), CHANNELS, CHANNELS);
    l.gate = matrix(g, unit, NAME("gate"), FFN, CHANNELS);
    l.up = matrix(g, unit, NAME("up"), FFN, CHANNELS);
    l.down = matrix(g, unit, NAME("down"), CHANNELS, FFN);
#undef NAME
    return l;
}

static sw_value *linear(sw_graph *g, sw_value *x, sw_parameter *weight) {
    return sw_linear(g, x, weight, NULL, SW_OUT_IN);
}

/* x [B*T, C] -> x + attention(n) + mlp(n), n = norm(x) */
static sw_value *block(sw_graph *g, void *self, sw_value *x) {
    const layer *l = self;
    sw_value *n = sw_rmsnorm(g, x, l->norm, 1e-5);
    sw_value *q = sw_rotary(g, linear(g, n, l->q), CHANNELS / HEADS, 1e4);
    sw_value *k = sw_rotary(g, linear(g, n, l->k), CHANNELS / HEADS, 1e4);
    sw_value *attended =
        linear(g, sw_attention(g, q, k, linear(g, n, l->v), HEADS, KV_HEADS), l->out);
    sw_value *mlp = linear(g, sw_swiglu(g, linear(g, n, l->gate), linear(g, n, l->up)), l->down);
    return sw_add(g, x, sw_add(g, attended, mlp));
}

static sw_status trace(void *self, sw_graph *g, sw_error *err) {
    (void)self;
    sw_unit *root = sw_unit_declare(g, NULL, "root");
    sw_parameter *table = matrix(g, root, "table", BYTES, CHANNELS);
    sw_value *x = sw_embedding(g, sw_tokens(g), table);
    for (int i = 0; i < LAYERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%d", i);
        sw_unit *unit = sw_unit_declare(g, root, name);
        layer l = declare_layer(g, unit, i);
        x = sw_call(g, unit, block, &l, x);
    }
    sw_predict(g, sw_rmsnorm(g, x, norm(g, root, "norm"), 1e-5), table);
    return sw_graph_status(g, err);
}

/* Called in a rank, which is a process of its own. */
static void show_step(void *to, const sw_progress *p) {
    (void)to;
    if (p->is_logged)
        printf("step %2d of %d: loss %.3f\n", (int)p->step, (int)p->n_steps, p->loss),
            fflush(stdout);
}

static void show_text(void *to, const char *bytes, size_t n_bytes) {
    fwrite(bytes, 1, n_bytes, to), fflush(to);
}

static int write_file(const char *path, const char *text, int times) {
    FILE *file = fopen(path, "w");
    for (int i = 0; file && i < times; i++)
        fputs(text, file);
    return file && fclose(file) == 0;
}

int main(void) {
    static const char text[] = "She sells sea shells by the sea shore; the shells that she sells "
                               "are sea shells for sure.\n";
    static const char settings[] =
        "data: {train: [custom-model.txt], tokenizer: bytes, sequence_length: 64}\n"
        "train: {steps: 40, batch_size: 8, micro_batch_size: 2}\n"
        "optimizer: {learning_rate: 1e-2, warmup_steps: 5}\n"
        "shard: {ranks: 2, stage: 3}\n"
        "checkpoint: {path: custom-model-run}\n"
        "log: {every: 10}\n";
    if (!write_file("custom-model.txt", text, 100)) {
        perror("custom-model: custom-model.txt");
        return 1;
    }
    sw_custom_model model = {.trace = trace, .vocabulary = BYTES};
    sw_train_options options = SW_TRAIN_OPTIONS_INIT;
    options.model = &model;
    options.listener.step = show_step;
    sw_error err;
    sw_status status = sw_train_text(settings, NULL, NULL, 0, &options, &err);
    sw_writing_options how = SW_WRITING_OPTIONS_INIT;
    how.max_tokens = 40, how.temperature = 0, how.text = show_text, how.to = stdout;
    if (status == SW_OK)
        printf("She sells"), fflush(stdout);
    if (status == SW_OK)
        status = sw_generate_text(settings, NULL, NULL, 0, &options, "She sells", &how, &err);
    printf("\n");
    if (status != SW_OK)
        fprintf(stderr, "custom-model: %s\n", err.message);
    return sw_status_exit_code(status);
}
