/* fuzz_gguf.c: any bytes as a GGUF file. What the parser accepts must lie within the bytes, so
 * every block that is readable is unpacked; then the settings and the tokenizer are made of the
 * metadata, and what is made must be JSON. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "hf/gguf_model.h"
#include "hf/gguf_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void unpack_tensor(const uint8_t *data, size_t n_bytes, const sw_gguf_tensor *tensor) {
    const sw_gguf_format *format = tensor->format;
    assert(tensor->file_offset >= 0 && tensor->n_bytes >= 0 &&
           (size_t)(tensor->file_offset + tensor->n_bytes) <= n_bytes);
    assert(tensor->n_bytes == tensor->n_elements / format->block * format->block_bytes);
    float out[256];
    for (int64_t at = 0; format->unpack && at < tensor->n_bytes; at += format->block_bytes)
        format->unpack(data + tensor->file_offset + at, out);
}

static void check_json(const char *text) {
    sw_json *document;
    sw_error err;
    if (!text)
        return;
    assert(sw_json_parse("made", text, (int64_t)strlen(text), &document, &err) == SW_OK);
    sw_json_free(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    sw_gguf file;
    sw_error err = {0};
    bool is_cut;
    if (sw_gguf_parse("input", data, (int64_t)n_bytes, (int64_t)n_bytes, &file, &is_cut, &err) !=
        SW_OK) {
        assert(!is_cut && err.status == SW_BAD_FILE && err.message[0]);
        sw_gguf_close(&file);
        return 0;
    }
    for (int t = 0; t < file.n_tensors; t++)
        unpack_tensor(data, n_bytes, &file.tensors[t]);
    char *config = NULL;
    sw_gguf_tokenizer_files texts;
    if (sw_gguf_config(&file, SW_F32, &config, &err) == SW_OK) {
        sw_model_config parsed;
        (void)sw_model_config_parse("config.json", config, (int64_t)strlen(config), &parsed, &err);
    }
    if (sw_gguf_tokenizer(&file, &texts, &err) == SW_OK) {
        check_json(texts.tokenizer);
        check_json(texts.tokenizer_config);
        check_json(texts.generation_config);
    }
    sw_gguf_tokenizer_files_free(&texts);
    free(config);
    sw_gguf_close(&file);
    return 0;
}
