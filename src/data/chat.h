/* chat.h: a conversation as the text that a model was trained on.
 *
 * Each format is plain code here, not a program in the model's folder. The template of the folder (tokenizer_config.json or
 * chat_template.jinja) is only recognised, by the marks that no other format has, and gives what differs between models of one
 * format: the system text that is put in when the conversation has none, a date. One that is not recognised is not guessed at.
 *
 * Two kinds of ranges come with the text. Literal ones are what messages hold: a control token that is spelled there is plain
 * text. Supervised ones are what the model says after the prompt: from the end of the assistant's header (of "[/INST]", its blank
 * included) through the token that ends the turn; not the newline that some formats put after it.
 */
#ifndef SW_DATA_CHAT_H
#define SW_DATA_CHAT_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "data/slice.h"

typedef enum sw_role { SW_ROLE_SYSTEM, SW_ROLE_USER, SW_ROLE_ASSISTANT, SW_N_ROLES } sw_role;

typedef struct sw_message {
    sw_role role;
    sw_slice content; /* UTF-8 */
} sw_message;

typedef enum sw_chat_family {
    SW_CHAT_NONE, /* no template, or one that is not recognised: sw_chat.reason */
    SW_CHAT_CHATML,
    SW_CHAT_LLAMA2,
    SW_CHAT_LLAMA3,
    SW_CHAT_MISTRAL_V1,
    SW_CHAT_MISTRAL_V3,
    SW_CHAT_MISTRAL_TEKKEN, /* v3 without blanks beside the marks */
    SW_CHAT_ZEPHYR,
    SW_CHAT_GEMMA, /* takes no system message */
    SW_CHAT_GEMMA3 /* puts the system text into the first turn */
} sw_chat_family;

#define SW_CHAT_TEXT_BYTES 256

/* A format with what the model's files say about it. No pointers: it may be copied and compared. */
typedef struct sw_chat {
    sw_chat_family family;
    bool has_default_system;
    char default_system[4 * SW_CHAT_TEXT_BYTES];           /* chatml: said where a conversation has no system message */
    char date[32];                                         /* llama3: "" or the date that its system text names (Llama 3.1) */
    char bos[SW_CHAT_TEXT_BYTES], eos[SW_CHAT_TEXT_BYTES]; /* the spelling of begin- and end-of-text; "" for none */
    char reason[2 * SW_CHAT_TEXT_BYTES];                   /* SW_CHAT_NONE: why */
} sw_chat;

/* The format of a run.
 *
 *   folder    of the tokenizer: tokenizer_config.json and chat_template.jinja are read where they exist; NULL: none
 *   setting   of data.chat_format: "auto", or a name (chatml, llama2, llama3, mistral, mistral-v3, mistral-v1, zephyr, gemma)
 *             that is taken whatever the template says
 *
 * A folder without a template, or with one that is not recognised, is no error until a conversation comes: the family is then
 * SW_CHAT_NONE. Errors: SW_BAD_CONFIG for an unknown name, SW_BAD_FILE for a damaged tokenizer_config.json. */
sw_status sw_chat_open(const char *folder, const char *setting, sw_chat *chat, sw_error *err);

/* What a Jinja template is. Sets family, default_system, date and reason; leaves bos and eos alone. */
void sw_chat_recognise(const char *chat_template, sw_chat *chat);

/* The spelling of the token that ends a turn of the assistant. */
const char *sw_chat_turn_end(const sw_chat *chat);

/* A rendered conversation; starts as {0} and may be used again, its memory grows as needed. sw_chat_text_free frees it. */
typedef struct sw_chat_text {
    char *text; /* [bytes], not ended by a NUL */
    int64_t bytes, capacity;
    /* In order, apart from each other. Control spans are the words of the format that may be tokens of their own. */
    sw_span *literal, *supervised, *control;
    int n_literal, literal_capacity, n_supervised, supervised_capacity, n_control, control_capacity;
} sw_chat_text;

/* Render messages [n_messages, at least 1]; `add_generation_prompt` puts the assistant's header at the end. Errors: SW_BAD_FILE
 * where the format does not take the conversation (roles out of order, a system message), naming the message counted from 1, and
 * where there is no format, naming data.chat_format; SW_NO_MEMORY. */
sw_status sw_chat_render(const sw_chat *chat, const sw_message *messages, int n_messages, bool add_generation_prompt,
                         sw_chat_text *out, sw_error *err);
void sw_chat_text_free(sw_chat_text *out);

#endif
