/* chat_marks.h: how chat formats look: the marks that they spell control tokens like, and
 * headers. */
#ifndef SW_DATA_CHAT_MARKS_H
#define SW_DATA_CHAT_MARKS_H

#include <stdbool.h>

#include "base/slice.h"

bool sw_begins_with(sw_slice s, sw_slice with);
bool sw_ends_with(sw_slice s, sw_slice with);

/* Blanks and line ends alone; all but those at its end. */
bool sw_are_blanks(sw_slice s);
sw_slice sw_without_blanks_behind(sw_slice s);

/* Bytes of a mark that begins here, "<|im_end|>", "</s>", "[/INST]"; 0: none does. */
int64_t sw_mark_at(sw_slice s);

/* Does a mark end with it? */
bool sw_ends_in_mark(sw_slice s);

/* Marks alone, and blanks. */
bool sw_are_marks(sw_slice s);

/* Marks of thoughts alone, "<think>\n\n</think>", and blanks; at least one of them. */
bool sw_is_thought(sw_slice s);

/* Bytes of s, at most `at`, that no mark reaches over. */
int64_t sw_before_mark(sw_slice s, int64_t at);

/* Does it read as a header: marks, punctuation, and a name of who speaks? What begins a thought is
 * no mark of a header. */
bool sw_is_header(sw_slice s);

#endif
