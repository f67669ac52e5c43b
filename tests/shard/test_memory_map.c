/* test_memory_map.c: what lives at one time does not overlap, what is planned is the highest end,
 * and what is read was written in the same life. Lifetimes are found here anew, from operands
 * alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/program_case.h"
#include "support/small_models.h"

typedef struct life {
    int first, last; /* instructions; -1: no operand touches it */
} life;

static void touch(life *l, int i) {
    l->first = l->first < 0 || i < l->first ? i : l->first;
    l->last = i > l->last ? i : l->last;
}

/* The first instruction that acquires a place of a ring, or does anything else with a buffer; -1:
 * none. */
static int first_use(const built_program *b, int buffer, bool acquires) {
    for (int i = 0; i < b->program.instructions.n; i++) {
        const sw_instruction *instruction = &b->program.instructions.item[i];
        for (int o = 0; o < instruction->n_operands; o++)
            if (instruction->operand[o].buffer == buffer &&
                (instruction->kind == SW_DO_REDUCE_ACQUIRE) == acquires)
                return i;
    }
    return -1;
}

static bool is_ring_place(const built_program *b, int buffer) {
    return b->program.buffers.item[buffer].memory_class == SW_MEMORY_REDUCE &&
           first_use(b, buffer, true) >= 0;
}

static void live_always(const built_program *b, life *lives, int buffer) {
    if (buffer >= 0)
        lives[buffer] = (life){0, b->program.instructions.n};
}

/* [n buffers]. Ownership: free(). */
static life *lives_of(const built_program *b) {
    const sw_program *p = &b->program;
    life *lives = malloc(((size_t)p->buffers.n + 1) * sizeof *lives);
    for (int i = 0; i < p->buffers.n; i++)
        lives[i] = (life){-1, -1};
    for (int i = 0; i < p->instructions.n; i++) {
        const sw_instruction *instruction = &p->instructions.item[i];
        for (int o = 0; o < instruction->n_operands; o++)
            if (instruction->operand[o].buffer >= 0)
                touch(&lives[instruction->operand[o].buffer], i);
        if (instruction->scratch.buffer >= 0)
            touch(&lives[instruction->scratch.buffer], i);
    }
    for (int i = 0; i < p->instructions.n; i++) /* constants serve every slot and step */
        if (p->instructions.item[i].segment == SW_SEGMENT_PREPARE)
            for (int o = 0; o < p->instructions.item[i].n_operands; o++)
                live_always(b, lives, p->instructions.item[i].operand[o].buffer);
    for (int i = 0; i < p->buffers.n; i++) { /* states; what other lanes reach into; and what peers
                                                do, from when it is filled on */
        if (p->buffers.item[i].is_persistent || p->buffers.item[i].memory_class == SW_MEMORY_GATHER)
            live_always(b, lives, i);
        else if (is_ring_place(b, i))
            lives[i] = (life){first_use(b, i, false), p->instructions.n};
    }
    const int from_outside[] = {
        sw_program_buffer_of(p, SW_PORT_TOKENS), sw_program_buffer_of(p, SW_PORT_TARGETS),
        sw_program_buffer_of(p, SW_PORT_DOCUMENTS), sw_program_buffer_of(p, SW_PORT_LOSS),
        sw_program_buffer_of(p, SW_PORT_LOGITS)};
    for (int i = 0; i < 5; i++)
        live_always(b, lives, from_outside[i]);
    return lives;
}

/* The figures of classes add up to the highest byte of each section; and no more is alive than
 * there is room for. */
static void check_figures(const built_program *b, const int64_t end[SW_N_MEMORY_CLASSES]) {
    int64_t figures[SW_N_MEMORY_CLASSES], sum = 0, highest[SW_N_MEMORY_CLASSES] = {0};
    sw_memory_figures(b->program.class_end, figures);
    for (int class = 0; class < SW_N_MEMORY_CLASSES; class ++) {
        int64_t *section = &highest[sw_memory_section((sw_memory_class) class)];
        *section = end[class] > *section ? end[class] : *section;
    }
    for (int class = 0; class < SW_N_MEMORY_CLASSES; class ++) {
        sum += figures[class] - highest[class];
        holds(b, -1, figures[class] >= 0);
    }
    holds(b, -1, sum >= 0 && sum < SW_N_MEMORY_CLASSES * SW_BUFFER_ALIGNMENT);
    holds(b, -1, b->program.packing_live <= b->program.packing_arena);
}

