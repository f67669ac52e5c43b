/* lexer.h: a template's text cut into tokens, as Jinja cuts it with trim_blocks and
 * lstrip_blocks. */
#ifndef SW_DATA_JINJA_LEXER_H
#define SW_DATA_JINJA_LEXER_H

#include "data/jinja/run.h"

/* X(name, how messages call it). The operators' words are also their spelling; longer ones come
 * before their beginnings. */
#define JINJA_OPERATORS(X)  \
    X(FLOOR_DIVISION, "//") \
    X(POWER, "**")          \
    X(EQUAL, "==")          \
    X(NOT_EQUAL, "!=")      \
    X(GREATER_EQUAL, ">=")  \
    X(LESS_EQUAL, "<=")     \
    X(PLUS, "+")            \
    X(MINUS, "-")           \
    X(DIVISION, "/")        \
    X(TIMES, "*")           \
    X(MODULO, "%")          \
    X(TILDE, "~")           \
    X(BRACKET, "[")         \
    X(BRACKET_END, "]")     \
    X(PARENTHESIS, "(")     \
    X(PARENTHESIS_END, ")") \
    X(BRACE, "{")           \
    X(BRACE_END, "}")       \
    X(GREATER, ">")         \
    X(LESS, "<")            \
    X(ASSIGN, "=")          \
    X(DOT, ".")             \
    X(COLON, ":")           \
    X(PIPE, "|")            \
    X(COMMA, ",")           \
    X(SEMICOLON, ";")
#define JINJA_TOKENS(X)                           \
    JINJA_OPERATORS(X)                            \
    X(DATA, "template text")                      \
    X(BLOCK_BEGIN, "begin of statement block")    \
    X(BLOCK_END, "end of statement block")        \
    X(VARIABLE_BEGIN, "begin of print statement") \
    X(VARIABLE_END, "end of print statement")     \
    X(NAME, "name")                               \
    X(INTEGER, "integer")                         \
    X(REAL, "float")                              \
    X(STRING, "string")                           \
    X(END, "end of template")                     \
    X(ERROR, "what cannot be read")

typedef enum jinja_token_kind {
#define JINJA_TOKEN_ENUM(name, words) JINJA_TOKEN_##name,
    JINJA_TOKENS(JINJA_TOKEN_ENUM)
#undef JINJA_TOKEN_ENUM
} jinja_token_kind;

typedef struct jinja_token {
    jinja_token_kind kind;
    int line;
    jinja_value value; /* of a name, a literal or data; of an error, its message */
} jinja_token;

/* All tokens, END or ERROR the last: what is wrong is told when the parser comes to it. NULL:
 * failed. */
const jinja_token *sw_jinja_tokens(jinja_run *run, const char *text, int64_t n_bytes);

#endif
