/* gguf_splits.c: the pre-tokenizers that GGUF files name, as tokenizer.json writes them.
 *
 * The names are llama.cpp's (llama_vocab_pre_type); the components are those of the tokenizer.json
 * of the model that a name was made for. `default` stands in files that were made before there were
 * names, for models with GPT-2's rule.
 */
#include "hf/gguf_tokenizer.h"

#define BYTE_LEVEL(use_regex)                                                         \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_" \
    "regex\":" use_regex "}"
#define SEQUENCE(first, second) "{\"type\":\"Sequence\",\"pretokenizers\":[" first "," second "]}"
#define DIGITS "{\"type\":\"Digits\",\"individual_digits\":true}"
#define SPLIT(pattern)                                      \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern \
    "\"},\"behavior\":\"Isolated\",\"invert\":false}"

/* Contractions, words, numbers of so many digits, other characters, blanks. */
#define WORDS(numbers)                                                              \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" numbers \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

static const char gpt2_split[] = BYTE_LEVEL("true");
static const char digits_split[] = SEQUENCE(DIGITS, BYTE_LEVEL("true"));
static const char llama3_split[] = SEQUENCE(SPLIT(WORDS("\\\\p{N}{1,3}")), BYTE_LEVEL("false"));
static const char qwen2_split[] = SEQUENCE(SPLIT(WORDS("\\\\p{N}")), BYTE_LEVEL("false"));

static const sw_gguf_split splits[] = {
    {"gpt-2", "null", gpt2_split, false, false},
    {"default", "null", gpt2_split, false, false},
    {"smollm", "null", digits_split, false, false},
    {"starcoder", "null", digits_split, false, false},
    {"refact", "null", digits_split, false, false},
    {"command-r", "null", digits_split, false, false},
    {"llama-bpe", "null", llama3_split, true, true},
    {"llama3", "null", llama3_split, true, true},
    {"llama-v3", "null", llama3_split, true, true},
    {"qwen2", "{\"type\":\"NFC\"}", qwen2_split, false, false},
    {"deepseek-r1-qwen", "{\"type\":\"NFC\"}", qwen2_split, false, false},
};

const sw_gguf_split *sw_gguf_split_at(int i) {
    return i < (int)(sizeof splits / sizeof *splits) ? &splits[i] : NULL;
}
