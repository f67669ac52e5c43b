/* plan_text.c: a plan in words, as a table, and as JSON. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include <shardwise/status.h>

#include "base/json_number.h"
#include "base/text.h"
#include "device/cpu/open.h"
#include "plan/plan.h"

typedef struct lines {
    sw_plan_line_fn line;
    void *to;
} lines;

static void say(const lines *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(const lines *to, const char *format, ...) {
    char text[SW_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    to->line(to->to, text);
}

void sw_plan_tell(const sw_plan *plan, sw_plan_line_fn line, void *line_to) {
    const sw_assembly *a = &plan->assembly;
    const lines to = {line, line_to};
    const int n_slots = sw_assembly_slots(a), n_units = a->compiled->layout.n_units;
    char share[SW_TEXT_NUMBER_BYTES], parameters[SW_TEXT_NUMBER_BYTES],
        gathered[SW_TEXT_NUMBER_BYTES], reduced[SW_TEXT_NUMBER_BYTES], flops[SW_TEXT_NUMBER_BYTES];
    int64_t gather, reduce;
    sw_program_traffic(a->program, n_slots, &gather, &reduce);
    sw_text_count((double)a->n_parameters, parameters, sizeof parameters);
    sw_text_count(sw_program_flops(a->program, n_slots), flops, sizeof flops);
    say(&to,
        "%s parameters in %d %s, %d %s of %d %s, stage %d, micro-batches of %" PRId64
        " %s, %d %s a step (micro-batches that a rank computes, one after another)",
        parameters, n_units, sw_text_noun(n_units, "unit", "units"), a->choice.n_ranks,
        sw_text_noun(a->choice.n_ranks, "rank", "ranks"), a->choice.n_threads,
        sw_text_noun(a->choice.n_threads, "thread", "threads"), a->choice.stage,
        a->choice.micro_batch_size, sw_text_noun(a->choice.micro_batch_size, "row", "rows"),
        n_slots, sw_text_noun(n_slots, "slot", "slots"));
    say(&to,
        "a step on one rank: %d instructions in the program, %sFLOP, %s gathered from the others, "
        "%s reduced",
        a->program->instructions.n, flops, sw_text_bytes(gather, gathered, sizeof gathered),
        sw_text_bytes(reduce, reduced, sizeof reduced));
    sw_plan_tell_memory(plan, NULL, line, line_to);
    say(&to,
        "each process needs %s more than this plan: buffers for loading and saving, stacks, the "
        "kernel's tables",
        sw_text_bytes(plan->share, share, sizeof share));
}

void sw_plan_tell_memory(const sw_plan *plan, const int64_t *measured, sw_plan_line_fn line,
                         void *line_to) {
    const lines to = {line, line_to};
    int64_t planned_sum = 0, measured_sum = 0, unsharded_sum = 0;
    char planned[SW_TEXT_NUMBER_BYTES], seen[SW_TEXT_NUMBER_BYTES], alone[SW_TEXT_NUMBER_BYTES];
    const char *columns = measured ? "%-14s %14s %14s %16s" : "%-14s %14s %.0s%16s";
    char row[128];
    snprintf(row, sizeof row, columns, "per rank", "planned", "measured", "one rank alone");
    line(line_to, row);
    for (int c = 0; c <= SW_N_MEMORY_CLASSES; c++) {
        bool is_sum = c == SW_N_MEMORY_CLASSES;
        int64_t p = is_sum ? planned_sum : plan->planned[c], m = is_sum     ? measured_sum
                                                                 : measured ? measured[c]
                                                                            : 0;
        int64_t a = is_sum ? unsharded_sum : plan->unsharded[c];
        planned_sum += p, measured_sum += m, unsharded_sum += a;
        snprintf(row, sizeof row, columns,
                 is_sum ? "sum" : sw_memory_class_name((sw_memory_class)c),
                 sw_text_bytes(p, planned, sizeof planned), sw_text_bytes(m, seen, sizeof seen),
                 sw_text_bytes(a, alone, sizeof alone));
        line(line_to, row);
    }
    const sw_program *program = plan->assembly.program;
    if (measured)
        say(&to, "measured: for each kind, up to the highest byte that the run touched, on the "
                 "rank that used most; the code and "
                 "stacks of a process are not included");
    say(&to,
        "packing: activations, logits and scratch share %s; %.1f %% of it is in use at the busiest "
        "moment",
        sw_text_bytes(program->packing_arena, planned, sizeof planned),
        100 * (double)program->packing_live / (double)program->packing_arena);
}

static json_t *classes(const int64_t bytes[SW_N_MEMORY_CLASSES]) {
    json_t *object = json_object();
    bool is_whole = object;
    for (int c = 0; c < SW_N_MEMORY_CLASSES; c++)
        is_whole = !json_object_set_new(object, sw_memory_class_name((sw_memory_class)c),
                                        json_integer(bytes[c])) &&
                   is_whole;
    if (is_whole)
        return object;
    json_decref(object);
    return NULL; /* which json_pack takes for its own failure */
}

char *sw_plan_json(const sw_plan *plan, bool is_indented) {
    const sw_assembly *a = &plan->assembly;
    const int n_slots = sw_assembly_slots(a);
    int64_t gather, reduce;
    sw_program_traffic(a->program, n_slots, &gather, &reduce);
    char hash[32];
    snprintf(hash, sizeof hash, "%016" PRIx64, sw_program_hash(a->program));
    json_t *object = json_pack(
        "{s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:i, s:i, s:o, s:s, s:s, s:s, s:o, s:o, s:I, s:I, "
        "s:I, s:I, s:I}",
        "version", sw_version(), "ranks", a->choice.n_ranks, "threads", a->choice.n_threads,
        "stage", a->choice.stage, "micro_batch_size", (json_int_t)a->choice.micro_batch_size,
        "parameters", (json_int_t)a->n_parameters, "trained_parameters", (json_int_t)a->n_trainable,
        "slots", n_slots, "instructions", a->program->instructions.n, "flops",
        sw_json_number(sw_program_flops(a->program, n_slots)), "program_hash", hash, "kernel_set",
        sw_kernel_set_name(plan->kernel_set), "gemm", sw_gemm_kind_name(plan->gemm.kind), "memory",
        classes(plan->planned), "memory_of_one_rank_alone", classes(plan->unsharded),
        "process_bytes", (json_int_t)plan->share, "gather_bytes", (json_int_t)gather,
        "reduce_bytes", (json_int_t)reduce, "transient_bytes_alive",
        (json_int_t)a->program->packing_live, "transient_bytes",
        (json_int_t)a->program->packing_arena);
    char *text = object ? json_dumps(object, is_indented ? JSON_INDENT(2) : 0) : NULL;
    json_decref(object);
    return text;
}