/* What lies in a ring's idle place lies in the ring, and comes after all places that it meets have
 * been acquired. */
static void check_loan(const built_program *b, const sw_buffer *lent, const life *lived) {
    int64_t end = 0;
    for (int i = 0; i < b->program.buffers.n; i++) {
        const sw_buffer *place = &b->program.buffers.item[i];
        if (place->memory_class != SW_MEMORY_REDUCE || !is_ring_place(b, i))
            continue;
        end = place->address + place->bytes > end ? place->address + place->bytes : end;
        bool meet = lent->address < place->address + place->bytes &&
                    place->address < lent->address + lent->bytes;
        holds(b, lived->first, !meet || first_use(b, i, true) < lived->first);
    }
    holds(b, lived->first, lent->kind == SW_BUFFER_WINDOW && lent->address + lent->bytes <= end);
}

static void check_places(const built_program *b) {
    const sw_program *p = &b->program;
    life *lives = lives_of(b);
    int64_t end[SW_N_MEMORY_CLASSES] = {0};
    for (int i = 0; i < p->buffers.n; i++) {
        const sw_buffer *x = &p->buffers.item[i];
        if (lives[i].first < 0)
            continue;
        holds(b, lives[i].first,
              x->address >= 0 && x->address % SW_BUFFER_ALIGNMENT == 0 && x->bytes > 0);
        holds(b, lives[i].first,
              x->is_persistent || (x->first <= lives[i].first && x->last >= lives[i].last));
        if (x->memory_class == SW_MEMORY_REDUCE && !is_ring_place(b, i))
            check_loan(b, x, &lives[i]);
        end[x->memory_class] = x->address + x->bytes > end[x->memory_class] ? x->address + x->bytes
                                                                            : end[x->memory_class];
        for (int j = 0; j < i; j++) {
            const sw_buffer *y = &p->buffers.item[j];
            bool together = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
            holds(b, lives[i].first,
                  lives[j].first < 0 ||
                      sw_memory_section(x->memory_class) != sw_memory_section(y->memory_class) ||
                      !together || x->address + x->bytes <= y->address ||
                      y->address + y->bytes <= x->address);
        }
    }
    for (int class = 0; class < SW_N_MEMORY_CLASSES; class ++) {
        int64_t slack = p->class_end[class] - end[class]; /* the states may end in alignment */
        holds(b, -1, slack >= 0 && slack < SW_BUFFER_ALIGNMENT);
    }
    check_figures(b, end);
    free(lives);
}

static void buffers_that_live_together_do_not_overlap(void **state) {
    (void)state;
    for_each_program(check_places);
}

static void check_operands(const built_program *b) {
    const sw_program *p = &b->program;
    for (int i = 0; i < p->instructions.n; i++)
        for (int o = -1; o < p->instructions.item[i].n_operands; o++) {
            const sw_reference *r =
                o < 0 ? &p->instructions.item[i].scratch : &p->instructions.item[i].operand[o];
            if (r->buffer < 0)
                continue;
            const sw_buffer *buffer = &p->buffers.item[r->buffer];
            int n = buffer->kind == SW_BUFFER_SHARED_SLICE
                        ? b->layout.n_shards
                        : 1; /* slices are addressed from the first */
            holds(b, i, r->offset >= 0 && r->bytes >= 0);
            holds(b, i,
                  r->offset + (b->layout.n_shards - 1) * r->own_stride[SW_AXIS_SHARD] + r->bytes <=
                      n * buffer->bytes);
        }
}

static void operands_stay_inside_their_buffers_on_every_rank(void **state) {
    (void)state;
    for_each_program(check_operands);
}

