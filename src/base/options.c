/* options.c: see options.h. */
#include "base/options.h"

#include <string.h>

sw_status sw_options_take(const void *given, void *known, size_t known_bytes, const char *name,
                          const char *initializer, sw_error *err) {
    size_t size = *(const size_t *)given;
    if (size <= sizeof size || size > known_bytes)
        return sw_fail(err, SW_BAD_CONFIG, "%s has size %zu, this library knows %zu; start from %s",
                       name, size, known_bytes, initializer);
    memcpy(known, given, size);
    memcpy(known, &known_bytes, sizeof known_bytes);
    return SW_OK;
}
