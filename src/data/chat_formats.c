/* chat_formats.c: chatml, llama2, llama3, mistral-v1, mistral-v3, zephyr and gemma in the language
 * of chat templates.
 *
 * What the assistant says, with the token that ends its turn, stands between generation marks: what
 * is learned is written here, not found out. Content may be a list of parts, of which the texts are
 * taken.
 */
#include "data/chat_formats.h"

#include <string.h>

/* clang-format off */

#define TEXT(message) "(" message ".content if " message ".content is string else " message ".content | map(attribute='text') | join)"

/* Turns of user and assistant, after the system message if there is one. */
#define TAKE_SYSTEM(system) \
    "{%- if messages[0].role == 'system' -%}" \
        "{%- set system = " system " -%}{%- set turns = messages[1:] -%}" \
    "{%- else -%}" \
        "{%- set system = '' -%}{%- set turns = messages -%}" \
    "{%- endif -%}"
#define CHECK_TURN \
    "{%- if message.role not in ['user', 'assistant'] or (message.role == 'user') != (loop.index0 % 2 == 0) -%}" \
        "{{- raise_exception('message ' ~ (loop.index + messages | length - turns | length) ~ ' is of role `' ~ message.role ~ " \
            "'`; in this chat format roles must alternate user, assistant, user, ...') -}}" \
    "{%- endif -%}"

static const char chatml[] =
    "{%- for message in messages -%}"
        "{{- '<|im_start|>' + message.role + '\n' -}}"
        "{%- if message.role == 'assistant' -%}"
            "{%- generation -%}{{- " TEXT("message") " + '<|im_end|>' -}}{%- endgeneration -%}"
        "{%- else -%}"
            "{{- " TEXT("message") " + '<|im_end|>' -}}"
        "{%- endif -%}"
        "{{- '\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}";

static const char llama3[] =
    "{{- bos_token -}}"
    "{%- for message in messages -%}"
        "{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' -}}"
        "{%- if message.role == 'assistant' -%}"
            "{%- generation -%}{{- " TEXT("message") " | trim + '<|eot_id|>' -}}{%- endgeneration -%}"
        "{%- else -%}"
            "{{- " TEXT("message") " | trim + '<|eot_id|>' -}}"
        "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}{%- endif -%}";

static const char llama2[] =
    TAKE_SYSTEM("'<<SYS>>\n' + " TEXT("messages[0]") " + '\n<</SYS>>\n\n'")
    "{%- for message in turns -%}"
        CHECK_TURN
        "{%- if message.role == 'user' -%}"
            "{{- bos_token + '[INST] ' + ((system if loop.first else '') + " TEXT("message") ").strip() + ' [/INST]' -}}"
        "{%- else -%}"
            "{%- generation -%}{{- ' ' + " TEXT("message") ".strip() + ' ' + eos_token -}}{%- endgeneration -%}"
        "{%- endif -%}"
    "{%- endfor -%}";

/* The formats of Mistral differ in blanks, and in the turn that the system text is put into. */
#define MISTRAL(before, after, with_system, said) \
    TAKE_SYSTEM(TEXT("messages[0]") " + '\n\n'") \
    "{{- bos_token -}}" \
    "{%- for message in turns -%}" \
        CHECK_TURN \
        "{%- if message.role == 'user' -%}" \
            "{{- '" before "' + (system if " with_system " else '') + " TEXT("message") " + '" after "' -}}" \
        "{%- else -%}" \
            "{%- generation -%}{{- ' ' + " said " + eos_token -}}{%- endgeneration -%}" \
        "{%- endif -%}" \
    "{%- endfor -%}"

static const char mistral_v1[] = MISTRAL(" [INST] ", " [/INST]", "loop.first", TEXT("message"));
static const char mistral_v3[] = MISTRAL("[INST] ", "[/INST]", "loop.revindex0 < 2",
                                         TEXT("message") ".rstrip(' ')");

static const char zephyr[] =
    "{%- for message in messages -%}"
        "{%- if message.role not in ['system', 'user', 'assistant'] -%}"
            "{{- raise_exception('message ' ~ loop.index ~ ' is of role `' ~ message.role ~ '`; this chat format knows system, user "
                "and assistant') -}}"
        "{%- endif -%}"
        "{{- '<|' + message.role + '|>\n' -}}"
        "{%- if message.role == 'assistant' -%}"
            "{%- generation -%}{{- " TEXT("message") " + eos_token -}}{%- endgeneration -%}"
        "{%- else -%}"
            "{{- " TEXT("message") " + eos_token -}}"
        "{%- endif -%}"
        "{{- '\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>\n' -}}{%- endif -%}";

static const char gemma[] =
    "{{- bos_token -}}"
    "{%- if messages[0].role == 'system' -%}"
        "{{- raise_exception('message 1 is of role `system`; this model takes no system message') -}}"
    "{%- endif -%}"
    "{%- set turns = messages -%}"
    "{%- for message in turns -%}"
        CHECK_TURN
        "{%- if message.role == 'assistant' -%}"
            "{{- '<start_of_turn>model\n' -}}"
            "{%- generation -%}{{- " TEXT("message") " | trim + '<end_of_turn>' -}}{%- endgeneration -%}"
        "{%- else -%}"
            "{{- '<start_of_turn>user\n' + " TEXT("message") " | trim + '<end_of_turn>' -}}"
        "{%- endif -%}"
        "{{- '\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<start_of_turn>model\n' -}}{%- endif -%}";

/* clang-format on */

static const sw_chat_format formats[] = {
    {"chatml", "", "<|im_end|>", chatml},
    {"llama2", "<s>", "</s>", llama2},
    {"llama3", "<|begin_of_text|>", "<|eot_id|>", llama3},
    {"mistral", "<s>", "</s>", mistral_v3},
    {"mistral-v3", "<s>", "</s>", mistral_v3},
    {"mistral-v1", "<s>", "</s>", mistral_v1},
    {"zephyr", "<s>", "</s>", zephyr},
    {"gemma", "<bos>", "<eos>", gemma},
};

const sw_chat_format *sw_chat_format_find(const char *name) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(name, formats[i].name))
            return &formats[i];
    return NULL;
}
