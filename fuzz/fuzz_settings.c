/* fuzz_settings.c: any bytes as run.yaml. What is taken must print to text that reads back to the
 * same settings; what is refused has a message. The first line may hold one override, after "#=".
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    char *text = malloc(n_bytes + 1), override[256] = "";
    if (!text)
        return 0;
    memcpy(text, data, n_bytes);
    text[n_bytes] = 0;
    if (!strncmp(text, "#=", 2)) {
        size_t length = strcspn(text + 2, "\n");
        if (length >= sizeof override)
            length = sizeof override - 1;
        memcpy(override, text + 2, length);
        override[length] = 0;
    }
    const char *overrides[] = {override};
    sw_settings settings;
    sw_error err = {0};
    if (sw_settings_parse("input", "/folder", text, overrides, *override != 0, &settings, &err) !=
        SW_OK)
        assert((err.status == SW_BAD_CONFIG || err.status == SW_NO_MEMORY) && err.message[0]);
    else {
        char *told = sw_settings_yaml(
            &settings); /* with the reasons of what was chosen, which change nothing */
        settings.chosen = (sw_chosen){0};
        char *first = sw_settings_yaml(&settings);
        sw_settings again;
        assert(told && first &&
               sw_settings_parse("printed", "/elsewhere", told, overrides, 0, &again, &err) ==
                   SW_OK);
        assert(again.chosen.learning_rate == NULL && again.chosen.weight_decay == NULL &&
               again.chosen.warmup_steps == NULL);
        char *second = sw_settings_yaml(&again);
        assert(second && !strcmp(first, second));
        sw_settings_free(&again);
        free(told);
        free(first);
        free(second);
    }
    sw_settings_free(&settings);
    free(text);
    return 0;
}
