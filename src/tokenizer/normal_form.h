/* normal_form.h: NFC, NFD, NFKC and NFKD (Unicode Standard Annex 15), by tables of the reference's
 * age. */
#ifndef SW_TOKENIZER_NORMAL_FORM_H
#define SW_TOKENIZER_NORMAL_FORM_H

#include "tokenizer/containers.h"

typedef enum sw_normal_form { SW_NFC, SW_NFD, SW_NFKC, SW_NFKD } sw_normal_form;

/* Append text [n_bytes] (UTF-8) in a normal form; out->is_short tells when memory was short. */
void sw_normal_form_append(sw_normal_form form, const char *text, size_t n_bytes, sw_bytes *out);

#endif
