/* options.h: structs of options begin with their size, and grow at their end alone, so that
 * programs that were built with other headers keep working: what an older one does not know keeps
 * its default. A newer one is refused. A member that is added begins where the old struct's size
 * ended: padding at that end is no older program's to have cleared. */
#ifndef SW_BASE_OPTIONS_H
#define SW_BASE_OPTIONS_H

#include <stddef.h>

#include <shardwise/status.h>

/* Take what the caller gives, a struct whose first member is its size_t size, into `known`
 * [known_bytes], which holds the defaults. `name` is the struct's, `initializer` the macro that
 * fills it. Errors: SW_BAD_CONFIG: smaller than its size, or larger than what this library
 * knows. */
sw_status sw_options_take(const void *given, void *known, size_t known_bytes, const char *name,
                          const char *initializer, sw_error *err);

#endif