/* Owner of each 4 bytes of a section: the buffer that was written there last. Of a ring: nobody's
 * since it was acquired, or the peers', who read what was posted. */
enum { NOBODY = -2, PEERS = -1 };
typedef struct shadow {
    int *owner[SW_N_MEMORY_CLASSES];
} shadow;

static void own(const built_program *b, int i, const sw_reference *r, int owner, bool is_read,
                shadow *s) {
    const sw_buffer *buffer = &b->program.buffers.item[r->buffer];
    int *owners = s->owner[sw_memory_section(buffer->memory_class)];
    for (int64_t at = (buffer->address + r->offset) / 4;
         at < (buffer->address + r->offset + r->bytes) / 4; at++) {
        holds(b, i, !is_read || owners[at] == owner);
        holds(b, i, owner < 0 || buffer->memory_class != SW_MEMORY_REDUCE || owners[at] != PEERS);
        owners[at] = owner;
    }
}

/* Kernels read and write values and gradients; of all else, what is done to places of a ring. */
static void walk_kernel(const built_program *b, int i, const sw_op *op, shadow *s) {
    for (int pass = 0; pass < 2; pass++) /* reads come before writes */
        for (int k = 0; k < op->n_operands; k++) {
            const sw_reference *r = &b->program.instructions.item[i].operand[k];
            bool is_value = op->operand[k].kind == SW_OPERAND_VALUE;
            if ((op->operand[k].access == SW_WRITE) == pass &&
                (is_value || op->operand[k].kind == SW_OPERAND_GRADIENT))
                own(b, i, r, r->buffer, is_value && !pass, s);
        }
}

static int walk_slot(const built_program *b, const sw_op **ops, sw_segment segment, int at,
                     shadow *s) {
    for (int i = b->program.segment_first[segment];
         i < b->program.segment_first[segment] + b->program.segment_count[segment]; i++) {
        const sw_instruction *instruction = &b->program.instructions.item[i];
        if (instruction->kind == SW_DO_KERNEL)
            walk_kernel(b, i, ops[at++], s);
        if (instruction->kind == SW_DO_SHARE)
            own(b, i, &instruction->operand[1], instruction->operand[1].buffer, false, s);
        if (instruction->kind == SW_DO_REDUCE_ACQUIRE || instruction->kind == SW_DO_REDUCE_POST) {
            int place = instruction->operand[0].buffer; /* whole, whatever unit uses it */
            const sw_reference whole = {place, 0, b->program.buffers.item[place].bytes};
            own(b, i, &whole, instruction->kind == SW_DO_REDUCE_POST ? PEERS : NOBODY, false, s);
        }
    }
    return at;
}

static void fill_from_outside(const built_program *b, int buffer, shadow *s) {
    if (buffer < 0)
        return;
    const sw_buffer *filled = &b->program.buffers.item[buffer];
    for (int64_t at = filled->address / 4; at < (filled->address + filled->bytes) / 4; at++)
        s->owner[sw_memory_section(filled->memory_class)][at] = buffer;
}

static size_t section_bytes(const built_program *b, sw_memory_class section) {
    int64_t bytes = 0;
    for (int class = 0; class < SW_N_MEMORY_CLASSES; class ++)
        if (sw_memory_section((sw_memory_class) class) == section &&
            b->program.class_end[class] > bytes)
            bytes = b->program.class_end[class];
    return (size_t)bytes;
}

/* Two slots, as they run: every value that is read lies where it was written, and nothing was
 * written over it since: in the second slot too, when the first has used every byte. */
