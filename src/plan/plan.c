/* plan.c: the price of a run, read off its program. */
#include "plan/plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json_number.h"
#include "base/text.h"
#include "run/rank_device.h"
#include "run/train.h"
#include "shard/schedule.h"

static void say(const sw_plan_options *options, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(const sw_plan_options *options, const char *format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    options->line(options->to, text);
}

static void tell_people(const sw_plan_options *options, const sw_run *run, int n_slots) {
    const sw_assembly *a = &run->assembly;
    char share[SW_TEXT_NUMBER_BYTES], parameters[SW_TEXT_NUMBER_BYTES], gathered[SW_TEXT_NUMBER_BYTES],
        reduced[SW_TEXT_NUMBER_BYTES], flops[SW_TEXT_NUMBER_BYTES];
    int64_t gather, reduce;
    sw_program_traffic(a->program, n_slots, &gather, &reduce);
    sw_text_count((double)a->n_parameters, parameters, sizeof parameters);
    sw_text_count(sw_program_flops(a->program, n_slots), flops, sizeof flops);
    const int n_units = a->compiled->layout.n_units;
    say(options,
        "%s parameters in %d %s, %d %s of %d %s, stage %d, micro-batches of %" PRId64
        " %s, %d %s a step (micro-batches of a rank, "
        "one after another)",
        parameters, n_units, sw_text_noun(n_units, "unit", "units"), a->choice.n_ranks,
        sw_text_noun(a->choice.n_ranks, "rank", "ranks"), a->choice.n_threads,
        sw_text_noun(a->choice.n_threads, "thread", "threads"), a->choice.stage, a->choice.micro_batch_size,
        sw_text_noun(a->choice.micro_batch_size, "row", "rows"), n_slots, sw_text_noun(n_slots, "slot", "slots"));
    say(options, "a step on one rank: %d instructions in the program, %sFLOP, %s gathered from the others, %s reduced",
        a->program->instructions.n, flops, sw_text_bytes(gather, gathered, sizeof gathered),
        sw_text_bytes(reduce, reduced, sizeof reduced));
    sw_report_memory(run, NULL);
    say(options, "each process takes %s beside its plan: buffers to load and save with, stacks, the kernel's tables",
        sw_text_bytes(run->share, share, sizeof share));
}

static sw_status tell_json(const sw_plan_options *options, const sw_run *run, int n_slots, sw_error *err) {
    const sw_assembly *a = &run->assembly;
    int64_t gather, reduce;
    sw_program_traffic(a->program, n_slots, &gather, &reduce);
    json_t *memory = json_object();
    for (int c = 0; c < SW_N_MEMORY_CLASSES; c++)
        json_object_set_new(memory, sw_memory_class_name((sw_memory_class)c), json_integer(run->planned[c]));
    json_t *plan =
        json_pack("{s:i, s:i, s:i, s:I, s:I, s:i, s:i, s:o, s:I, s:I, s:o, s:I}", "ranks", a->choice.n_ranks, "threads",
                  a->choice.n_threads, "stage", a->choice.stage, "micro_batch_size", (json_int_t)a->choice.micro_batch_size,
                  "parameters", (json_int_t)a->n_parameters, "slots", n_slots, "instructions", a->program->instructions.n,
                  "flops", sw_json_number(sw_program_flops(a->program, n_slots)), "gather_bytes", (json_int_t)gather,
                  "reduce_bytes", (json_int_t)reduce, "memory", memory, "process_bytes", (json_int_t)run->share);
    char *text = plan ? json_dumps(plan, 0) : NULL;
    json_decref(plan);
    if (!text)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the plan's text");
    options->line(options->to, text);
    free(text);
    return SW_OK;
}

sw_status sw_plan(const sw_settings *settings, const sw_plan_options *options, sw_error *err) {
    sw_train_options train = SW_TRAIN_OPTIONS_INIT;
    train.listener = (sw_listener){.line = options->line, .to = options->to};
    sw_run run = {.settings = settings, .options = &train};
    sw_assembly_choice choice;
    sw_cores_find(&run.cores);
    sw_status status = sw_assembly_choose(settings, run.cores.n, &choice, run.ranks_reason, sizeof run.ranks_reason, err);
    if (!status)
        status = sw_kernel_set_of(settings, &run.kernel_set, err);
    if (!status)
        status = sw_assembly_create(settings, NULL, &choice, &run.assembly, err);
    if (status)
        return status;
    sw_gemm_choose(run.kernel_set, sw_sharding_numbers(&run.assembly.sharding), settings->train.reproducible, &run.gemm);
    if ((status = sw_run_price(&run, err)))
        goto done;
    int64_t n_micro_batches = settings->train.batch_size / choice.micro_batch_size;
    int n_slots = sw_deal_slots(sw_mesh_deal(&run.assembly.sharding.mesh, n_micro_batches));
    if (options->as_json)
        status = tell_json(options, &run, n_slots, err);
    else
        tell_people(options, &run, n_slots);
    char line[2048];
    for (int i = 0; i < run.assembly.program->instructions.n && options->print_program; i++) {
        sw_instruction_print(run.assembly.program, i, line, sizeof line);
        options->line(options->to, line);
    }
    if (!status)
        status = sw_fit_check(&run, err);
done:
    sw_assembly_free(&run.assembly);
    return status;
}
