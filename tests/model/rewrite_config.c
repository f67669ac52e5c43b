/* rewrite_config.c: the config.json of a folder as we write it, for make_families.py --check. */
#include <stdio.h>
#include <stdlib.h>

#include "model/model.h"

int main(int argc, char **argv) {
    sw_model_config config;
    sw_error err = {0};
    char *text;
    if (argc != 2 || sw_model_config_read(argv[1], &config, &err) ||
        sw_model_config_write(&config, SW_F32, &text, &err)) {
        fprintf(stderr, "rewrite_config FOLDER: %s\n", err.message);
        return 1;
    }
    fputs(text, stdout);
    free(text);
    return 0;
}
