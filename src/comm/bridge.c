/* bridge.c: see bridge.h. */
#include "comm/bridge.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/reason.h"

static size_t bytes_of(int n_here) {
    return sizeof(sw_bridge) + (size_t)n_here * SW_LANES * sizeof(sw_outbox);
}

sw_status sw_bridge_create(int n_here, sw_bridge **out, sw_error *err) {
    sw_bridge *bridge = mmap(NULL, bytes_of(n_here), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bridge == MAP_FAILED)
        return sw_fail(err, SW_NO_MEMORY, "no memory for %d ranks to send to other hosts: %s",
                       n_here, strerror(errno));
    bridge->n_here = n_here;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, bridge->window_socket)) {
        sw_status status = sw_fail_call(err, SW_CALL_PROCESS, errno, "no socket for windows");
        munmap(bridge, bytes_of(n_here));
        return status;
    }
    *out = bridge;
    return SW_OK;
}

void sw_bridge_free(sw_bridge *bridge) {
    if (!bridge)
        return;
    for (int end = 0; end < 2; end++)
        close(bridge->window_socket[end]);
    munmap(bridge, bytes_of(bridge->n_here));
}

int sw_bridge_host_of(const sw_bridge *bridge, int rank) {
    int host = 0;
    while (host + 1 < bridge->n_hosts && rank >= bridge->first[host + 1])
        host++;
    return host;
}

/* ---- outboxes ---- */

sw_status sw_bridge_put(sw_bridge *bridge, const sw_control *control, int rank, int lane,
                        const sw_note *note, sw_error *err) {
    int here = rank - bridge->first[bridge->host];
    sw_outbox *outbox = &bridge->outbox[here * SW_LANES + lane];
    uint64_t n = atomic_load_explicit(&outbox->n_put, memory_order_relaxed);
    while (n - atomic_load_explicit(&outbox->n_taken, memory_order_acquire) >= SW_OUTBOX_NOTES) {
        sw_status status = sw_control_check(control, err);
        if (status)
            return status;
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    outbox->note[n % SW_OUTBOX_NOTES] = *note;
    outbox->note[n % SW_OUTBOX_NOTES].rank = rank;
    atomic_store_explicit(&outbox->n_put, n + 1, memory_order_release);
    return SW_OK;
}

const sw_note *sw_outbox_look(const sw_outbox *outbox) {
    uint64_t n = atomic_load_explicit(&outbox->n_taken, memory_order_relaxed);
    return n < atomic_load_explicit(&outbox->n_put, memory_order_acquire)
               ? &outbox->note[n % SW_OUTBOX_NOTES]
               : NULL;
}

void sw_outbox_drop(sw_outbox *outbox) {
    uint64_t n = atomic_load_explicit(&outbox->n_taken, memory_order_relaxed);
    atomic_store_explicit(&outbox->n_taken, n + 1, memory_order_release);
}

/* ---- windows ---- */

typedef struct window_given {
    int64_t bytes;
    int32_t number, unused;
} window_given;

typedef struct window_message {
    struct msghdr header;
    struct iovec part;
    window_given given;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
} window_message;

static void window_message_init(window_message *message) {
    memset(message, 0, sizeof *message);
    message->part = (struct iovec){.iov_base = &message->given, .iov_len = sizeof message->given};
    message->header = (struct msghdr){.msg_iov = &message->part,
                                      .msg_iovlen = 1,
                                      .msg_control = message->control,
                                      .msg_controllen = sizeof message->control};
}

sw_status sw_bridge_give_window(const sw_bridge *bridge, int number, int64_t bytes, int descriptor,
                                sw_error *err) {
    window_message message;
    window_message_init(&message);
    message.given = (window_given){.bytes = bytes, .number = number};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message.header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
    int n_tries = 0;
    while (sendmsg(bridge->window_socket[1], &message.header, MSG_NOSIGNAL) < 0)
        if (!sw_is_interruption(errno, &n_tries))
            return sw_fail_call(err, SW_CALL_PROCESS, errno,
                                "a window cannot be shown to the process that talks to other "
                                "hosts");
    return SW_OK;
}

bool sw_bridge_take_window(const sw_bridge *bridge, int *number, int64_t *bytes, int *descriptor) {
    window_message message;
    window_message_init(&message);
    ssize_t n = recvmsg(bridge->window_socket[0], &message.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *rights = n > 0 ? CMSG_FIRSTHDR(&message.header) : NULL;
    if (n != sizeof message.given || !rights || rights->cmsg_type != SCM_RIGHTS)
        return false;
    *number = message.given.number;
    *bytes = message.given.bytes;
    memcpy(descriptor, CMSG_DATA(rights), sizeof *descriptor);
    return true;
}
