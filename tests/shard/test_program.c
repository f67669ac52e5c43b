/* test_program.c: the list itself: waits that cannot deadlock, the end of a step, lines and hash
 * that say all that matters. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/program_case.h"
#include "support/small_models.h"

static void check_wait(const built_program *b, int i, const sw_wait *wait) {
    const sw_instruction *instruction = &b->program.instructions.item[i];
    holds(b, i,
          wait->lane != instruction->lane &&
              (wait->when == SW_ALL_BEFORE) == (wait->instruction < 0));
    if (wait->when == SW_ALL_BEFORE)
        return;
    const sw_instruction *awaited = &b->program.instructions.item[wait->instruction];
    holds(b, i, awaited->lane == wait->lane);
    if (wait->when == SW_SLOT_BEFORE) { /* which is over, or on its way, before this slot begins */
        holds(b, i,
              awaited->segment == SW_SEGMENT_FORWARD || awaited->segment == SW_SEGMENT_BACKWARD);
        return;
    }
    /* segments of one slot, or of the end of the step: of an older run of a segment nothing is
     * known */
    holds(b, i,
          wait->instruction < i && (awaited->segment == instruction->segment ||
                                    (awaited->segment == SW_SEGMENT_FORWARD &&
                                     instruction->segment == SW_SEGMENT_BACKWARD)));
}

/* Both lanes go through the list in its order, so waits that point backward, to the other lane,
 * cannot form a circle. */
static void check_waits(const built_program *b) {
    const sw_program *p = &b->program;
    for (int i = 0; i < p->instructions.n; i++) {
        const sw_instruction *instruction = &p->instructions.item[i];
        if (b->of->sharding.mode != SW_SHM_COPY)
            holds(b, i, instruction->lane == SW_LANE_COMPUTE && !instruction->n_waits);
        for (int w = 0; w < instruction->n_waits; w++)
            check_wait(b, i, &instruction->wait[w]);
    }
}

static void waits_point_backward_and_to_the_other_lane(void **state) {
    (void)state;
    for_each_program(check_waits);
}

static void check_segments(const built_program *b) {
    const sw_program *p = &b->program;
    int at = 0;
    for (int s = 0; s < SW_N_SEGMENTS; s++) {
        holds(b, at, p->segment_first[s] == at);
        for (int i = 0; i < p->segment_count[s]; i++)
            holds(b, at + i, (int)p->instructions.item[at + i].segment == s);
        at += p->segment_count[s];
    }
    holds(b, -1, at == p->instructions.n);
}

static void segments_follow_one_another_in_the_list(void **state) {
    (void)state;
    for_each_program(check_segments);
}

/* Ranks meet on channels: whatever meets has one, and the program says how many there are. One
 * channel serves one purpose. */
static void check_channels(const built_program *b) {
    const sw_program *p = &b->program;
    int *purpose = calloc((size_t)p->n_channels + 1,
                          sizeof *purpose); /* 0: none yet; 1: gathers; 2: reductions */
    for (int i = 0; i < p->instructions.n; i++) {
        const sw_instruction *instruction = &p->instructions.item[i];
        sw_instruction_kind kind = instruction->kind;
        bool gathers = kind == SW_DO_GATHER || kind == SW_DO_PUBLISH;
        bool reduces = kind == SW_DO_REDUCE_ACQUIRE || kind == SW_DO_REDUCE_POST ||
                       kind == SW_DO_REDUCE_SUM || kind == SW_DO_SHARE;
        if (!gathers && !reduces)
            continue;
        holds(b, i, instruction->channel >= 0 && instruction->channel < p->n_channels);
        int *mine = &purpose[instruction->channel], wanted = gathers ? 1 : 2;
        holds(b, i, *mine == 0 || *mine == wanted);
        *mine = wanted;
    }
    free(purpose);
}

static void collectives_have_channels_of_their_own(void **state) {
    (void)state;
    for_each_program(check_channels);
}

/* What ranks share is posted right before, on the window and the channel of its acquisition;
 * another lane waits for the post, and whoever touches what comes of it has waited for that. */
