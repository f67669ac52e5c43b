/* companions.h: the files beside the weights that belong to a model: its tokenizer, its chat
 * template, how it generates. */
#ifndef SW_HF_COMPANIONS_H
#define SW_HF_COMPANIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

/* The i-th name that such a file may have, NULL when there are no more. *is_tokenizer (may be
 * NULL): does it describe the tokenizer? */
const char *sw_companion_name(int i, bool *is_tokenizer);

/* Bytes of those that are in `folder`. */
int64_t sw_companions_bytes(const char *folder);

/* Copy those that are there from one folder into the other, the tokenizer's only if
 * `with_tokenizer`. `chat_template`: what conversations are written by in place of the tokenizer's
 * own; NULL: its own. */
sw_status sw_companions_copy(const char *from, const char *to, bool with_tokenizer,
                             const char *chat_template, sw_error *err);

/* Copy one file, whatever it holds; `to` must not exist. */
sw_status sw_companion_copy_file(const char *from, const char *to, sw_error *err);

#endif
