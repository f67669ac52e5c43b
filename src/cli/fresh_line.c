/* fresh_line.c: see fresh_line.h. */
#include "cli/fresh_line.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A signal handler has no argument, and the text is printed by another process: ranks inherit the
 * address. */
static atomic_bool
    *is_open; /* the last line on standard output is not ended; NULL: nobody prints in pieces */

void sw_text_line_watch(void) {
    void *shared =
        mmap(NULL, sizeof *is_open, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared != MAP_FAILED)
        is_open = shared;
}

void sw_text_line_ended(bool has_ended) {
    if (is_open)
        atomic_store(is_open, !has_ended);
}

static bool is_standard_output(int descriptor) {
    struct stat here, output;
    return !fstat(descriptor, &here) && !fstat(STDOUT_FILENO, &output) &&
           here.st_dev == output.st_dev && here.st_ino == output.st_ino;
}

void sw_fresh_line(int descriptor) {
    static const char clear[] = "\r\033[K", end[] = "\n";
    const char *before = isatty(descriptor) ? clear : "";
    if (is_open && atomic_load(is_open) && is_standard_output(descriptor)) {
        before = end;
        atomic_store(is_open, false);
    }
    ssize_t told = write(descriptor, before, strlen(before));
    (void)told; /* the message itself fails too, then */
}
