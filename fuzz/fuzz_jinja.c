/* fuzz_jinja.c: any bytes as a template and, behind a line of four percent signs, what it is given.
 * What is rendered is UTF-8, within the bounds, with spans in order; what is refused has a reason
 * and leaves nothing. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"
#include "data/jinja/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const char given[] = "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, "
                            "{\"role\": \"user\", \"content\": \"na\\u00efve "
                            "\\ud83d\\ude00"
                            "\\n{{ x }}\"}, {\"role\": \"assistant\", \"content\": null, "
                            "\"tool_calls\": [{\"function\": {\"name\": \"f\", "
                            "\"arguments\": "
                            "{\"a\": [1, 2.5, true]}}}]}], \"tools\": [{\"type\": \"function\"}], "
                            "\"n\": 7, \"s\": \"a,b c\\td\", \"l\": [3, 1, \"x\", "
                            "null], \"d\": {\"items\": 1, \"k\": {\"z\": []}}, "
                            "\"add_generation_prompt\": true, \"bos_token\": \"<s>\"}";

static void render(const char *text, size_t n_bytes, const json_t *variables) {
    sw_jinja *template;
    sw_error err = {0};
    sw_jinja_rendering out = {0};
    sw_jinja_options options = {.max_steps = 200000, .max_output = 1 << 20, .max_memory = 16 << 20};
    struct tm now = {.tm_year = 126, .tm_mon = 10, .tm_mday = 30, .tm_hour = 12};
    options.now = &now;
    sw_status status = sw_jinja_parse("input", text, (int64_t)n_bytes, &template, &err);
    if (status != SW_OK) {
        assert(!template && err.message[0]);
        return;
    }
    (void)sw_jinja_mentions(template, "tool_calls");
    for (int i = 0; i < 2; i++) { /* the second time with the memory of the first */
        status = sw_jinja_render(template, variables, &options, &out, &err);
        if (status != SW_OK) {
            assert(err.message[0] && out.bytes == 0 && out.n_generation == 0);
            continue;
        }
        assert(out.bytes <= 1 << 20 && sw_text_is_utf8(out.text, (size_t)out.bytes));
        int64_t at = 0;
        for (int j = 0; j < out.n_generation; at = out.generation[j++].end)
            assert(at <= out.generation[j].first &&
                   out.generation[j].first <= out.generation[j].end &&
                   out.generation[j].end <= out.bytes);
    }
    sw_jinja_rendering_free(&out);
    sw_jinja_free(template);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    const char *text = (const char *)data, *cut = memmem(data, n_bytes, "\n%%%%\n", 6);
    json_t *variables =
        cut ? json_loadb(cut + 6, n_bytes - (size_t)(cut + 6 - text), JSON_ALLOW_NUL, NULL) : NULL;
    if (!json_is_object(variables)) {
        json_decref(variables);
        variables = json_loads(given, 0, NULL);
    }
    assert(variables);
    render(text, cut ? (size_t)(cut - text) : n_bytes, variables);
    json_decref(variables);
    return 0;
}
