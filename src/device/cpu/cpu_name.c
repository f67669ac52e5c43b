/* cpu_name.c: what this CPU calls itself, so that what was measured on it can be told from what
 * another's file says. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "device/cpu/machine.h"
#include "device/cpu/open.h"

#if defined(__x86_64__)
#include <cpuid.h>

static void name_cpu(char name[SW_CPU_NAME_BYTES]) {
    uint32_t a = 0, b = 0, c = 0, d = 0, brand[12] = {0};
    char maker[13] = "", model[49] = "";
    if (__get_cpuid(0, &a, &b, &c, &d)) {
        memcpy(maker, &b, 4);
        memcpy(maker + 4, &d, 4);
        memcpy(maker + 8, &c, 4);
    }
    for (uint32_t i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &brand[4 * i], &brand[4 * i + 1], &brand[4 * i + 2],
                    &brand[4 * i + 3]);
    memcpy(model, brand, sizeof brand);
    a = 0;
    __get_cpuid(1, &a, &b, &c, &d);
    const uint32_t family = (a >> 8 & 15) + ((a >> 8 & 15) == 15 ? a >> 20 & 255 : 0);
    snprintf(name, SW_CPU_NAME_BYTES, "%s family %u model %u stepping %u, %.48s", maker, family,
             (a >> 4 & 15) | (a >> 12 & 0xf0), a & 15, model + strspn(model, " "));
}
#else
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

static void name_cpu(char name[SW_CPU_NAME_BYTES]) {
    struct utsname system = {0};
    uname(&system);
    snprintf(name, SW_CPU_NAME_BYTES, "%.32s", system.machine);
#if defined(__aarch64__)
    if (getauxval(AT_HWCAP) & HWCAP_CPUID) { /* the system lets programs read the register */
        uint64_t id;
        __asm__("mrs %0, MIDR_EL1" : "=r"(id));
        const size_t n = strlen(name);
        snprintf(name + n, SW_CPU_NAME_BYTES - n,
                 " implementer 0x%02x part 0x%03x variant %u revision %u",
                 (unsigned)(id >> 24 & 0xff), (unsigned)(id >> 4 & 0xfff),
                 (unsigned)(id >> 20 & 15), (unsigned)(id & 15));
    }
#endif
}
#endif

void sw_cpu_name(char name[SW_CPU_NAME_BYTES]) {
    name_cpu(name);
    for (char *at = name; *at; at++) /* whatever the CPU, or what pretends to be one, says */
        *at = *at < ' ' || *at > '~' || *at == '"' || *at == '\\' ? '?' : *at;
    for (size_t n = strlen(name); n && name[n - 1] == ' '; n--)
        name[n - 1] = 0;
}
