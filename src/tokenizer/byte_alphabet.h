/* byte_alphabet.h: GPT-2's 256 printable characters that stand for bytes: printable Latin-1 for
 * itself, the other bytes in order as U+0100 and up. */
#ifndef SW_TOKENIZER_BYTE_ALPHABET_H
#define SW_TOKENIZER_BYTE_ALPHABET_H

#include "tokenizer/containers.h"

/* The character of a byte, and the byte of a character (-1: it stands for none). */
uint32_t sw_byte_character(unsigned char byte);
int sw_character_byte(uint32_t code);

/* Append the characters of bytes [n_bytes]. */
void sw_byte_alphabet_append(const char *bytes, size_t n_bytes, sw_bytes *out);

/* Append the bytes of a text of such characters. False, and nothing is appended, when it has
 * another character. */
bool sw_byte_alphabet_undo(const char *text, size_t n_bytes, sw_bytes *out);

#endif
