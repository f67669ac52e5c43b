/* status.c: messages and exit codes. */
#include <shardwise/status.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

sw_status sw_fail(sw_error *err, sw_status status, const char *format, ...) {
    if (err) {
        char text[SW_MESSAGE_BYTES]; /* the arguments may point into err->message */
        va_list arguments;
        va_start(arguments, format);
        text[0] = 0;
        if (format)
            vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        err->status = status;
        memcpy(err->message, text, sizeof text);
    }
    return status;
}

sw_status sw_fail_within(sw_error *err, const char *format, ...) {
    if (!err)
        return SW_BUG;
    char where[SW_MESSAGE_BYTES / 2], text[2 * SW_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    where[0] = 0;
    if (format)
        vsnprintf(where, sizeof where, format, arguments);
    va_end(arguments);
    snprintf(text, sizeof text, "%s: %s", where, err->message);
    snprintf(err->message, sizeof err->message, "%.*s", (int)sizeof err->message - 1, text);
    return err->status;
}

const char *sw_status_name(sw_status status) {
    static const char *const names[] = {
#define NAME(name, exit_code, meaning) #name,
        SW_STATUSES(NAME)
#undef NAME
    };
    return (unsigned)status < SW_N_STATUSES ? names[status] : "?";
}

int sw_status_exit_code(sw_status status) {
    static const int codes[] = {
#define CODE(name, exit_code, meaning) exit_code,
        SW_STATUSES(CODE)
#undef CODE
    };
    return (unsigned)status < SW_N_STATUSES ? codes[status] : 1;
}

const char *sw_version(void) {
    return SW_VERSION;
}
