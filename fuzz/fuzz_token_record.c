/* fuzz_token_record.c: any bytes as the record beside a token file. What is taken has counts that
 * can be and a hash, and written again says the same; what is refused has a message. */
#include <assert.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "data/token_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    sw_token_record record, again;
    sw_error err = {0};
    char text[256];
    sw_status status =
        sw_token_record_parse("input", (const char *)data, (int64_t)n_bytes, &record, &err);
    if (status) {
        assert((status == SW_BAD_FILE || status == SW_NO_MEMORY) && err.status == status &&
               err.message[0]);
        return 0;
    }
    assert(record.n_tokens >= 0 && record.n_ids > 0);
    assert(strspn(record.tokenizer, "0123456789abcdef") == 16 && !record.tokenizer[16]);
    int n = snprintf(text, sizeof text,
                     "{\"format\": 1, \"tokens\": %" PRId64 ", \"ids\": %" PRId64
                     ", \"tokenizer\": \"%s\"}\n",
                     record.n_tokens, record.n_ids, record.tokenizer);
    status = sw_token_record_parse("written", text, n, &again, &err);
    assert(status == SW_OK && again.n_tokens == record.n_tokens && again.n_ids == record.n_ids &&
           !strcmp(again.tokenizer, record.tokenizer));
    return 0;
}
