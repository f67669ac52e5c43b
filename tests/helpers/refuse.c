/* refuse.c: runs a command, some of whose system calls fail: by whichever process of it, from
 * whatever library they come.
 *
 *     refuse CALL:ERRNO:FIRST:COUNT ... -- COMMAND ...
 *
 * Of all calls of that name in the command and in what it starts, counted together from 1, the
 * FIRST-th and those after it fail with that errno, COUNT in all; 0: for ever. ERRNO is a number;
 * 0: none fails. When the command has ended, "CALL COUNT" of each goes to the file that the
 * variable REFUSE_COUNTS names, and the exit code is the command's (128 + its signal). 77: the
 * kernel, or a sandbox, does not let calls be looked at (seccomp's notifications, of Linux 5.6 and
 * later); the reason is on stderr.
 *
 * The kernel stops who makes such a call and asks here; nothing else of the command is touched.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEFT_OUT = 77, USAGE = 99, MOST = 64 };

/* Newer architectures have only those that begin at an open folder; a number that no call has is
 * never met. */
#ifndef SYS_access
enum {
    SYS_access = -1,
    SYS_mkdir = -1,
    SYS_poll = -1,
    SYS_readlink = -1,
    SYS_rename = -1,
    SYS_rmdir = -1,
    SYS_symlink = -1,
    SYS_unlink = -1
};
#endif

/* clang-format off */
#define CALLS(X) \
    X(access) X(brk) X(clock_getres) X(clock_gettime) X(clone) X(clone3) X(close) X(faccessat2) \
    X(fallocate) X(fcntl) X(flock) X(fsync) X(ftruncate) X(futex) X(getcwd) X(getdents64) \
    X(getrandom) X(ioctl) X(io_uring_enter) X(io_uring_setup) X(lseek) X(madvise) X(memfd_create) \
    X(mkdir) X(mmap) X(mprotect) X(munmap) X(newfstatat) X(openat) X(pidfd_open) X(poll) X(prctl) \
    X(pread64) X(prlimit64) X(pwrite64) X(read) X(readlink) X(recvfrom) X(recvmsg) X(rename) \
    X(renameat2) X(rmdir) X(rt_sigaction) X(rt_sigpending) X(rt_sigprocmask) X(sched_getaffinity) \
    X(sched_setaffinity) X(sendmsg) X(sendto) X(sigaltstack) X(socketpair) X(statfs) X(symlink) \
    X(sysinfo) X(uname) X(unlink) X(unlinkat) X(wait4) X(write)
/* clang-format on */
static const struct {
    const char *name;
    int number;
} calls[] = {
#define CALL(name) {#name, SYS_##name},
    CALLS(CALL)
#undef CALL
};

typedef struct rule {
    int number, error;
    const char *name;
    int64_t first, count, seen;
} rule;

/* What the process that will be the command tells of its listener, without a call. */
typedef struct meeting {
    _Atomic int listener; /* 0: not there yet; the descriptor + 1; below 0: it cannot be had, for
                             the reason -errno */
    _Atomic int may_go;
} meeting;

static bool read_rule(const char *text, rule *r) {
    char name[64];
    if (sscanf(text, "%63[^:]:%d:%" SCNd64 ":%" SCNd64, name, &r->error, &r->first, &r->count) != 4)
        return false;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, name) == 0) {
            r->number = calls[i].number;
            r->name = calls[i].name;
            return true;
        }
    return false;
}

static int install(const rule *rules, int n_rules) {
    struct sock_filter code[2 * MOST + 2];
    unsigned short n = 0;
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < n_rules; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                 (unsigned)rules[i].number, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

static void become(meeting *m, const rule *rules, int n_rules, char **command) {
    int listener = install(rules, n_rules);
    atomic_store(&m->listener, listener < 0 ? -errno : listener + 1);
    while (!atomic_load(&m->may_go)) /* any call may be one that waits for an answer */
        ;
    if (listener < 0)
        _exit(LEFT_OUT);
    execvp(command[0], command);
    _exit(USAGE);
}

/* False: the kernel is too old to let a call go on. */
static bool answer(int listener, rule *rules, int n_rules) {
    struct seccomp_notif asked;
    struct seccomp_notif_resp told = {0};
    memset(&asked, 0, sizeof asked);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked))
        return true;
    told.id = asked.id;
    told.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    for (int i = 0; i < n_rules; i++) {
        if (rules[i].number != asked.data.nr)
            continue;
        int64_t now = ++rules[i].seen;
        if (rules[i].error && now >= rules[i].first &&
            (!rules[i].count || now - rules[i].first < rules[i].count)) {
            told.flags = 0;
            told.error = -rules[i].error;
        }
    }
    return !ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &told) || errno != EINVAL;
}

static void tell_counts(const rule *rules, int n_rules) {
    const char *path = getenv("REFUSE_COUNTS");
    FILE *out = path ? fopen(path, "w") : NULL;
    for (int i = 0; i < n_rules && out; i++)
        fprintf(out, "%s %" PRId64 "\n", rules[i].name, rules[i].seen);
    if (out)
        fclose(out);
}

static pid_t command_pid;

static void hand_on(int number) {
    kill(command_pid, number);
}

/* Nothing can be refused here: ends the command. */
static int leave_out(const char *what, int error) {
    kill(command_pid, SIGKILL);
    waitpid(command_pid, NULL, 0);
    fprintf(stderr, "refuse: the calls of a command cannot be looked at here: %s: %s\n", what,
            strerror(error));
    return LEFT_OUT;
}

/* The listener of the command, once it has one. Below 0: there is none, for the reason -errno. */
static int meet(meeting *m) {
    while (!atomic_load(&m->listener)) {
        if (waitpid(command_pid, NULL, WNOHANG)) /* a sandbox has ended it */
            return -EPERM;
        sched_yield();
    }
    int there = atomic_load(&m->listener);
    if (there < 0)
        return there;
    int process = pidfd_open(command_pid, 0), listener = pidfd_getfd(process, there - 1, 0);
    return listener < 0 ? -errno : listener;
}

int main(int argc, char **argv) {
    rule rules[MOST] = {{0}};
    int n = 0, i = 1, how = 0;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (n == MOST || !read_rule(argv[i], &rules[n++]))
            return fprintf(stderr, "refuse: %s is no CALL:ERRNO:FIRST:COUNT\n", argv[i]), USAGE;
    if (i + 1 >= argc)
        return USAGE;
    meeting *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED || (command_pid = fork()) < 0)
        return USAGE;
    if (command_pid == 0)
        become(m, rules, n, argv + i + 1);
    int listener = meet(m);
    if (listener < 0)
        return leave_out("seccomp's notifications", -listener);
    signal(SIGTERM, hand_on);
    signal(SIGINT, hand_on);
    atomic_store(&m->may_go, 1);
    for (bool is_over = false; !is_over;) {
        struct pollfd ready = {.fd = listener, .events = POLLIN};
        if (poll(&ready, 1, 100) > 0 && ready.revents & POLLIN && !answer(listener, rules, n))
            return leave_out("SECCOMP_USER_NOTIF_FLAG_CONTINUE", EINVAL);
        is_over = waitpid(command_pid, &how, WNOHANG) == command_pid;
    }
    tell_counts(rules, n);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}
