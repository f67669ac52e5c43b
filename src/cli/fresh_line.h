/* fresh_line.h: messages begin at the start of a line, whatever stands on the terminal: a live
 * line, an echoed ^C, half a line of generated text. */
#ifndef SW_CLI_FRESH_LINE_H
#define SW_CLI_FRESH_LINE_H

#include <stdbool.h>

/* Before a message on this descriptor. A terminal's line is cleared, unless it holds text; text
 * that is not ended gets its end. Async-signal-safe; what stdio holds for the descriptor must have
 * been flushed. */
void sw_fresh_line(int descriptor);

/* For who prints text in pieces, on standard output: keep in mind, in this process and those forked
 * later, whether the last piece ended its line. Where there is no memory for it nothing is kept. */
void sw_text_line_watch(void);
void sw_text_line_ended(bool has_ended);

#endif