static void check_values(const built_program *b) {
    shadow s = {{NULL}};
    for (int class = 0; class < SW_N_MEMORY_CLASSES; class ++) {
        size_t n = section_bytes(b, (sw_memory_class) class) / 4 + 1;
        s.owner[class] = malloc(n * sizeof(int));
        memset(s.owner[class], 0xff, n * sizeof(int));
    }
    int n_ops;
    const sw_op **ops = program_ops(b, &n_ops);
    int prepared = walk_slot(b, ops, SW_SEGMENT_PREPARE, 0, &s);
    for (int slot = 0; slot < 2; slot++) {
        fill_from_outside(b, sw_program_buffer_of(&b->program, SW_PORT_TOKENS), &s);
        fill_from_outside(b, sw_program_buffer_of(&b->program, SW_PORT_TARGETS), &s);
        fill_from_outside(b, sw_program_buffer_of(&b->program, SW_PORT_DOCUMENTS), &s);
        int at = walk_slot(b, ops, SW_SEGMENT_FORWARD, prepared, &s);
        at = walk_slot(b, ops, SW_SEGMENT_BACKWARD, at, &s);
        holds(b, -1, at == n_ops);
        const sw_buffer *loss =
            &b->program.buffers.item[sw_program_buffer_of(&b->program, SW_PORT_LOSS)];
        holds(b, -1, s.owner[sw_memory_section(loss->memory_class)][loss->address / 4] == loss->id);
    }
    free(ops);
    for (int class = 0; class < SW_N_MEMORY_CLASSES; class ++)
        free(s.owner[class]);
}

static void what_is_read_was_written_and_not_written_over(void **state) {
    (void)state;
    for_each_program(check_values);
}

/* Recompute pays when activations of several blocks would be kept: what grows with depth is one
 * value a block, [rows * tokens, channels]. */
static void with_recompute_a_block_keeps_one_value(void **state) {
    (void)state;
    int64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        const stack about = {STACK_PLAIN, 8 + i, 32, 13, false};
        program_case c = program_graph(N_SMALL_MODELS);
        c.about = &about;
        c.recompute = true;
        built_program b;
        program_build(&c, &b);
        bytes[i] = b.program.packing_live;
        program_free(&b);
    }
    assert_int_equal(bytes[1] - bytes[0],
                     2 * SMALL_MODEL_ROWS * SMALL_MODEL_TOKENS * 32); /* in bf16 */
}

/* Head and loss go through the tokens in chunks: of 151,936 ids and 2,048 tokens 1.16 GiB of fp32
 * logits never exist at once, and twice as many tokens take no more. */
static void logits_are_those_of_a_chunk(void **state) {
    (void)state;
    const stack about = {STACK_PLAIN, 1, 64, 151936, true};
    int64_t bytes[2] = {0};
    for (int k = 0; k < 2; k++) {
        program_case c = program_graph(N_SMALL_MODELS);
        c.about = &about;
        c.n_rows = 1;
        c.n_tokens = 2048 << k;
        built_program b;
        program_build(&c, &b);
        for (int i = 0; i < b.program.buffers.n; i++)
            if (b.program.buffers.item[i].memory_class == SW_MEMORY_LOGITS)
                bytes[k] += b.program.buffers.item[i].bytes;
        program_free(&b);
    }
    assert_true(bytes[0] > 0 && bytes[0] < 151936 * INT64_C(2048) * 4 / 4);
    assert_int_equal(bytes[0], bytes[1]);
}

static void three_hundred_blocks_are_three_hundred_times_one(void **state) {
    (void)state;
    int n[3];
    for (int i = 0; i < 3; i++) {
        const stack about = {STACK_PLAIN, (const int[]){10, 20, 300}[i], 8, 13, true};
        program_case c = program_graph(N_SMALL_MODELS);
        c.about = &about;
        c.recompute = true;
        built_program b;
        program_build(&c, &b);
        n[i] = b.program.instructions.n;
        check_places(&b);
        check_values(&b);
        program_free(&b);
    }
    assert_int_equal(n[2] - n[1], 28 * (n[1] - n[0]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_that_live_together_do_not_overlap),
        cmocka_unit_test(operands_stay_inside_their_buffers_on_every_rank),
        cmocka_unit_test(what_is_read_was_written_and_not_written_over),
        cmocka_unit_test(with_recompute_a_block_keeps_one_value),
        cmocka_unit_test(logits_are_those_of_a_chunk),
        cmocka_unit_test(three_hundred_blocks_are_three_hundred_times_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
