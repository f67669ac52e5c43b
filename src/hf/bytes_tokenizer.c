/* bytes_tokenizer.c: raw bytes as a tokenizer.json.
 *
 * A BPE model without merges, over the alphabet by which GPT-2 writes bytes as printable characters
 * (Radford et al. 2019), with the byte's value as the id. The ByteLevel pre-tokenizer turns text
 * into that alphabet (no blank put before it, no splitting), the ByteLevel decoder turns it back.
 */
#include "hf/bytes_tokenizer.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

/* Bytes that are printable characters of Latin-1 stand for themselves; the others are U+0100 and
 * on, in their order. */
static bool is_printable(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

static void put_vocabulary(FILE *out) {
    int next = 0x100;
    for (int byte = 0; byte < 256; byte++) {
        int code = is_printable(byte) ? byte : next++;
        char character[3] = {(char)code, 0, 0}, quoted[32];
        if (code >= 0x80) {
            character[0] = (char)(0xc0 | code >> 6);
            character[1] = (char)(0x80 | (code & 0x3f));
        }
        sw_json_quote(character, quoted);
        fprintf(out, "%s\n      %s: %d", byte ? "," : "", quoted, byte);
    }
}

static const char before_vocabulary[] =
    "{\n"
    "  \"version\": \"1.0\",\n"
    "  \"truncation\": null,\n"
    "  \"padding\": null,\n"
    "  \"added_tokens\": [],\n"
    "  \"normalizer\": null,\n"
    "  \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": "
    "false, \"use_regex\": "
    "false},\n"
    "  \"post_processor\": null,\n"
    "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": "
    "false, \"use_regex\": false},\n"
    "  \"model\": {\n"
    "    \"type\": \"BPE\",\n"
    "    \"dropout\": null,\n"
    "    \"unk_token\": null,\n"
    "    \"continuing_subword_prefix\": null,\n"
    "    \"end_of_word_suffix\": null,\n"
    "    \"fuse_unk\": false,\n"
    "    \"byte_fallback\": false,\n"
    "    \"ignore_merges\": false,\n"
    "    \"vocab\": {";

static const char after_vocabulary[] = "\n    },\n"
                                       "    \"merges\": []\n"
                                       "  }\n"
                                       "}\n";

/* Without it transformers would take the tokenizer class of the architecture, which knows better
 * than the file. */
static const char tokenizer_config[] = "{\n"
                                       "  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
                                       "  \"clean_up_tokenization_spaces\": false\n"
                                       "}\n";

sw_status sw_bytes_tokenizer_text(char **text, sw_error *err) {
    size_t bytes;
    *text = NULL;
    FILE *out = open_memstream(text, &bytes);
    if (!out)
        return sw_fail(err, SW_NO_MEMORY, "no memory for tokenizer.json");
    fputs(before_vocabulary, out);
    put_vocabulary(out);
    fputs(after_vocabulary, out);
    return sw_text_close(out, text) ? SW_OK
                                    : sw_fail(err, SW_NO_MEMORY, "no memory for tokenizer.json");
}

sw_status sw_bytes_tokenizer_write(const char *directory, sw_error *err) {
    char path[SW_PATH_BYTES], *text;
    sw_status status = sw_bytes_tokenizer_text(&text, err);
    if (status == SW_OK)
        status = sw_path_join(path, directory, "tokenizer.json", err);
    if (status == SW_OK)
        status = sw_file_write(path, text, (int64_t)strlen(text), err);
    if (status == SW_OK)
        status = sw_path_join(path, directory, "tokenizer_config.json", err);
    if (status == SW_OK)
        status = sw_file_write(path, tokenizer_config, (int64_t)strlen(tokenizer_config), err);
    free(text);
    return status;
}
