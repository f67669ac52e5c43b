/* show_texts.h: generated texts on standard output, as they are produced, or as lines of JSON. */
#ifndef SW_CLI_SHOW_TEXTS_H
#define SW_CLI_SHOW_TEXTS_H

#include "cli/prompts.h"

typedef struct sw_text_output {
    const sw_prompts *prompts;
    int64_t n_samples; /* for each prompt */
    uint64_t seed;     /* of the first prompt */
    bool is_chat, is_json;
    bool has_slid; /* a text, and it was said */
    char *text;    /* [n_bytes] of the text that is being produced, for JSON */
    size_t n_bytes, capacity;
} sw_text_output;

/* The sink of sw_generate that shows texts so. `output` lives as long as it is used; its text is
 * freed when a text is over. */
sw_text_sink sw_text_output_sink(sw_text_output *output);

#endif
