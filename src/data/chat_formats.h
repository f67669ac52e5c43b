/* chat_formats.h: the formats of data.chat_format, each a chat template written out in full. */
#ifndef SW_DATA_CHAT_FORMATS_H
#define SW_DATA_CHAT_FORMATS_H

typedef struct sw_chat_format {
    const char *name;
    const char *bos, *eos; /* where the tokenizer names none */
    const char *text;      /* the template, with generation marks around what the assistant says */
} sw_chat_format;

/* NULL: there is none of that name. */
const sw_chat_format *sw_chat_format_find(const char *name);

#endif
