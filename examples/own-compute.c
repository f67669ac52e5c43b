/* own-compute.c: computation of your own on parameters that the library splits over ranks.
 *
 * A network with one hidden layer learns y = x0 * x1; forward and backward are the loops below.
 * Each rank keeps a slice of the parameters, of their gradients and of Adam's moments. A step is 6
 * micro-batches, dealt to the ranks in turn, so 1, 2 and 3 ranks compute the same: the program
 * trains with each and compares the results bit by bit.
 *
 *     cc own-compute.c $(pkg-config --cflags --libs shardwise) -lm -o own-compute && ./own-compute
 */
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>

#include <shardwise.h>

enum { HIDDEN = 24, ROWS = 16, MICRO_BATCHES = 6, STEPS = 400 };

/* TRY returns from a rank; then sw_launch ends the others and has the message. */
#define TRY(call)                      \
    do {                               \
        sw_status try_status = (call); \
        if (try_status != SW_OK)       \
            return try_status;         \
    } while (0)

typedef struct network {
    sw_sharded *parameters;
    sw_unit *first, *second;
    sw_parameter *w1, *b1, *w2, *b2; /* [HIDDEN, 2], [HIDDEN], [1, HIDDEN], [1] */
} network;

typedef struct weights {
    float w1[HIDDEN][2], b1[HIDDEN], w2[HIDDEN], b2;
} weights;

/* Row i of the data, spread evenly over the square from -1 to 1. */
static void row(int i, float x[2], float *y) {
    x[0] = (float)(2 * fmod(0.5 + i * 0.7548776662466927, 1) - 1);
    x[1] = (float)(2 * fmod(0.5 + i * 0.5698402909980532, 1) - 1);
    *y = x[0] * x[1];
}

static sw_status declare(network *n, sw_error *err) {
    sw_sharded *p = n->parameters;
    sw_initial normal = {.initializer = SW_INIT_NORMAL, .std = 0.7},
               zero = {.initializer = SW_INIT_ZEROS};
    TRY(sw_sharded_add_unit(p, "first", &n->first, err));
    TRY(sw_sharded_add_parameter(p, n->first, "w1", 2, (int64_t[]){HIDDEN, 2}, normal, &n->w1,
                                 err));
    TRY(sw_sharded_add_parameter(p, n->first, "b1", 1, (int64_t[]){HIDDEN}, zero, &n->b1, err));
    TRY(sw_sharded_add_unit(p, "second", &n->second, err));
    TRY(sw_sharded_add_parameter(p, n->second, "w2", 2, (int64_t[]){1, HIDDEN}, normal, &n->w2,
                                 err));
    TRY(sw_sharded_add_parameter(p, n->second, "b2", 1, (int64_t[]){1}, zero, &n->b2, err));
    return sw_sharded_commit(p, err);
}

/* Loss and gradients of one micro-batch: mean of (out - y)^2 over the rows of the whole step,
 * hidden = tanh(w1 x + b1), out = w2 hidden + b2. */
static sw_status micro_batch(network *n, int k, sw_error *err) {
    const float *w1, *b1, *w2, *b2;
    float *dw1, *db1, *dw2, *db2, x[ROWS][2], y[ROWS], hidden[ROWS][HIDDEN], dhidden[ROWS][HIDDEN];

    TRY(sw_sharded_gather(n->parameters, n->first, err));
    TRY(sw_sharded_values(n->parameters, n->w1, &w1, err));
    TRY(sw_sharded_values(n->parameters, n->b1, &b1, err));
    for (int r = 0; r < ROWS; r++) {
        row(k * ROWS + r, x[r], &y[r]);
        for (int h = 0; h < HIDDEN; h++)
            hidden[r][h] = tanhf(w1[2 * h] * x[r][0] + w1[2 * h + 1] * x[r][1] + b1[h]);
    }
    TRY(sw_sharded_release(n->parameters, n->first,
                           err)); /* backward does not need it: nothing flows back into x */

    TRY(sw_sharded_gather(n->parameters, n->second, err));
    TRY(sw_sharded_values(n->parameters, n->w2, &w2, err));
    TRY(sw_sharded_values(n->parameters, n->b2, &b2, err));
    TRY(sw_sharded_gradient(n->parameters, n->w2, &dw2, err));
    TRY(sw_sharded_gradient(n->parameters, n->b2, &db2, err));
    for (int r = 0; r < ROWS; r++) {
        float out = b2[0];
        for (int h = 0; h < HIDDEN; h++)
            out += w2[h] * hidden[r][h];
        float dout = 2 * (out - y[r]) / (MICRO_BATCHES * ROWS);
        db2[0] += dout;
        for (int h = 0; h < HIDDEN; h++) {
            dw2[h] += dout * hidden[r][h];
            dhidden[r][h] = dout * w2[h] * (1 - hidden[r][h] * hidden[r][h]);
        }
    }
    TRY(sw_sharded_release(n->parameters, n->second, err));
    TRY(sw_sharded_reduce(n->parameters, n->second, err));

    TRY(sw_sharded_gradient(n->parameters, n->w1, &dw1, err));
    TRY(sw_sharded_gradient(n->parameters, n->b1, &db1, err));
    for (int r = 0; r < ROWS; r++)
        for (int h = 0; h < HIDDEN; h++) {
            dw1[2 * h] += dhidden[r][h] * x[r][0];
            dw1[2 * h + 1] += dhidden[r][h] * x[r][1];
            db1[h] += dhidden[r][h];
        }
    return sw_sharded_reduce(n->parameters, n->first, err);
}

