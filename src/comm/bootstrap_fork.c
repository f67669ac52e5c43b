/* bootstrap_fork.c: forked ranks meet over socket pairs, one between rank 0 and each other rank.
 *
 * Bytes go to rank 0 and come back as a whole; a descriptor goes out from rank 0 as SCM_RIGHTS.
 * Every wait looks at the abort word, and a closed socket means that the other end died: the
 * supervisor says why.
 */
#include "comm/bootstrap.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/reason.h"

enum { LOOK_AT_ABORT_MS = 50 };

/* `error`: errno; 0: its end of the socket is closed. */
static sw_status cannot_meet(int rank, int error, sw_error *err) {
    if (!error || error == EPIPE || error == ECONNRESET)
        return sw_fail(err, SW_LOST_RANK, "rank %d ended before all ranks had started", rank);
    return sw_fail_call(err, SW_CALL_PROCESS, error,
                        "rank %d cannot be reached while the ranks start", rank);
}

/* May a call that failed be made again? Not where it fails again and again: nothing else would end
 * such a wait. */
static bool may_try_again(int error, int *n_tries) {
    return sw_is_interruption(error == EAGAIN ? EINTR : error, n_tries);
}

static sw_status wait_for_socket(const sw_fork_bootstrap *bootstrap, int socket, int rank,
                                 short events, sw_error *err) {
    int n_tries = 0;
    for (;;) {
        sw_status status = sw_control_check(bootstrap->control, err);
        if (status != SW_OK)
            return status;
        struct pollfd ready = {.fd = socket, .events = events};
        int n_ready = poll(&ready, 1, LOOK_AT_ABORT_MS);
        if (n_ready > 0)
            return SW_OK;
        if (n_ready < 0 && !may_try_again(errno, &n_tries))
            return cannot_meet(rank, errno, err);
    }
}

static sw_status send_all(const sw_fork_bootstrap *bootstrap, int socket, int to, const void *from,
                          size_t bytes, sw_error *err) {
    int n_tries = 0;
    for (size_t sent = 0; sent < bytes;) {
        sw_status status = wait_for_socket(bootstrap, socket, to, POLLOUT, err);
        if (status != SW_OK)
            return status;
        ssize_t n =
            send(socket, (const char *)from + sent, bytes - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && !may_try_again(errno, &n_tries))
            return cannot_meet(to, errno, err);
        sent += n > 0 ? (size_t)n : 0;
    }
    return SW_OK;
}

static sw_status receive_all(const sw_fork_bootstrap *bootstrap, int socket, int from, void *to,
                             size_t bytes, sw_error *err) {
    int n_tries = 0;
    for (size_t received = 0; received < bytes;) {
        sw_status status = wait_for_socket(bootstrap, socket, from, POLLIN, err);
        if (status != SW_OK)
            return status;
        ssize_t n = recv(socket, (char *)to + received, bytes - received, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && !may_try_again(errno, &n_tries)))
            return cannot_meet(from, n ? errno : 0, err);
        received += n > 0 ? (size_t)n : 0;
    }
    return SW_OK;
}

static sw_status exchange_bytes(sw_bootstrap *base, const void *mine, void *all, size_t bytes,
                                sw_error *err) {
    sw_fork_bootstrap *bootstrap = base->state;
    sw_status status = SW_OK;
    memcpy((char *)all + (size_t)base->rank * bytes, mine, bytes);
    if (base->rank > 0) {
        int socket = bootstrap->socket[base->rank][1];
        status = send_all(bootstrap, socket, 0, mine, bytes, err);
        if (status == SW_OK)
            status = receive_all(bootstrap, socket, 0, all, (size_t)base->size * bytes, err);
        return status;
    }
    for (int r = 1; r < base->size && status == SW_OK; r++)
        status = receive_all(bootstrap, bootstrap->socket[r][0], r, (char *)all + (size_t)r * bytes,
                             bytes, err);
    for (int r = 1; r < base->size && status == SW_OK; r++)
        status =
            send_all(bootstrap, bootstrap->socket[r][0], r, all, (size_t)base->size * bytes, err);
    return status;
}

/* One byte of data carries the descriptor: a message must not be empty. */
typedef struct descriptor_message {
    struct msghdr header;
    struct iovec part;
    char byte;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
} descriptor_message;

