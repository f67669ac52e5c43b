/* manifest_format.h: what the writer and the reader of manifests must agree on to the byte. */
#ifndef SW_CHECKPOINT_MANIFEST_FORMAT_H
#define SW_CHECKPOINT_MANIFEST_FORMAT_H

#include "checkpoint/manifest.h"

#define SW_MANIFEST_FORMAT "shardwise checkpoint"
#define SW_MANIFEST_BEFORE_CHECKSUM ",\n\"checksum\": \""
#define SW_MANIFEST_AFTER_CHECKSUM "\"}\n"
enum { SW_CHECKSUM_DIGITS = 16 };

/* Behind the JSON object at `text`, as far as braces and quotes tell: what the caller's state must
 * be, so that the manifest can be read. NULL: there is none before `end`. */
const char *sw_manifest_object_end(const char *text, const char *end);

/* Of keys and values, in their order. */
uint64_t sw_manifest_settings_hash(const sw_manifest *manifest);

#endif
