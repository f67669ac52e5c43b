/* refuse_call.h: a system call that fails from now on, in this process and those that it forks: as
 * on a machine, a file system or in a sandbox that does not have it. */
#ifndef TESTS_REFUSE_CALL_H
#define TESTS_REFUSE_CALL_H

#include <stdbool.h>

/* `number`: SYS_... False: this kernel, or a sandbox, has no seccomp filters; then nothing has
 * changed. */
bool refuse_call(long number, int error);

#endif
