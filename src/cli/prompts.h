/* prompts.h: the prompts of generate: of the command line, of the lines of a file, of standard
 * input. */
#ifndef SW_CLI_PROMPTS_H
#define SW_CLI_PROMPTS_H

#include "cli/command.h"
#include "infer/generate.h"

typedef struct sw_prompts {
    sw_prompt *item; /* [n], none of them empty */
    int64_t n;
    char *lines, *input; /* what prompts lie in */
} sw_prompts;

/* Those of --prompt, where "-" is standard input as a whole, without the line end that it ends
 * with; then the lines of the file `path` ("-": of standard input; NULL: none) that are not empty.
 * Where neither is given and standard input is no terminal, it is the prompt. Ownership:
 * sw_prompts_free, also after an error. Errors: SW_BAD_CONFIG: there is no prompt, or one is empty;
 * SW_BAD_FILE. */
sw_status sw_prompts_collect(const sw_flag_texts *given, const char *path, sw_prompts *prompts,
                             sw_error *err);
void sw_prompts_free(sw_prompts *prompts);

#endif
