/* columns.h: the keys that rows of .jsonl files are read by, and what a file calls them. */
#ifndef SW_BASE_COLUMNS_H
#define SW_BASE_COLUMNS_H

#include <stdbool.h>

#define SW_COLUMNS(X) \
    X(text)           \
    X(prompt)         \
    X(completion)     \
    X(messages)       \
    X(conversations)  \
    X(instruction)    \
    X(input)          \
    X(output)         \
    X(system)         \
    X(tools)          \
    X(documents)      \
    X(role)           \
    X(content)

typedef enum sw_column {
#define SW_COLUMN_ID(name) SW_COLUMN_##name,
    SW_COLUMNS(SW_COLUMN_ID)
#undef SW_COLUMN_ID
        SW_N_COLUMNS
} sw_column;

/* [SW_N_COLUMNS] */
extern const char *const sw_column_names[SW_N_COLUMNS];

/* Is it read of a message, and not of a row? */
bool sw_column_is_of_message(int column);

/* What the file calls each column; NULL: it is not read. */
typedef struct sw_columns {
#define SW_COLUMN_FIELD(name) const char *name;
    SW_COLUMNS(SW_COLUMN_FIELD)
#undef SW_COLUMN_FIELD
} sw_columns;

/* Every column by its own name. */
#define SW_COLUMN_OWN(name) .name = #name,
#define SW_USUAL_COLUMNS ((sw_columns){SW_COLUMNS(SW_COLUMN_OWN)})

/* Are two columns of a row, or of a message, read from one key, which is the own name of neither?
 * out: their names. */
bool sw_columns_are_one(const sw_columns *columns, const char **first, const char **second);

#endif
