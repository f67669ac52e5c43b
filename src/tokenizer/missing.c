/* missing.c: see missing.h. */
#include "tokenizer/missing.h"

#include <stddef.h>

#include "base/file.h"
#include "base/text.h"

sw_status sw_tokenizer_refuse_folder(const char *folder, sw_error *err) {
    static const char *const others[] = {
        "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
        "tekken.json",     "vocab.txt",    "tokenizer.tiktoken",
        "vocab.json",      "merges.txt"};
    char path[SW_PATH_BYTES], word[400];
    sw_text_shell_word(folder, word, sizeof word);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!sw_path_join(path, folder, others[i], NULL) && sw_file_exists(path))
            return sw_fail(err, SW_BAD_FILE,
                           "%s: has its tokenizer only as %s, but tokenizer.json is needed; write "
                           "one: python3 -c \"import sys; from "
                           "transformers import AutoTokenizer as T; "
                           "T.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[1])\" %s",
                           folder, others[i], word);
    return sw_fail(err, SW_BAD_FILE,
                   "%s: has no tokenizer.json; is the download complete? To fetch it: hf download "
                   "OWNER/NAME --local-dir %s "
                   "--include 'tokenizer*'",
                   folder, word);
}
