/* fuzz_tokenizer.c: any bytes as a tokenizer.json, and after a NUL a text for it. What is accepted
 * must encode the text and decode what came out; ids lie below n_ids. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void use(const sw_tokenizer *tokenizer, const char *text, size_t n_text) {
    sw_tokenizer_scratch *scratch;
    sw_error err = {0};
    sw_token_list ids = {0};
    if (sw_tokenizer_scratch_create(tokenizer, &scratch, &err))
        return;
    for (int flags = 0; flags < 4; flags++) {
        char *decoded = NULL;
        size_t n_decoded = 0;
        ids.n = 0;
        if (sw_tokenizer_encode(tokenizer, scratch, text, n_text, flags, &ids, &err)) {
            assert((err.status == SW_BAD_FILE || err.status == SW_NO_MEMORY) && err.message[0]);
            continue;
        }
        if (!sw_tokenizer_decode(tokenizer, ids.ids, ids.n, flags & 1, &decoded, &n_decoded, &err))
            assert(decoded[n_decoded] == 0);
        free(decoded);
    }
    sw_token_list_free(&ids);
    sw_tokenizer_scratch_free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    static const char text[] =
        "a <s> b12  caf\xC3\xA9 e\xCC\x81 \xE4\xB8\x96\xF0\x9F\x8E\x89<m>\n\n it's \xE2\x96\x81 x";
    const char *json = (const char *)data;
    const char *stop = n_bytes ? memchr(json, 0, n_bytes) : NULL;
    size_t n_json = stop ? (size_t)(stop - json) : n_bytes;
    sw_tokenizer *tokenizer;
    sw_error err = {0};
    if (sw_tokenizer_parse("input", json, (int64_t)n_json, &tokenizer, &err)) {
        assert((err.status == SW_BAD_FILE || err.status == SW_NO_MEMORY) && err.message[0] &&
               !tokenizer);
        return 0;
    }
    assert(sw_tokenizer_n_ids(tokenizer) >= 0);
    use(tokenizer, text, sizeof text - 1);
    if (stop)
        use(tokenizer, stop + 1, n_bytes - n_json - 1);
    sw_tokenizer_free(tokenizer);
    return 0;
}