static void check_shares(const built_program *b) {
    const sw_program *p = &b->program;
    const bool has_lanes = b->of->sharding.mode == SW_SHM_COPY;
    int *by = malloc(((size_t)p->buffers.n + 1) * sizeof *by); /* the SHARE that writes it */
    memset(by, 0xff, ((size_t)p->buffers.n + 1) * sizeof *by);
    int waited = -1, n_shares = 0;
    for (int i = 0; i < p->instructions.n; i++) {
        const sw_instruction *instruction = &p->instructions.item[i];
        for (int w = 0; w < instruction->n_waits && instruction->lane == SW_LANE_COMPUTE; w++)
            if (instruction->wait[w].when == SW_THIS_SLOT &&
                instruction->wait[w].instruction > waited)
                waited = instruction->wait[w].instruction;
        for (int o = 0; o < instruction->n_operands && instruction->kind == SW_DO_KERNEL; o++)
            holds(b, i,
                  !has_lanes || instruction->operand[o].buffer < 0 ||
                      by[instruction->operand[o].buffer] <= waited);
        if (instruction->kind != SW_DO_SHARE)
            continue;
        const sw_instruction *post = instruction - 1, *put = instruction - 2;
        while (put->kind == SW_DO_REDUCE_ACQUIRE) /* of a place that is lent to what comes of it */
            put--;
        n_shares++;
        by[instruction->operand[1].buffer] = i;
        holds(b, i, post->kind == SW_DO_REDUCE_POST && put->kind == SW_DO_KERNEL);
        holds(b, i,
              post->channel == instruction->channel &&
                  post->operand[0].buffer == instruction->operand[0].buffer &&
                  put->operand[1].buffer == instruction->operand[0].buffer);
        holds(b, i,
              has_lanes ? instruction->n_waits == 1 && instruction->wait[0].instruction == i - 1 &&
                              instruction->wait[0].when == SW_THIS_SLOT
                        : instruction->n_waits == 0);
        holds(b, i,
              instruction->moved_bytes ==
                  (b->layout.mesh.n_ranks - 1) * instruction->operand[0].bytes /
                      (instruction->share == SW_SHARE_SUM_SLICE ? b->layout.mesh.n_ranks : 1));
    }
    free(by);
    holds(b, -1, p->has_shares == (n_shares > 0));
    /* nine in forward and nine in backward; what nobody reads, and on one rank all, is left out */
    const stack *about = b->of->about;
    if (b->of->record == stack_record && about->oddity == STACK_SHARED)
        holds(b, -1, n_shares == (b->layout.mesh.n_ranks == 1 ? 0 : b->of->is_forward ? 9 : 18));
    else
        holds(b, -1, n_shares == 0);
}

static void what_ranks_share_is_posted_and_waited_for(void **state) {
    (void)state;
    for_each_program(check_shares);
}

static int find(const built_program *b, int from, sw_instruction_kind kind, int group,
                bool is_gradient) {
    for (int i = from; i < b->program.instructions.n; i++) {
        const sw_instruction *instruction = &b->program.instructions.item[i];
        if (instruction->kind == kind && (group < 0 || instruction->group == group) &&
            instruction->is_gradient == is_gradient && instruction->segment == SW_SEGMENT_UPDATE)
            return i;
    }
    return -1;
}

/* One decision, every update behind it, and the new parameters made known; nothing in it for frozen
 * ones. */
static void check_update(const built_program *b) {
    int decide = find(b, 0, SW_DO_DECIDE, -1, false), stage = b->of->sharding.stage;
    if (b->of->is_forward) {
        holds(b, decide,
              decide < 0 && !b->program.segment_count[SW_SEGMENT_UPDATE] &&
                  !b->program.segment_count[SW_SEGMENT_BACKWARD]);
        return;
    }
    holds(b, decide, decide >= 0 && find(b, decide + 1, SW_DO_DECIDE, -1, false) < 0);
    for (int g = 0; g < b->layout.n_groups; g++) {
        int update = find(b, 0, SW_DO_UPDATE, g, false);
        int publish = find(b, 0, SW_DO_PUBLISH, g, false),
            gather = find(b, 0, SW_DO_GATHER, g, false);
        int publish_gradient = find(b, 0, SW_DO_PUBLISH, g, true),
            gather_gradient = find(b, 0, SW_DO_GATHER, g, true);
        if (!b->layout.groups[g].is_trainable) {
            holds(b, update,
                  update < 0 && publish < 0 && gather < 0 && publish_gradient < 0 &&
                      gather_gradient < 0);
            continue;
        }
        holds(b, update, decide < update);
        holds(b, update, stage > 0 ? update < publish : publish < 0);
        holds(b, update, stage == 1 || stage == 2 ? publish < gather : gather < 0);
        holds(b, update,
              stage > 0 ? publish_gradient < 0 && gather_gradient < 0
                        : publish_gradient >= 0 && publish_gradient < gather_gradient &&
                              gather_gradient < decide);
        holds(b, update,
              b->program.instructions.item[update].dim[0] ==
                  b->layout.groups[g].shard * (stage ? 1 : b->layout.n_shards));
    }
}

static void no_parameter_changes_before_the_decision(void **state) {
    (void)state;
    for_each_program(check_update);
}

/* In copy mode the decision waits for the other lane: for all sums, and at stage 0 for the gathered
 * gradients. */
