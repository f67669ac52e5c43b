/* train.c: a run, before its ranks exist: everything is read, planned and checked here, so that a
 * run that cannot work never starts and leaves nothing behind. No thread, no BLAS, no device in
 * this process.
 */
#include "train/train.h"

#include <inttypes.h>
#include <string.h>

#include <shardwise/launch.h>

#include "base/text.h"
#include "checkpoint/saving.h"
#include "comm/control.h"
#include "device/cpu/open.h"
#include "execute/rank_device.h"
#include "faults/faults.h"
#include "hf/adapter.h"
#include "hf/model_files.h"
#include "plan/need.h"

static int64_t divide_up(int64_t n, int64_t divisor) {
    return n / divisor + (n % divisor != 0);
}

/* How long: steps, epochs or tokens. Epochs end exactly there; the others end with a whole step. */
static sw_status find_length(sw_run *run, sw_error *err) {
    const sw_settings *s = run->settings;
    int64_t batch = s->train.batch_size, per_step = batch * s->data.sequence_length;
    sw_dataset_facts facts = sw_dataset_describe(run->data);
    if (s->train.steps > 0)
        run->n_steps = s->train.steps;
    else if (s->train.tokens > 0)
        run->n_steps = divide_up(s->train.tokens, per_step);
    else {
        if (__builtin_mul_overflow(facts.n_rows, s->train.epochs, &run->n_rows))
            return sw_fail(err, SW_BAD_CONFIG,
                           "train.epochs %" PRId64 " of %" PRId64 " rows are too many to count",
                           s->train.epochs, facts.n_rows);
        run->n_steps = divide_up(run->n_rows, batch);
        return SW_OK;
    }
    if (__builtin_mul_overflow(run->n_steps, batch, &run->n_rows))
        return sw_fail(err, SW_BAD_CONFIG,
                       "train.steps %" PRId64 " of %" PRId64 " rows are too many to count",
                       run->n_steps, batch);
    return SW_OK;
}

int64_t sw_run_length(const sw_run *run, int64_t step, int64_t n_rows) {
    const sw_settings *s = run->settings;
    if (s->train.steps > 0 || s->train.tokens > 0)
        return run->n_steps;
    return step + divide_up(run->n_rows > n_rows ? run->n_rows - n_rows : 0, s->train.batch_size);
}

/* The adapter that the run starts from fits the model; the model's mark, for the adapter that the
 * run will write. */
static sw_status check_adapters(sw_run *run, sw_error *err) {
    const sw_settings *s = run->settings;
    const sw_assembly *a = &run->plan.assembly;
    sw_status status = SW_OK;
    if (s->model.lora.adapter)
        status = sw_adapter_check(s->model.lora.adapter, &a->lora, a->graph, &a->lora_layers, err);
    if (!status && s->model.lora.adapter)
        status =
            sw_adapter_check_base(s->model.lora.adapter, s->model.path, &a->model, a->graph, err);
    return status ? status : sw_model_mark(s->model.path, &a->model, a->graph, run->base_mark, err);
}

static sw_status prepare(sw_run *run, sw_error *err) {
    const sw_settings *s = run->settings;
    sw_assembly_choice choice;
    sw_model_config model = {0};
    sw_status status = run->options->model ? SW_OK : sw_settings_name_model(s, err);
    if (!status)
        status = sw_settings_complete(s, err);
    if (!status)
        status = sw_settings_find_models(s, err);
    if (!status)
        status = sw_kernel_set_of(s, &run->plan.kernel_set, err);
    sw_cores_find(&run->cores);
    if (!status && !run->options->dry_run) /* which writes nothing */
        status = sw_run_folder_look(run, err);
    if (!status && !run->options->model)
        status = sw_assembly_model(s, &model, err);
    if (!status)
        status = sw_run_data_open(
            run, run->options->model ? run->options->model->vocabulary : model.vocabulary, err);
    const sw_launcher *launcher = run->hosts ? run->hosts->launcher : NULL;
    sw_assembly_choose(
        s, launcher ? run->cores.n * launcher->size / launcher->host_size : run->cores.n, &choice,
        run->plan.why_ranks, sizeof run->plan.why_ranks);
    if (!status)
        status = sw_faults_check(run->faults, choice.n_ranks, err);
    if (status)
        return status;
    choice.n_ranks_here = launcher ? launcher->host_size : 0;
    choice.keeps_documents_apart = sw_run_has_documents(run);
    if ((status = find_length(run, err)))
        return status;
    sw_run_settle(run);
    s = run->settings;
    status = sw_assembly_create(s, run->options->model, &choice, &run->plan.assembly, err);
    if (!status && s->model.path)
        status = sw_model_files_check(s->model.path, sw_assembly_files_config(&run->plan.assembly),
                                      run->plan.assembly.graph, err);
    if (!status && choice.keeps_documents_apart &&
        sw_program_buffer_of(run->plan.assembly.program, SW_PORT_DOCUMENTS) < 0)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "rows hold pieces of several documents, which this model does not keep "
                         "apart (sw_documents) · set "
                         "data.packing: false for text without boundaries");
    if (!status && run->plan.assembly.lora.rank)
        status = check_adapters(run, err);
    if (!status)
        status = sw_run_data_look(run, err);
    if (status)
        return status;
    run->schedule = (sw_schedule){.kind = (sw_schedule_kind)s->optimizer.schedule,
                                  .peak = s->optimizer.learning_rate,
                                  .warmup_steps = s->optimizer.warmup_steps,
                                  .final_ratio = s->optimizer.final_ratio,
                                  .decay_ratio = s->optimizer.decay_ratio};
    sw_gemm_choose(run->plan.kernel_set, sw_sharding_numbers(&run->plan.assembly.sharding),
                   s->train.reproducible, &run->plan.gemm);
    status = sw_record_create(&run->plan.assembly, run->data, run->plan.kernel_set,
                              run->plan.gemm.kind, &run->record, err);
    if (!status && run->goes_on)
        status = sw_run_folder_compare(run, err);
    if (!status)
        status = sw_plan_price(&run->plan, err);
    if (status || run->is_finished) /* which takes nothing more */
        return status;
    if (run->is_first_host)
        status = sw_run_folder_room(run, err);
    return status ? status : sw_plan_check_fit(&run->plan, err);
}

