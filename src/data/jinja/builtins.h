/* builtins.h: the tables of what the language brings along. */
#ifndef SW_DATA_JINJA_BUILTINS_H
#define SW_DATA_JINJA_BUILTINS_H

#include "data/jinja/call.h"

/* By name; NULL: there is none. */
const jinja_builtin *sw_jinja_filter(const jinja_text *name);
const jinja_builtin *sw_jinja_test(const jinja_text *name);
const jinja_builtin *sw_jinja_function(const jinja_text *name);

/* One of a table that ends with a nameless entry. */
const jinja_builtin *sw_jinja_find_builtin(const jinja_builtin *table, const jinja_text *name);

extern const jinja_builtin sw_jinja_text_filters[], sw_jinja_list_filters[],
    sw_jinja_order_filters[], sw_jinja_choice_filters[], sw_jinja_value_filters[],
    sw_jinja_markup_filters[];
extern const jinja_builtin sw_jinja_text_methods[], sw_jinja_text_case_methods[],
    sw_jinja_text_search_methods[], sw_jinja_list_methods[], sw_jinja_dict_methods[];

#endif
