/* fuzz_machine.c: any bytes as a machine file. What is accepted has rates that are numbers, and a
 * choice by it can run here. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cpu/choice.h"
#include "device/cpu/open.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    sw_machine machine;
    sw_error err = {0};
    sw_status status =
        sw_machine_parse("input", (const char *)data, (int64_t)n_bytes, &machine, &err);
    assert(status == SW_OK || (status == SW_BAD_FILE && err.message[0]));
    if (status)
        return 0;
    assert((unsigned)machine.set < SW_N_KERNEL_SETS);
    for (int roof = 0; roof < SW_N_ROOFS; roof++)
        assert(machine.roof[roof] >= 0 && machine.roof[roof] < 1e18);
    for (int numbers = 0; numbers < SW_N_NUMBER_KINDS; numbers++) {
        sw_gemm_choice choice;
        if (sw_gemm_choose_by(&machine, (sw_number_kind)numbers, &choice))
            assert(sw_gemm_runs_here(choice.kind, machine.set));
    }
    return 0;
}