static sw_status enter_folder(sw_run *run, sw_error *err) {
    sw_status status =
        run->goes_on ? sw_run_folder_clean(run, err) : sw_run_folder_create(run, err);
    if (!status && run->lock.missing) {
        char text[SW_MESSAGE_BYTES];
        sw_run_lock_warning(&run->lock, run->settings->checkpoint.path, text, sizeof text);
        sw_report_warning(run, "%s", text);
    }
    if (status || !run->goes_on)
        return status;
    sw_run_folder_tidy(run);
    return sw_run_folder_renew(run, err);
}

/* All hosts have looked at the folder, as it was: now it may be made. */
static sw_status begin_on_hosts(void *to, const char *remark, sw_error *err) {
    sw_run *run = to;
    const sw_launcher *launcher = run->hosts->launcher;
    if (!run->is_first_host)
        return SW_OK;
    sw_report_line(run, "hosts: %d ranks, %d of them on %s; by %s, called by one process a host",
                   launcher->size, launcher->host_size, launcher->host, remark);
    if (run->settings->train.restarts)
        sw_report_line(run, "       train.restarts needs one host; after a failure the same "
                            "command goes on from the last checkpoint");
    return enter_folder(run, err);
}

static void end_on_hosts(void *to, uint64_t bytes, double cpu_seconds) {
    const sw_run *run = to;
    char left[SW_TEXT_NUMBER_BYTES];
    if (run->is_first_host)
        sw_report_line(run, "hosts: %s left %s, and its process for that used %.1f s of CPU",
                       sw_text_bytes((int64_t)bytes, left, sizeof left), run->hosts->launcher->host,
                       cpu_seconds);
}

static sw_status launch(sw_run *run, sw_error *err) {
    sw_status status = run->hosts ? SW_OK : enter_folder(run, err);
    if (!status)
        status = sw_run_launch(run, err);
    sw_run_folder_leave(run);
    return status;
}

sw_status sw_train(const sw_settings *settings, const sw_train_options *options,
                   const sw_launch_hosts *hosts, sw_error *err) {
    sw_run run = {.settings = settings,
                  .options = options,
                  .is_first_host = !hosts || hosts->launcher->rank == 0,
                  .lock = {.descriptor = -1}};
    sw_launch_hosts own;
    if (hosts) {
        own = *hosts;
        own.met = begin_on_hosts;
        own.parted = end_on_hosts;
        own.to = &run;
        run.hosts = &own;
    }
    sw_error unseen = {0};
    err = err ? err : &unseen;
    sw_status status = sw_faults_open(options->faults, options->n_faults, &run.faults, err);
    if (!status && run.faults && options->as_threads)
        status =
            sw_fail(err, SW_BAD_CONFIG,
                    "faults are injected into processes; ranks as threads would all be struck");
    if (!status)
        status = sw_faults_begin(run.faults, err);
    if (!status)
        status = prepare(&run, err);
    if (status) /* for tokens that had no other place the folder is made before */
        sw_run_folder_leave(&run);
    if (!status)
        sw_report_start(&run);
    if (!status && run.room_remark[0])
        sw_report_warning(&run, "%s", run.room_remark);
    if (!status && run.is_finished)
        sw_report_line(&run,
                       "%s is finished: its %lld %s done; ask for more with train.steps, or take "
                       "another folder",
                       settings->checkpoint.path, (long long)run.n_steps,
                       sw_text_noun(run.n_steps, "step is", "steps are"));
    else if (!status && !options->dry_run) {
        status = launch(&run, err);
        for (int i = 0; run.faults && i < run.faults->n; i++)
            if (!sw_fault_has_struck(run.faults, i))
                sw_report_line(&run, "inject: %s has not struck", run.faults->item[i].text);
    }
    sw_run_lock_release(&run.lock);
    sw_record_free(&run.record);
    sw_run_data_close(&run);
    sw_assembly_free(&run.plan.assembly);
    sw_faults_close(run.faults);
    return status;
}
