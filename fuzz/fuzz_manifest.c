/* fuzz_manifest.c: any bytes as a manifest, and any bytes as what stands before its checksum. What
 * is accepted is written again and says the same.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/manifest.h"
#include "checkpoint/manifest_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void check_files(const sw_manifest *m) {
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++) {
        int64_t end = 0;
        for (int64_t i = 0; i < m->file[kind].n_ranges; i++) {
            assert(m->file[kind].range[i].offset == end && m->file[kind].range[i].bytes > 0);
            end += m->file[kind].range[i].bytes;
        }
        assert(end == m->file[kind].bytes);
    }
}

static void try_text(const char *text, int64_t bytes) {
    sw_manifest first, second;
    sw_state_files files;
    sw_error err;
    sw_status status = sw_manifest_parse("manifest.json", text, bytes, &first, &err);
    if (status == SW_OK) {
        check_files(&first);
        int64_t room = sw_manifest_write(&first, NULL, 0);
        char *again = malloc((size_t)room);
        if (!again)
            abort();
        int64_t again_bytes = sw_manifest_write(&first, again, room);
        status = sw_manifest_parse("again", again, again_bytes, &second, &err);
        assert(status == SW_OK && second.step == first.step &&
               second.n_parameters == first.n_parameters && strcmp(second.state, first.state) == 0);
        sw_manifest_free(&second);
        free(again);
        status = sw_state_files_plan(first.parameter, first.n_parameters, 1, &files, &err);
        assert(status == SW_OK || status == SW_BAD_CONFIG);
        sw_state_files_free(&files);
    } else {
        assert((status == SW_BAD_FILE || status == SW_BAD_CONFIG) && err.status == status &&
               err.message[0]); /* damaged; newer */
    }
    sw_manifest_free(&first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    try_text((const char *)data, (int64_t)n_bytes);
    char *text = malloc(n_bytes + 64);
    if (!text)
        abort();
    memcpy(text, data, n_bytes);
    int64_t n = (int64_t)n_bytes;
    n += sprintf(text + n, SW_MANIFEST_BEFORE_CHECKSUM);
    n += sprintf(text + n, "%016llx" SW_MANIFEST_AFTER_CHECKSUM,
                 (unsigned long long)sw_checksum(text, n));
    try_text(text, n);
    free(text);
    return 0;
}