static void descriptor_message_init(descriptor_message *message) {
    memset(message, 0, sizeof *message);
    message->part = (struct iovec){.iov_base = &message->byte, .iov_len = 1};
    message->header = (struct msghdr){.msg_iov = &message->part,
                                      .msg_iovlen = 1,
                                      .msg_control = message->control,
                                      .msg_controllen = sizeof message->control};
}

static sw_status send_descriptor(const sw_fork_bootstrap *bootstrap, int socket, int to,
                                 int descriptor, sw_error *err) {
    descriptor_message message;
    descriptor_message_init(&message);
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message.header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
    for (int n_tries = 0;;) {
        sw_status status = wait_for_socket(bootstrap, socket, to, POLLOUT, err);
        if (status != SW_OK)
            return status;
        if (sendmsg(socket, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT) == 1)
            return SW_OK;
        if (!may_try_again(errno, &n_tries))
            return cannot_meet(to, errno, err);
    }
}

static sw_status receive_descriptor(const sw_fork_bootstrap *bootstrap, int socket, int *descriptor,
                                    sw_error *err) {
    for (int n_tries = 0;;) {
        sw_status status = wait_for_socket(bootstrap, socket, 0, POLLIN, err);
        if (status != SW_OK)
            return status;
        descriptor_message message;
        descriptor_message_init(&message);
        ssize_t n = recvmsg(socket, &message.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0 && may_try_again(errno, &n_tries))
            continue;
        struct cmsghdr *rights = n == 1 ? CMSG_FIRSTHDR(&message.header) : NULL;
        if (n <= 0)
            return cannot_meet(0, n ? errno : 0, err);
        if (!rights || rights->cmsg_type != SCM_RIGHTS || message.header.msg_flags & MSG_CTRUNC)
            return sw_fail(err, SW_NO_MEMORY,
                           "a rank could not open the shared memory of another: too many open "
                           "files; raise ulimit -n");
        memcpy(descriptor, CMSG_DATA(rights), sizeof *descriptor);
        return SW_OK;
    }
}

static sw_status exchange_descriptor(sw_bootstrap *base, int *descriptor, sw_error *err) {
    sw_fork_bootstrap *bootstrap = base->state;
    if (base->rank > 0)
        return receive_descriptor(bootstrap, bootstrap->socket[base->rank][1], descriptor, err);
    sw_status status = SW_OK;
    for (int r = 1; r < base->size && status == SW_OK; r++)
        status = send_descriptor(bootstrap, bootstrap->socket[r][0], r, *descriptor, err);
    return status;
}

sw_status sw_fork_bootstrap_create(const sw_control *control, int size,
                                   sw_fork_bootstrap *bootstrap, sw_error *err) {
    memset(bootstrap, 0, sizeof *bootstrap);
    bootstrap->size = size;
    bootstrap->control = control;
    for (int r = 0; r < SW_MAX_RANKS; r++)
        bootstrap->socket[r][0] = bootstrap->socket[r][1] = -1;
    for (int r = 1; r < size; r++)
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bootstrap->socket[r]) != 0) {
            sw_status status =
                sw_fail_call(err, SW_CALL_PROCESS, errno,
                             "the sockets for the start of %d ranks cannot be made", size);
            sw_fork_bootstrap_close(bootstrap);
            return status;
        }
    return SW_OK;
}

static void close_end(int *socket) {
    if (*socket >= 0)
        close(*socket);
    *socket = -1;
}

void sw_fork_bootstrap_take(sw_fork_bootstrap *bootstrap, int first, int rank) {
    bootstrap->base = (sw_bootstrap){.rank = rank,
                                     .size = bootstrap->size,
                                     .first = first,
                                     .n_ranks = bootstrap->control->n_ranks,
                                     .exchange_bytes = exchange_bytes,
                                     .exchange_descriptor = exchange_descriptor,
                                     .state = bootstrap};
    for (int r = 1; r < bootstrap->base.size; r++) {
        if (rank != 0)
            close_end(&bootstrap->socket[r][0]);
        if (rank != r)
            close_end(&bootstrap->socket[r][1]);
    }
}

void sw_fork_bootstrap_close(sw_fork_bootstrap *bootstrap) {
    for (int r = 0; r < SW_MAX_RANKS; r++)
        for (int end = 0; end < 2; end++)
            close_end(&bootstrap->socket[r][end]);
}
