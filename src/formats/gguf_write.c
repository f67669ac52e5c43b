/* gguf_write.c: see gguf_write.h. */
#include "formats/gguf_write.h"

#include <endian.h>
#include <string.h>

#include "base/dtype.h"

void sw_gguf_put_32(FILE *out, uint32_t value) {
    value = htole32(value);
    fwrite(&value, sizeof value, 1, out);
}

void sw_gguf_put_64(FILE *out, uint64_t value) {
    value = htole64(value);
    fwrite(&value, sizeof value, 1, out);
}

void sw_gguf_put_text(FILE *out, const char *text) {
    sw_gguf_put_64(out, strlen(text));
    fwrite(text, 1, strlen(text), out);
}

static void put_key(sw_gguf_writer *w, const char *key, sw_gguf_type type) {
    sw_gguf_put_text(w->out, key);
    sw_gguf_put_32(w->out, type);
    w->n_values++;
}

void sw_gguf_write_integer(sw_gguf_writer *w, const char *key, uint32_t value) {
    put_key(w, key, SW_GGUF_U32);
    sw_gguf_put_32(w->out, value);
}

void sw_gguf_write_real(sw_gguf_writer *w, const char *key, float value) {
    put_key(w, key, SW_GGUF_F32);
    sw_gguf_put_32(w->out, sw_float_bits(value));
}

void sw_gguf_write_bool(sw_gguf_writer *w, const char *key, bool value) {
    put_key(w, key, SW_GGUF_BOOL);
    fputc(value ? 1 : 0, w->out);
}

void sw_gguf_write_text(sw_gguf_writer *w, const char *key, const char *value) {
    put_key(w, key, SW_GGUF_TEXT);
    sw_gguf_put_text(w->out, value);
}

void sw_gguf_write_list(sw_gguf_writer *w, const char *key, sw_gguf_type element, uint64_t n) {
    put_key(w, key, SW_GGUF_LIST);
    sw_gguf_put_32(w->out, element);
    sw_gguf_put_64(w->out, n);
}
