#include "checkpoint/convert.h"
sw_status sw_checkpoint_export_gguf(const char *from, const char *to, sw_dtype dtype, bool with_tokenizer, sw_error *err) {
    (void)from, (void)to, (void)dtype, (void)with_tokenizer;
    return sw_fail(err, SW_BAD_CONFIG, "later");
}
