/* byte_alphabet.c: bytes as characters and back. The bytes that do not stand for themselves are
 * 00-20, 7F-A0 and AD. */
#include "tokenizer/byte_alphabet.h"

#include "tokenizer/unicode.h"

uint32_t sw_byte_character(unsigned char byte) {
    if (byte <= 0x20)
        return 0x100u + byte;
    if (byte >= 0x7F && byte <= 0xA0)
        return 0x121u + (byte - 0x7Fu);
    return byte == 0xAD ? 0x143u : byte;
}

int sw_character_byte(uint32_t code) {
    if (code > 0x143)
        return -1;
    if (code == 0x143)
        return 0xAD;
    if (code >= 0x121)
        return (int)(code - 0x121 + 0x7F);
    if (code >= 0x100)
        return (int)(code - 0x100);
    return code <= 0x20 || (code >= 0x7F && code <= 0xA0) || code == 0xAD ? -1 : (int)code;
}

void sw_byte_alphabet_append(const char *bytes, size_t n_bytes, sw_bytes *out) {
    for (size_t i = 0; i < n_bytes; i++)
        sw_bytes_put_code(out, sw_byte_character((unsigned char)bytes[i]));
}

bool sw_byte_alphabet_undo(const char *text, size_t n_bytes, sw_bytes *out) {
    size_t before = out->n;
    for (const char *at = text, *end = text + n_bytes; at < end;) {
        int byte = sw_character_byte(sw_utf8_next(&at));
        if (byte < 0) {
            out->n = before;
            return false;
        }
        sw_bytes_put(out, (char)byte);
    }
    return true;
}
