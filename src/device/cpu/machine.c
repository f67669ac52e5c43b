/* machine.c: see machine.h. */
#include "device/cpu/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/json_number.h"
#include "base/reason.h"
#include "base/text.h"

enum { FORMAT = 1, MOST_BYTES = 64 * 1024 };

sw_status sw_machine_path(char path[SW_PATH_BYTES], sw_error *err) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache == '/')
        return sw_path_join(path, cache, "shardwise/machine.json", err);
    if (home && *home)
        return sw_path_join(path, home, ".cache/shardwise/machine.json", err);
    return sw_fail(err, SW_BAD_CONFIG,
                   "the machine file has no place: neither XDG_CACHE_HOME nor HOME is set · name "
                   "one with --output");
}

/* A rate: finite, not negative. */
static sw_status get_rate(const sw_json_object *object, const char *key, double *rate,
                          sw_error *err) {
    sw_status status = sw_json_real(object, key, SW_JSON_OPTIONAL, rate, err);
    if (!status && !(*rate >= 0 && *rate < 1e18))
        status =
            sw_fail(err, SW_BAD_FILE,
                    "%s: %s%s is %g operations per second · measure again: shardwise bench gemm",
                    sw_json_name(object), object->path, key, *rate);
    return status;
}

static sw_status get_text(const sw_json_object *object, const char *key, char *to, size_t bytes,
                          sw_error *err) {
    const char *text = NULL;
    sw_status status = sw_json_text(object, key, SW_JSON_REQUIRED, &text, err);
    if (!status && strlen(text) >= bytes)
        status = sw_fail(err, SW_BAD_FILE,
                         "%s: %s is longer than %zu bytes · measure again: shardwise bench gemm",
                         sw_json_name(object), key, bytes - 1);
    if (!status)
        snprintf(to, bytes, "%s", text);
    return status;
}

static sw_status get_rates(const sw_json_object *root, const char *key,
                           double rates[SW_N_GEMM_KINDS], sw_error *err) {
    sw_json_object object;
    sw_status status = sw_json_child(root, key, &object, err);
    for (int kind = 0; kind < SW_N_GEMM_KINDS && !status; kind++)
        status = get_rate(&object, sw_gemm_kind_name((sw_gemm_kind)kind), &rates[kind], err);
    return status;
}

static sw_status get_machine(const sw_json_object *root, sw_machine *machine, sw_error *err) {
    int64_t format = 0;
    char set[32];
    sw_json_object roofs;
    *machine = (sw_machine){.set = SW_N_KERNEL_SETS};
    sw_status status = sw_json_integer(root, "format", SW_JSON_REQUIRED, &format, err);
    if (!status && format != FORMAT)
        status =
            sw_fail(err, SW_BAD_FILE,
                    "%s: format %lld, this version reads %d · measure again: shardwise bench gemm",
                    sw_json_name(root), (long long)format, FORMAT);
    if (!status)
        status = get_text(root, "cpu", machine->cpu, sizeof machine->cpu, err);
    if (!status)
        status = get_text(root, "version", machine->version, sizeof machine->version, err);
    if (!status)
        status = get_text(root, "kernel_set", set, sizeof set, err);
    for (int i = 0; i < SW_N_KERNEL_SETS && !status; i++)
        if (!strcmp(set, sw_kernel_set_name((sw_kernel_set)i)))
            machine->set = (sw_kernel_set)i;
    if (!status && machine->set == SW_N_KERNEL_SETS)
        status = sw_fail(err, SW_BAD_FILE,
                         "%s: there is no kernel set %s · measure again: shardwise bench gemm",
                         sw_json_name(root), set);
    if (!status)
        status = sw_json_child(root, "roofs", &roofs, err);
    for (int roof = 0; roof < SW_N_ROOFS && !status; roof++)
        status = get_rate(&roofs, sw_roof_name((sw_roof)roof), &machine->roof[roof], err);
    if (!status)
        status = get_rates(root, "products_of_fp32", machine->fp32, err);
    if (!status)
        status = get_rates(root, "products_of_bf16", machine->bf16, err);
    return status;
}

static sw_status take_document(sw_json *document, sw_machine *machine, sw_error *err) {
    const sw_json_object root = sw_json_root(document);
    sw_status status = get_machine(&root, machine, err);
    sw_json_free(document);
    return status;
}

sw_status sw_machine_parse(const char *name, const char *text, int64_t bytes, sw_machine *machine,
                           sw_error *err) {
    sw_json *document = NULL;
    sw_status status = sw_json_parse(name, text, bytes, &document, err);
    return status ? status : take_document(document, machine, err);
}

sw_status sw_machine_read(const char *path, sw_machine *machine, sw_error *err) {
    sw_json *document = NULL;
    sw_status status = sw_json_read(path, MOST_BYTES, &document, err);
    return status ? status : take_document(document, machine, err);
}

/* What was measured: the rest is left out. */
static void put_rate(json_t *object, const char *name, double rate) {
    if (rate > 0 && isfinite(rate))
        json_object_set_new(object, name, json_real(rate));
}

static json_t *rates_json(const double rates[SW_N_GEMM_KINDS]) {
    json_t *object = json_object();
    for (int kind = 0; kind < SW_N_GEMM_KINDS; kind++)
        put_rate(object, sw_gemm_kind_name((sw_gemm_kind)kind), rates[kind]);
    return object;
}

static char *machine_text(const sw_machine *m) {
    json_t *roofs = json_object();
    for (int roof = 0; roof < SW_N_ROOFS; roof++)
        put_rate(roofs, sw_roof_name((sw_roof)roof), m->roof[roof]);
    json_t *root =
        json_pack("{s:i, s:s, s:s, s:s, s:o, s:o, s:o}", "format", FORMAT, "cpu", m->cpu, "version",
                  m->version, "kernel_set", sw_kernel_set_name(m->set), "roofs", roofs,
                  "products_of_fp32", rates_json(m->fp32), "products_of_bf16", rates_json(m->bf16));
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(4)) : NULL;
    json_decref(root);
    return text;
}

/* The folders that `path` is to lie in. */
static sw_status make_folders(const char *path, sw_error *err) {
    char folder[SW_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(folder, 0777) && errno != EEXIST)
            return sw_fail_call(err, SW_CALL_WRITE, errno, "%s: cannot be made", folder);
        *slash = '/';
    }
    return SW_OK;
}

sw_status sw_machine_write(const char *path, const sw_machine *machine, sw_error *err) {
    char *text = machine_text(machine);
    if (!text)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for the machine file", path);
    sw_status status = make_folders(path, err);
    if (!status)
        status = sw_file_write(path, text, (int64_t)strlen(text), err);
    free(text);
    return status;
}

bool sw_machine_is_this(const sw_machine *machine, sw_kernel_set set) {
    char cpu[SW_CPU_NAME_BYTES];
    sw_cpu_name(cpu);
    return machine->set == set && !strcmp(machine->cpu, cpu) &&
           !strcmp(machine->version, SW_VERSION);
}
