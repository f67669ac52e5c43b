/* markup.h: texts that are HTML already: what is added to one is escaped first. */
#ifndef SW_DATA_JINJA_MARKUP_H
#define SW_DATA_JINJA_MARKUP_H

#include "data/jinja/run.h"

/* Write text with & < > ' " as HTML spells them. */
bool sw_jinja_write_escaped(jinja_run *run, const jinja_text *text);
/* The text as markup: itself where it is markup, else escaped. NULL: failed. */
jinja_text *sw_jinja_escape(jinja_run *run, jinja_text *text);
/* A copy that is markup, or is not. NULL: failed. */
jinja_text *sw_jinja_as_markup(jinja_run *run, const jinja_text *text, bool is_markup);

#endif
