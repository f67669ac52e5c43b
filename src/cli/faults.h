/* faults.h: --inject: the command starts itself again where faults need a library before all
 * others. */
#ifndef SW_CLI_FAULTS_H
#define SW_CLI_FAULTS_H

#include "cli/command.h"

/* Read the faults; if one needs it and it is not loaded yet, execute this command again with the
 * library of faults loaded first: then it does not return. `arguments` [n_arguments] are those
 * after the verb. Errors: SW_BAD_CONFIG: a fault that is none; the library is not beside the
 * command. */
sw_status sw_faults_load(const char *verb, const sw_flag_texts *faults, int n_arguments,
                         char **arguments, sw_error *err);

#endif
