/* json.h: JSON read strictly.
 *
 * A key that is there twice, a number that is none (NaN) or beyond 64 bits, text that is not UTF-8,
 * anything after the value and nesting beyond 2048 levels are errors that name file, line and
 * column. A getter takes one type and no relatives of it: 1.0, "1" and true are no integers. `null`
 * is the same as absent, as Hugging Face has it.
 */
#ifndef SW_BASE_JSON_H
#define SW_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shardwise/status.h>

typedef struct sw_json sw_json; /* a document */

/* An object in a document, and how messages call it: "dir/config.json: rope_parameters.rope_theta".
 * Lives as long as the document. */
typedef struct sw_json_object {
    const sw_json *document;
    const void *value;
    char path[96]; /* "" or "rope_parameters." */
} sw_json_object;

/* Where the text of a JSON file begins: behind a byte order mark of UTF-8, if there is one. What is
 * no JSON but a web page, a pointer of Git LFS and so on (base/file_format.h) is SW_BAD_FILE. The
 * functions below do this by themselves. */
sw_status sw_json_begin(const char *name, const char **text, int64_t *bytes, sw_error *err);

/* Read a file whose root is an object. `max_bytes`: longer ones are refused unread. Ownership:
 * sw_json_free. */
sw_status sw_json_read(const char *path, int64_t max_bytes, sw_json **document, sw_error *err);

/* The same for a file whose numbers nobody uses: all are reals, of any size. tokenizer_config.json
 * tends to say model_max_length 10^30. */
sw_status sw_json_read_without_integers(const char *path, int64_t max_bytes, sw_json **document,
                                        sw_error *err);

/* The same from text [bytes]; `name` stands for the file in messages. */
sw_status sw_json_parse(const char *name, const char *text, int64_t bytes, sw_json **document,
                        sw_error *err);
void sw_json_free(sw_json *document);
sw_json_object sw_json_root(const sw_json *document);

typedef enum sw_json_need { SW_JSON_OPTIONAL, SW_JSON_REQUIRED } sw_json_need;

/* Get the value of a key. When an optional one is absent or null, *value stays as it is. Texts
 * belong to the document. Errors: SW_BAD_FILE with file, key, what is there and what is needed. */
sw_status sw_json_integer(const sw_json_object *object, const char *key, sw_json_need need,
                          int64_t *value, sw_error *err);
sw_status sw_json_real(const sw_json_object *object, const char *key, sw_json_need need,
                       double *value, sw_error *err); /* or an integer */
sw_status sw_json_bool(const sw_json_object *object, const char *key, sw_json_need need,
                       bool *value, sw_error *err);
sw_status sw_json_text(const sw_json_object *object, const char *key, sw_json_need need,
                       const char **value, sw_error *err);
sw_status sw_json_child(const sw_json_object *object, const char *key, sw_json_object *child,
                        sw_error *err); /* an object; required */

/* A list of integers: *n is its length, at most `capacity` are stored. Required. */
sw_status sw_json_integers(const sw_json_object *object, const char *key, int64_t *values,
                           int capacity, int *n, sw_error *err);

/* The same of reals, integers among them. */
sw_status sw_json_reals(const sw_json_object *object, const char *key, double *values, int capacity,
                        int *n, sw_error *err);

/* The same of a list of texts. */
sw_status sw_json_texts(const sw_json_object *object, const char *key, const char **values,
                        int capacity, int *n, sw_error *err);

/* Is the key there and not null? Is it there and a list? */
bool sw_json_has(const sw_json_object *object, const char *key);
bool sw_json_is_list(const sw_json_object *object, const char *key);

/* Is the key there, and null? For the few keys where that says something. */
bool sw_json_is_null(const sw_json_object *object, const char *key);

/* The value of a key as JSON, for messages; "nothing" if it is not there. Cut where it is long.
 * Returns text. */
char *sw_json_words(const sw_json_object *object, const char *key, char *text, size_t bytes);

/* Walk the keys in the order of the file: *at starts as NULL; NULL when there are no more. */
const char *sw_json_next_key(const sw_json_object *object, void **at);

/* The file's name as messages give it. */
const char *sw_json_name(const sw_json_object *object);

/* `text` as a JSON string with its quotes, NUL-terminated, into out [6 * strlen + 3] at most.
 * Returns the length. */
size_t sw_json_quote(const char *text, char *out);

/* The same of a text that may have NULs in it: out [6 * n_bytes + 3]. */
size_t sw_json_quote_bytes(const char *text, size_t n_bytes, char *out);

/* What a value of the JSON library's (json_t) is, for messages: "a list", "true or false". */
const char *sw_json_type_words(const void *value);

#endif
