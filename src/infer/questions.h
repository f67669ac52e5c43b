/* questions.h: a file of multiple-choice questions as rows of tokens, one for each choice. */
#ifndef SW_INFER_QUESTIONS_H
#define SW_INFER_QUESTIONS_H

#include "data/codec.h"

/* A prompt with one of its choices: ids [n]; those from first_scored on are the choice. */
typedef struct sw_choice {
    int64_t question;
    int32_t *ids;
    int64_t n, first_scored;
    int64_t n_bytes; /* of the choice's text */
    bool is_right;
} sw_choice;

typedef struct sw_questions {
    sw_choice *choices; /* in the order of the file */
    int64_t n_choices, capacity;
    int64_t n_questions, longest; /* longest: ids of a choice */
} sw_questions;

/* One question a line: {"prompt": text, "choices": [texts, at least 2], "answer": the place of the
 * right one, from 0, or its text}. A choice follows the prompt as it is: a blank between them
 * belongs to one of the two. Ownership: sw_questions_free, after errors too. Errors: SW_BAD_FILE
 * with file and line. */
sw_status sw_questions_read(const char *path, sw_codec *codec, int64_t max_positions,
                            sw_questions *questions, sw_error *err);
void sw_questions_free(sw_questions *questions);

#endif