static void the_update_waits_for_the_other_lane(void **state) {
    (void)state;
    for (int stage = 0; stage < 4; stage++) {
        program_case c = program_graph(0);
        c.sharding.stage = stage;
        built_program b;
        program_build(&c, &b);
        int decide = find(&b, 0, SW_DO_DECIDE, -1, false), last = -1;
        for (int i = find(&b, 0, SW_DO_GATHER, -1, true); i >= 0;
             i = find(&b, i + 1, SW_DO_GATHER, -1, true))
            last = i;
        const sw_instruction *decision = &b.program.instructions.item[decide];
        holds(&b, decide,
              decision->n_waits == 1 && decision->wait[0].instruction == last &&
                  (last >= 0) == !stage);
        if (stage == 1 ||
            stage ==
                2) { /* whole copies arrive by the other lane; forward begins when they are there */
            int first = b.program.segment_first[SW_SEGMENT_FORWARD];
            holds(&b, first,
                  b.program.instructions.item[first].n_waits == 1 &&
                      b.program.instructions.item[first].wait[0].when == SW_ALL_BEFORE);
        }
        program_free(&b);
    }
}

static uint64_t hash_of(const program_case *c) {
    built_program b;
    program_build(c, &b);
    uint64_t hash = sw_program_hash(&b.program);
    program_free(&b);
    return hash;
}

/* Two ranks that trace for themselves have graphs at other addresses, and the same hash. */
static void programs_traced_apart_have_equal_hashes(void **state) {
    (void)state;
    for (int g = 0; g < n_program_graphs(); g++) {
        program_case c = program_graph(g);
        built_program a, b;
        program_build(&c, &a);
        program_build(&c, &b);
        holds(&a, -1, sw_program_hash(&a.program) == sw_program_hash(&b.program));
        char x[4096], y[4096];
        for (int i = 0; i < a.program.instructions.n; i++) {
            sw_instruction_print(&a.program, i, x, sizeof x);
            sw_instruction_print(&b.program, i, y, sizeof y);
            holds(&a, i, !strcmp(x, y) && strlen(x) < 2000);
            holds(&a, i, !strstr(x, "0x") && !strstr(x, "(nil)"));
        }
        program_free(&a);
        program_free(&b);
    }
}

static void every_setting_that_changes_the_program_changes_the_hash(void **state) {
    (void)state;
    enum { N = 24 };
    program_case c[N];
    for (int i = 0; i < N; i++)
        c[i] = program_graph(N_SMALL_MODELS); /* plain stack */
    int n = 1;                                /* 0: as it is */
    c[n++].sharding.mesh = sw_mesh_flat(3);
    c[n++].sharding.mesh = sw_mesh_flat(1);
    c[n++].sharding.stage = 0;
    c[n++].sharding.stage = 1;
    c[n++].sharding.stage = 2;
    c[n++].sharding.reshard_after_forward = false;
    c[n++].sharding.prefetch = 0;
    c[n++].sharding.prefetch = 2;
    c[n++].sharding.accumulate_sharded = false;
    c[n++].sharding.parameter_dtype = SW_F32;
    c[n++].sharding.mode = SW_SHM_VIEW;
    c[n++].sharding.mode = SW_SHM_TRAP;
    c[n++].sharding.wrap.min_parameters = 2000;
    c[n++].sharding.optimizer.kind = SW_OPTIMIZER_SGD;
    c[n++].sharding.optimizer.beta1 = 0.8;
    c[n++].sharding.optimizer.beta2 = 0.999;
    c[n++].sharding.optimizer.epsilon = 1e-6;
    c[n++].sharding.optimizer.weight_decay = 0;
    c[n++].recompute = true;
    c[n++].n_rows = 3;
    c[n++].n_tokens = 7;
    c[n++].is_forward = true;
    c[n].record = small_model_record;
    c[n++].about = &SMALL_MODELS[0];
    assert_int_equal(n, N);
    uint64_t hash[N];
    for (int i = 0; i < N; i++) {
        hash[i] = hash_of(&c[i]);
        for (int j = 0; j < i; j++)
            if (hash[i] == hash[j])
                fail_msg("settings %d and %d have one hash", i, j);
    }
}

/* Two blocks of equal shapes in another order, or a square weight that lies the other way: every
 * size and address is the same, and yet ranks that differ in it would gather the wrong units, or
 * multiply by a transposed weight. */
static void programs_of_equal_sizes_that_mean_something_else_have_another_hash(void **state) {
    (void)state;
    program_case plain = program_graph(N_SMALL_MODELS),
                 swapped = program_graph(N_SMALL_MODELS + STACK_SWAPPED), turned = plain;
    stack about = *(const stack *)plain.about;
    about.layout = SW_IN_OUT;
    turned.about = &about;
    assert_true(hash_of(&plain) != hash_of(&swapped));
    assert_true(hash_of(&plain) != hash_of(&turned));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_point_backward_and_to_the_other_lane),
        cmocka_unit_test(segments_follow_one_another_in_the_list),
        cmocka_unit_test(collectives_have_channels_of_their_own),
        cmocka_unit_test(what_ranks_share_is_posted_and_waited_for),
        cmocka_unit_test(no_parameter_changes_before_the_decision),
        cmocka_unit_test(the_update_waits_for_the_other_lane),
        cmocka_unit_test(programs_traced_apart_have_equal_hashes),
        cmocka_unit_test(every_setting_that_changes_the_program_changes_the_hash),
        cmocka_unit_test(programs_of_equal_sizes_that_mean_something_else_have_another_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
