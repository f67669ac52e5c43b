/* check.h: whether the options fit together, as far as they alone can tell. */
#ifndef SW_CONFIG_CHECK_H
#define SW_CONFIG_CHECK_H

#include "config/table.h"

/* Checks between options. Fills in what one option takes over from another (kv_heads, ffn). Errors:
 * SW_BAD_CONFIG.
 *
 *   defaults  the settings where nothing is written
 *   written   [SW_N_OPTIONS + 1] the place of each option that was written, a NULL name for the
 *             others; the last is the file's
 */
sw_status sw_settings_check(sw_settings *settings, const sw_settings *defaults,
                            const sw_place *written, sw_error *err);

/* Does the option say what a new model is made of, so that it says nothing of a model that
 * exists? */
bool sw_settings_is_dimension(sw_option_id id);

#endif
