/* questions.c: prompt and choice are encoded together, as the model would meet them; the choice
 * begins at the first token in which that differs from the prompt alone.
 */
#include "infer/questions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "data/jsonl.h"

enum { MOST_CHOICES = 64 };

typedef struct reader {
    const char *path;
    int64_t line, max_positions;
    sw_codec *codec;
    sw_questions *questions;
    sw_token_list prompt, whole;
    char *joined;
} reader;

static sw_status no_memory(const reader *r, sw_error *err) {
    return sw_fail(err, SW_NO_MEMORY, "%s: no memory for its questions", r->path);
}

static sw_choice *new_choice(reader *r) {
    sw_questions *q = r->questions;
    if (q->n_choices == q->capacity) {
        int64_t capacity = 2 * q->capacity + 64;
        sw_choice *grown = realloc(q->choices, (size_t)capacity * sizeof *grown);
        if (!grown)
            return NULL;
        q->choices = grown;
        q->capacity = capacity;
    }
    q->choices[q->n_choices] = (sw_choice){.question = q->n_questions};
    return &q->choices[q->n_choices++];
}

static sw_status add_choice(reader *r, const char *prompt, const char *text, bool is_right,
                            sw_error *err) {
    size_t n_prompt = strlen(prompt), n_text = strlen(text);
    size_t bytes = n_prompt + n_text + 1;
    char *joined = realloc(r->joined, bytes);
    if (!joined)
        return no_memory(r, err);
    r->joined = joined;
    snprintf(joined, bytes, "%s%s", prompt, text);
    r->prompt.n = r->whole.n = 0;
    sw_status status =
        n_prompt ? sw_codec_encode(r->codec, sw_slice_of(prompt), &r->prompt, err) : SW_OK;
    if (!status)
        status = sw_codec_encode(r->codec, sw_slice_of(joined), &r->whole, err);
    if (status)
        return status;
    int64_t first = 0, n = r->whole.n;
    while (first < r->prompt.n && first < n && r->prompt.ids[first] == r->whole.ids[first])
        first++;
    first = first ? first : 1; /* nothing predicts the first token */
    if (first >= n)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: line %" PRId64 ": the choice \"%.60s\" adds no token to the prompt",
                       r->path, r->line, text);
    if (n > r->max_positions)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: line %" PRId64 ": prompt and choice have %" PRId64
                       " tokens, and this model has %" PRId64 " %s",
                       r->path, r->line, n, r->max_positions,
                       sw_text_noun(r->max_positions, "position", "positions"));
    sw_choice *choice = new_choice(r);
    if (!choice || !(choice->ids = malloc((size_t)n * sizeof *choice->ids)))
        return no_memory(r, err);
    memcpy(choice->ids, r->whole.ids, (size_t)n * sizeof *choice->ids);
    choice->n = n;
    choice->first_scored = first;
    choice->n_bytes = (int64_t)n_text;
    choice->is_right = is_right;
    r->questions->longest = n > r->questions->longest ? n : r->questions->longest;
    return SW_OK;
}

/* The place of the right choice: a whole number, or the choice's text. */
static sw_status read_answer(const reader *r, const sw_json_object *row, const char **choices,
                             int n, int64_t *answer, sw_error *err) {
    const char *text;
    if (sw_json_text(row, "answer", SW_JSON_REQUIRED, &text, NULL))
        return sw_json_integer(row, "answer", SW_JSON_REQUIRED, answer, err);
    for (int i = 0; i < n; i++)
        if (!strcmp(text, choices[i])) {
            *answer = i;
            return SW_OK;
        }
    return sw_fail(err, SW_BAD_FILE,
                   "%s: line %" PRId64 ": the answer \"%.60s\" is none of the choices", r->path,
                   r->line, text);
}

static sw_status read_question(reader *r, const char *line, int64_t n_bytes, sw_error *err) {
    char name[SW_PATH_BYTES];
    const char *prompt, *choices[MOST_CHOICES];
    int n = 0;
    int64_t answer = -1;
    sw_json *document = NULL;
    snprintf(name, sizeof name, "%s: line %" PRId64, r->path, r->line);
    sw_status status = sw_json_parse(name, line, n_bytes, &document, err);
    if (status)
        return status;
    sw_json_object row = sw_json_root(document);
    status = sw_json_text(&row, "prompt", SW_JSON_REQUIRED, &prompt, err);
    if (!status)
        status = sw_json_texts(&row, "choices", choices, MOST_CHOICES, &n, err);
    if (!status && (n < 2 || n > MOST_CHOICES))
        status =
            sw_fail(err, SW_BAD_FILE, "%s: there %s %d %s; 2 to %d are possible", name,
                    n == 1 ? "is" : "are", n, sw_text_noun(n, "choice", "choices"), MOST_CHOICES);
    if (!status)
        status = read_answer(r, &row, choices, n, &answer, err);
    if (!status && (answer < 0 || answer >= n))
        status =
            sw_fail(err, SW_BAD_FILE,
                    "%s: answer %" PRId64 " is not a place among %d choices, which count from 0",
                    name, answer, n);
    for (int i = 0; i < n && !status; i++)
        status = add_choice(r, prompt, choices[i], i == answer, err);
    sw_json_free(document);
    r->questions->n_questions += !status;
    return status;
}

sw_status sw_questions_read(const char *path, sw_codec *codec, int64_t max_positions,
                            sw_questions *questions, sw_error *err) {
    reader r = {
        .path = path, .max_positions = max_positions, .codec = codec, .questions = questions};
    char *text;
    int64_t n_bytes;
    *questions = (sw_questions){0};
    sw_status status = sw_file_read(path, INT64_C(1) << 31, &text, &n_bytes, err);
    if (status)
        return status;
    sw_jsonl lines = {0};
    status = sw_jsonl_begin(&lines, path, text, n_bytes, NULL, err);
    for (sw_slice line; !status && sw_jsonl_next_line(&lines, &line);) {
        r.line = lines.line;
        status = read_question(&r, line.text, line.bytes, err);
    }
    sw_jsonl_end(&lines);
    if (!status && !questions->n_questions)
        status = sw_fail(err, SW_BAD_FILE, "%s: holds no question", path);
    free(text);
    free(r.joined);
    sw_token_list_free(&r.prompt);
    sw_token_list_free(&r.whole);
    return status;
}

void sw_questions_free(sw_questions *questions) {
    for (int64_t i = 0; i < questions->n_choices; i++)
        free(questions->choices[i].ids);
    free(questions->choices);
    *questions = (sw_questions){0};
}
