/* manifest_format.h: what the writer and the reader of manifests must agree on to the byte. */
#ifndef SW_CHECKPOINT_MANIFEST_FORMAT_H
#define SW_CHECKPOINT_MANIFEST_FORMAT_H

#include "checkpoint/manifest.h"

#define SW_MANIFEST_FORMAT "shardwise checkpoint"
#define SW_MANIFEST_BEFORE_CHECKSUM ",\n\"checksum\": \""
#define SW_MANIFEST_AFTER_CHECKSUM "\"}\n"
enum { SW_CHECKSUM_DIGITS = 16 };

/* Of keys and values, in their order. */
uint64_t sw_manifest_settings_hash(const sw_manifest *manifest);

#endif