static sw_status train(network *n, int rank, int n_ranks, weights *result, sw_error *err) {
    weights w;
    double norm;
    TRY(declare(n, err));
    for (int step = 0; step < STEPS; step++) {
        for (int slot = 0; slot < MICRO_BATCHES / n_ranks; slot++)
            TRY(micro_batch(n, slot * n_ranks + rank, err));
        TRY(sw_sharded_step(n->parameters, 0.02, &norm, err));
    }
    TRY(sw_sharded_fetch(n->parameters, n->w1, &w.w1[0][0], err));
    TRY(sw_sharded_fetch(n->parameters, n->b1, w.b1, err));
    TRY(sw_sharded_fetch(n->parameters, n->w2, w.w2, err));
    TRY(sw_sharded_fetch(n->parameters, n->b2, &w.b2, err));
    if (rank == 0)
        *result = w;
    return SW_OK;
}

static sw_status run_rank(sw_comm *comm, void *result, sw_error *err) {
    network n = {0};
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT; /* AdamW */
    TRY(sw_sharded_create(comm, &options, &n.parameters, err));
    sw_status status = train(&n, sw_comm_rank(comm), sw_comm_size(comm), result, err);
    sw_sharded_free(n.parameters);
    return status;
}

static double loss_of(const weights *w) {
    double sum = 0;
    for (int i = 0; i < MICRO_BATCHES * ROWS; i++) {
        float x[2], y, out = w->b2;
        row(i, x, &y);
        for (int h = 0; h < HIDDEN; h++)
            out += w->w2[h] * tanhf(w->w1[h][0] * x[0] + w->w1[h][1] * x[1] + w->b1[h]);
        sum += (out - y) * (out - y);
    }
    return sum / (MICRO_BATCHES * ROWS);
}

/* To the last bit: no rounding is allowed for. */
static bool are_same(const weights *a, const weights *b) {
    const float *x = (const float *)a, *y = (const float *)b;
    for (size_t i = 0; i < sizeof *a / sizeof *x; i++)
        if (x[i] != y[i])
            return false;
    return true;
}

int main(void) {
    /* Ranks are processes: what they leave behind for this one lies in shared memory. */
    weights *result =
        mmap(NULL, 4 * sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (result == MAP_FAILED)
        return 1;
    printf("loss of an output of 0: %.4f\n", loss_of(&result[0]));
    for (int n_ranks = 1; n_ranks <= 3; n_ranks++) {
        sw_launch_options options = SW_LAUNCH_OPTIONS_INIT;
        options.n_ranks = n_ranks;
        sw_error err;
        sw_status status = sw_launch(&options, run_rank, &result[n_ranks], &err);
        if (status != SW_OK) {
            fprintf(stderr, "own-compute: %s\n", err.message);
            return sw_status_exit_code(status);
        }
        bool is_same = are_same(&result[n_ranks], &result[1]);
        printf("ranks: %d, loss after %d steps: %.6f%s\n", n_ranks, STEPS,
               loss_of(&result[n_ranks]), is_same ? "" : ", DIFFERENT WEIGHTS");
        if (!is_same || !(loss_of(&result[n_ranks]) < 0.001))
            return 1;
    }
    return 0;
}
