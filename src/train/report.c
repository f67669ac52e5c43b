/* report.c: what a person reads at the start and at the end of a run. */
#include "train/train.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

void sw_report_line(const sw_run *run, const char *format, ...) {
    const sw_listener *listener = &run->options->listener;
    if (!listener->line)
        return;
    char text[SW_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    listener->line(listener->to, text);
}

void sw_report_warning(const sw_run *run, const char *format, ...) {
    const sw_listener *listener = &run->options->listener;
    void (*show)(void *to, const char *text) =
        run->options->warning ? run->options->warning : listener->line;
    char text[SW_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (show)
        show(listener->to, text);
}

static void report_model(const sw_run *run) {
    char all[SW_TEXT_NUMBER_BYTES], trainable[SW_TEXT_NUMBER_BYTES];
    const sw_assembly *a = &run->plan.assembly;
    sw_text_count((double)a->n_parameters, all, sizeof all);
    sw_text_count((double)a->n_trainable, trainable, sizeof trainable);
    const int n_units = a->compiled->layout.n_units;
    sw_report_line(run, "model: %s parameters in %d %s, %s trained, %s", all, n_units,
                   sw_text_noun(n_units, "unit", "units"), trainable,
                   a->sharding.parameter_dtype == SW_BF16 ? "computed in bf16, with fp32 masters"
                                                          : "computed in fp32");
    if (run->settings->model.path && !run->goes_on)
        sw_report_line(run, "       its weights come from %s; the optimizer's states start at zero",
                       run->settings->model.path);
}

/* A misspelt key is among them; one that changes the arithmetic is not, for it is refused. */
static void report_unread_keys(const sw_run *run) {
    char keys[SW_MESSAGE_BYTES / 2];
    const char *path = run->settings->model.path;
    if (path && !run->options->model && !sw_model_config_unread(path, keys, sizeof keys, NULL) &&
        keys[0])
        sw_report_line(run, "       config.json: keys without effect here: %s", keys);
}

static void tell(void *to, const char *text) {
    sw_report_line(to, "      %s", text);
}

/* Nothing here is wrong; a person would want to know. */
static void remark_on_data(const sw_run *run) {
    enum { FEW_STEPS = 10 };
    const int64_t n_rows = sw_dataset_describe(run->data).n_rows,
                  batch = run->settings->train.batch_size;
    const double passes = (double)run->n_rows / (double)n_rows;
    if (n_rows / batch < FEW_STEPS && passes > 1)
        sw_report_line(run,
                       "      note: the data are only %.1f steps of %" PRId64
                       " %s, so the run takes each row %.1f times and may learn them by heart; "
                       "take more data or fewer steps",
                       (double)n_rows / (double)batch, batch, sw_text_noun(batch, "row", "rows"),
                       passes);
    else if (n_rows / batch < FEW_STEPS)
        sw_report_line(run,
                       "      note: the data are only %.1f steps of %" PRId64
                       " %s; a smaller train.batch_size gives more steps",
                       (double)n_rows / (double)batch, batch, sw_text_noun(batch, "row", "rows"));
    if (!run->validation)
        sw_report_line(run, "      note: there are no held-out data (data.validation), so nothing "
                            "shows whether the model learns "
                            "or only memorizes");
}

static void report_data(const sw_run *run) {
    const sw_settings *s = run->settings;
    sw_dataset_facts facts = sw_dataset_describe(run->data);
    char tokens[SW_TEXT_NUMBER_BYTES];
    sw_text_count((double)facts.n_tokens, tokens, sizeof tokens);
    sw_report_line(run, "data: %s %s, %" PRId64 " %s of %" PRId64 ", %" PRId64 " %s left over",
                   tokens, sw_text_noun(facts.n_tokens, "token", "tokens"), facts.n_rows,
                   sw_text_noun(facts.n_rows, "row", "rows"), s->data.sequence_length,
                   facts.n_dropped, sw_text_noun(facts.n_dropped, "token is", "tokens are"));
    sw_report_line(run,
                   "run: %" PRId64 " %s of %" PRId64 " %s in micro-batches of %" PRId64
                   ", %.2f passes over the data",
                   run->n_steps, sw_text_noun(run->n_steps, "step", "steps"), s->train.batch_size,
                   sw_text_noun(s->train.batch_size, "row", "rows"),
                   run->plan.assembly.choice.micro_batch_size,
                   (double)run->n_rows / (double)facts.n_rows);
    sw_dataset_tell(run->data, tell, (void *)(uintptr_t)run);
    if (run->n_blank_steps)
        sw_report_line(run,
                       "      warning: %" PRId64 " of %" PRId64
                       " steps have no token that counts as a target, the first is step %" PRId64
                       "; they change nothing",
                       run->n_blank_steps,
                       run->n_steps < SW_MOST_LOOKED_AT ? run->n_steps : (int64_t)SW_MOST_LOOKED_AT,
                       run->first_blank_step);
    remark_on_data(run);
}

/* The rate and the like, with why where nobody gave them; a rate that is far from the usual one is
 * remarked on. */
static void report_optimizer(const sw_run *run) {
    const sw_settings *s = run->settings;
    const sw_chosen *c = &s->chosen;
    char rate[SW_TEXT_NUMBER_BYTES], decay[SW_TEXT_NUMBER_BYTES], usually[SW_TEXT_NUMBER_BYTES];
    const char *kind;
    double usual = sw_settings_usual_rate(s, &kind);
    sw_report_line(
        run,
        "learning rate: at most %s%s%s%s, %" PRId64 " %s of warm-up%s%s%s, weight decay %s%s%s%s",
        sw_text_exact_real(s->optimizer.learning_rate, rate, sizeof rate),
        c->learning_rate ? " (auto: " : "", c->learning_rate ? c->learning_rate : "",
        c->learning_rate ? ")" : "", s->optimizer.warmup_steps,
        sw_text_noun(s->optimizer.warmup_steps, "step", "steps"), c->warmup_steps ? " (auto: " : "",
        c->warmup_steps ? c->warmup_steps : "", c->warmup_steps ? ")" : "",
        sw_text_exact_real(s->optimizer.weight_decay, decay, sizeof decay),
        c->weight_decay ? " (auto: " : "", c->weight_decay ? c->weight_decay : "",
        c->weight_decay ? ")" : "");
    if (s->optimizer.name == SW_OPTIMIZER_ADAMW &&
        s->optimizer.learning_rate >= 10 * usual * (1 - 1e-9))
        sw_report_line(run,
                       "       optimizer.learning_rate %s is %.3g times the %s that is usual for "
                       "%s; is that intended?",
                       rate, s->optimizer.learning_rate / usual,
                       sw_text_exact_real(usual, usually, sizeof usually), kind);
}

/* Which ranks stand along which axis. */
static void report_mesh(const sw_run *run) {
    const sw_mesh *mesh = &run->plan.assembly.sharding.mesh;
    const int per_host = run->hosts ? run->hosts->launcher->host_size : mesh->n_ranks;
    const char *head = "mesh: ";
    char line[SW_MESH_LINE_BYTES];
    for (sw_axis axis = 0; axis < SW_N_AXES; axis++) {
        if (mesh->size[axis] == 1)
            continue;
        sw_mesh_describe(mesh, axis, per_host, line);
        sw_report_line(run, "%s %s", head, line);
        head = "      ";
    }
}

static void report_sharding(const sw_run *run) {
    const sw_sharding *s = &run->plan.assembly.sharding;
    static const char *const split[] = {"nothing is split (replicas)", "optimizer states are split",
                                        "optimizer states and gradients are split",
                                        "parameters, gradients and optimizer states are split"};
    static const char *const modes[] = {"view", "copy", "trap"};
    static const char *const reading[] = {"each rank reads the others' parts in place",
                                          "each rank copies the others' parts",
                                          "as view, and every wrong use is caught"};
    const bool is_split = s->mesh.n_ranks > 1;
    sw_report_line(run, "ranks: %d %s of %d %s", s->mesh.n_ranks,
                   sw_text_noun(s->mesh.n_ranks, "process", "processes"), s->n_threads,
                   sw_text_noun(s->n_threads, "thread", "threads"));
    sw_report_line(run, "       stage %d: %s%s; mode %s: %s", s->stage, split[s->stage],
                   is_split && s->stage ? "; each rank keeps its part" : "", modes[s->mode],
                   reading[s->mode]);
    if (run->plan.why_ranks[0])
        sw_report_line(run, "       %s", run->plan.why_ranks);
    report_mesh(run);
    int64_t gather, reduce;
    const int n_slots = sw_assembly_slots(&run->plan.assembly);
    char gathered[SW_TEXT_NUMBER_BYTES], reduced[SW_TEXT_NUMBER_BYTES];
    sw_program_traffic(run->plan.assembly.program, n_slots, &gather, &reduce);
    sw_report_line(run,
                   "step: %d instructions, %d %s (micro-batches that a rank computes, one after "
                   "another), a rank gathers %s of "
                   "parameters from the others and reduces %s of gradients",
                   run->plan.assembly.program->instructions.n, n_slots,
                   sw_text_noun(n_slots, "slot", "slots"),
                   sw_text_bytes(gather, gathered, sizeof gathered),
                   sw_text_bytes(reduce, reduced, sizeof reduced));
}

static void report_guards(const sw_run *run) {
    if (run->settings->guard.verify_every && run->plan.assembly.choice.n_ranks == 1)
        sw_report_line(run,
                       "guard.verify_every: a single rank cannot be compared with another; only "
                       "memory that changes by "
                       "itself and work that gives another result the second time are noticed");
}

void sw_report_start(const sw_run *run) {
    report_model(run);
    report_unread_keys(run);
    report_data(run);
    report_optimizer(run);
    sw_report_chat(run);
    report_sharding(run);
    report_guards(run);
    int64_t sum = 0;
    for (int c = 0; c < SW_N_MEMORY_CLASSES; c++)
        sum += run->plan.planned[c];
    char bytes[SW_TEXT_NUMBER_BYTES], share[SW_TEXT_NUMBER_BYTES];
    sw_report_line(run, "memory: %s planned for each rank, and %s more for each process",
                   sw_text_bytes(sum, bytes, sizeof bytes),
                   sw_text_bytes(run->plan.share, share, sizeof share));
    if (run->options->dry_run)
        sw_report_memory(run, NULL);
}

void sw_report_memory(const sw_run *run, const int64_t *measured) {
    const sw_listener *listener = &run->options->listener;
    if (listener->line)
        sw_plan_tell_memory(&run->plan, measured, listener->line, listener->to);
}
