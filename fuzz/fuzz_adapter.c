/* fuzz_adapter.c: any bytes as adapter_config.json. What is taken is an adapter that can be
 * computed with; what is refused has a message. */
#include <assert.h>
#include <math.h>
#include <stdint.h>

#include "hf/adapter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    sw_adapter_config config;
    sw_error err = {0};
    sw_status status =
        sw_adapter_config_parse("input", (const char *)data, (int64_t)n_bytes, &config, &err);
    if (status == SW_OK) {
        const sw_lora *lora = &config.lora;
        assert(lora->rank > 0 && lora->dropout >= 0 && lora->dropout < 1);
        assert(sw_lora_scale(lora) >= 0 && isfinite(sw_lora_scale(lora)));
        assert(!config.chooses_by_names || lora->n_targets > 0);
        (void)sw_lora_chooses(lora, "model.layers.0.self_attn.q_proj");
    } else {
        assert((status == SW_BAD_FILE || status == SW_NO_MEMORY) && err.message[0]);
    }
    sw_adapter_config_free(&config);
    return 0;
}
