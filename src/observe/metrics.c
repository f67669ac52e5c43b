/* metrics.c: the keys of a step, in order. */
#include "observe/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/reason.h"

static void put_classes(sw_json_line *line, const char *key,
                        const int64_t bytes[SW_N_MEMORY_CLASSES]) {
    sw_json_line_open(line, key);
    for (int class = 0; class < SW_N_MEMORY_CLASSES; class ++)
        sw_json_line_integer(line, sw_memory_class_name((sw_memory_class) class), bytes[class]);
    sw_json_line_close(line);
}

void sw_metrics_format(const sw_step_metrics *m, sw_json_line *line) {
    sw_json_line_begin(line);
    sw_json_line_integer(line, "step", m->step);
    sw_json_line_real(line, "loss", m->loss);
    sw_json_line_real(line, "grad_norm", m->grad_norm);
    sw_json_line_real(line, "grad_norm_clipped", m->grad_norm_clipped);
    sw_json_line_real(line, "learning_rate", m->learning_rate);
    sw_json_line_integer(line, "tokens", m->tokens);
    sw_json_line_integer(line, "supervised_tokens", m->supervised_tokens);
    sw_json_line_real(line, "tokens_per_second", m->tokens_per_second);
    sw_json_line_real(line, "step_seconds", m->step_seconds);
    sw_json_line_real(line, "compute_seconds", m->compute_seconds);
    sw_json_line_real(line, "wait_seconds", m->wait_seconds);
    sw_json_line_real(line, "gather_wait_seconds", m->gather_wait_seconds);
    sw_json_line_real(line, "reduce_wait_seconds", m->reduce_wait_seconds);
    sw_json_line_real(line, "decide_wait_seconds", m->decide_wait_seconds);
    sw_json_line_real(line, "moving_seconds", m->moving_seconds);
    sw_json_line_real(line, "communication_wait_seconds", m->communication_wait_seconds);
    sw_json_line_integer(line, "gather_bytes", m->gather_bytes);
    sw_json_line_integer(line, "reduce_bytes", m->reduce_bytes);
    sw_json_line_real(line, "flops_per_second", m->flops_per_second);
    sw_json_line_open(line, "memory");
    put_classes(line, "planned", m->memory.planned);
    put_classes(line, "peak", m->memory.peak);
    sw_json_line_integer(line, "resident", m->memory.resident);
    sw_json_line_integer(line, "rank", m->memory.rank);
    sw_json_line_close(line);
    if (m->has_validation_loss)
        sw_json_line_real(line, "validation_loss", m->validation_loss);
    if (m->skipped)
        sw_json_line_text(line, "skipped", m->skipped);
    sw_json_line_end(line);
}

sw_status sw_metrics_cut(const char *path, int64_t step, sw_error *err) {
    sw_status status = sw_file_check_name(path, err);
    if (status)
        return status;
    FILE *file = fopen(path, "r+e");
    if (!file)
        return errno == ENOENT ? SW_OK : sw_cannot_write(path, errno, err);
    char *line = NULL;
    size_t capacity = 0;
    int64_t kept = 0, of_line;
    ssize_t n;
    for (; (n = getline(&line, &capacity, file)) > 0 && line[n - 1] == '\n'; kept += n)
        if (sscanf(line, "{\"step\": %" SCNd64, &of_line) == 1 && of_line > step)
            break;
    if (n < 0 && !feof(file)) /* no end, but no memory for a line, or no line from the disk: nothing
                                 may be cut */
        status = sw_cannot_read(path, errno, err);
    else if (ftruncate(fileno(file), kept))
        status = sw_fail_call(err, SW_CALL_WRITE, errno, "%s: cannot be cut after step %" PRId64,
                              path, step);
    free(line);
    fclose(file);
    return status;
}

sw_status sw_metrics_write(sw_json_lines *metrics, const sw_step_metrics *step, sw_error *err) {
    sw_metrics_format(step, &metrics->line);
    return sw_json_lines_append(metrics, err);
}
