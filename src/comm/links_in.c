/* links_in.c: what comes in over a link, put where it belongs. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/links.h"

enum { SLEEP_NS = 20000 };

static sw_status bad_note(const sw_mover *m, const sw_link *l, sw_error *err) {
    return sw_fail(err, SW_BUG, "host %s sent note %d of rank %d, window %d, which cannot be",
                   m->bridge->name[l->host], l->note.kind, l->note.rank, l->note.window);
}

/* Map what the first rank has shown; it shows a window before any rank of any host can use it. */
sw_status sw_mover_find_window(sw_mover *m, int number, sw_error *err) {
    double give_up = sw_seconds_now() + m->deadline;
    if (number < 0 || number >= SW_MAX_WINDOWS)
        return sw_fail(err, SW_BUG, "window %d is out of range", number);
    while (!m->window[number].base) {
        int taken, descriptor;
        int64_t bytes;
        if (!sw_bridge_take_window(m->bridge, &taken, &bytes, &descriptor)) {
            sw_status status = sw_control_check(m->control, err);
            if (!status && sw_seconds_now() > give_up)
                status = sw_fail(err, SW_BUG, "window %d has not been shown", number);
            if (status)
                return status;
            nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
            continue;
        }
        void *base = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        close(descriptor);
        if (base == MAP_FAILED || taken < 0 || taken >= SW_MAX_WINDOWS)
            return sw_fail(err, SW_NO_MEMORY, "a window of %" PRId64 " bytes cannot be mapped: %s",
                           bytes, strerror(errno));
        m->window[taken].base = base;
        m->window[taken].bytes = bytes;
    }
    return SW_OK;
}

bool sw_link_is_over(const sw_mover *m, const sw_link *l) {
    return l->n_returned == m->bridge->first[l->host + 1] - m->bridge->first[l->host];
}

/* Where the bytes of the note go. */
static sw_status find_place(sw_mover *m, sw_link *l, sw_error *err) {
    const sw_note *note = &l->note;
    sw_control_rank *rank = &m->control->rank[note->rank];
    int64_t most;
    sw_status status = SW_OK;
    switch (note->kind) {
    case SW_NOTE_PUBLISH:
    case SW_NOTE_POST:
        status = sw_mover_find_window(m, note->window, err);
        if (status)
            return status;
        most = m->window[note->window].bytes;
        if (note->offset < 0 || note->offset > most)
            return bad_note(m, l, err);
        most -= note->offset;
        l->to = m->window[note->window].base + note->offset;
        break;
    case SW_NOTE_EXCHANGE:
        most = SW_EXCHANGE_BYTES;
        l->to = rank->exchange_slot[note->value % 2];
        break;
    case SW_NOTE_LANES:
        most = sizeof l->lane;
        l->to = (char *)l->lane;
        break;
    case SW_NOTE_RETURNED:
    case SW_NOTE_ABORT:
        most = sizeof l->error;
        l->to = (char *)&l->error;
        break;
    default:
        return bad_note(m, l, err);
    }
    return note->bytes > most ? bad_note(m, l, err) : SW_OK;
}

/* The note and its bytes are here: let ranks know. */
static void apply(sw_mover *m, sw_link *l) {
    const sw_note *note = &l->note;
    sw_control_rank *rank = &m->control->rank[note->rank];
    sw_control_cell *cell = &rank->cell[note->channel];
    switch (note->kind) {
    case SW_NOTE_CHANNEL:
        atomic_store_explicit(&cell->kind, (uint32_t)note->value, memory_order_release);
        break;
    case SW_NOTE_PUBLISH:
        sw_print_store(&cell->print, &note->print);
        atomic_store(&cell->published, note->value);
        break;
    case SW_NOTE_POST:
        sw_print_store(&cell->print, &note->print);
        atomic_store(&cell->posted, note->value);
        break;
    case SW_NOTE_SUMMED:
        atomic_store(&cell->summed, note->value);
        break;
    case SW_NOTE_EXCHANGE:
        sw_print_store(&rank->exchange_print[note->value % 2], &note->print);
        atomic_store(&rank->arrived, note->value);
        break;
    case SW_NOTE_LANES:
        for (int i = 0; i < SW_LANES; i++) {
            sw_lane_record known;
            sw_lane_load(&rank->lane[i], &known);
            if (memcmp(&known, &l->lane[i], sizeof known) != 0)
                sw_lane_store(&rank->lane[i], &l->lane[i]);
        }
        return;
    case SW_NOTE_RETURNED:
        rank->final = l->error;
        rank->final.message[SW_MESSAGE_BYTES - 1] = 0;
        atomic_store(&rank->has_returned, 1);
        l->n_returned++;
        break;
    default:
        sw_control_abort(m->control, &l->error);
        return;
    }
    sw_control_ring(rank);
}

static sw_status await_piece(sw_mover *m, sw_link *l, void *to, int64_t bytes, sw_error *err) {
    l->coming = bytes;
    int error = m->table->receive(to, (int)bytes, l->process, &l->request);
    return error ? sw_link_fail(m, l, "receiving", error, err) : SW_OK;
}

sw_status sw_link_await(sw_mover *m, sw_link *l, sw_error *err) {
    l->to = NULL;
    l->left = 0;
    return await_piece(m, l, &l->note, sizeof l->note, err);
}

/* A piece is here: what comes next? */
static sw_status go_on(sw_mover *m, sw_link *l, sw_error *err) {
    sw_status status = SW_OK;
    if (l->note.kind < SW_NOTE_LANES)
        atomic_fetch_add_explicit(&m->bridge->n_moved, 1, memory_order_relaxed);
    if (!l->to) {
        int first = m->bridge->first[l->host], end = m->bridge->first[l->host + 1];
        bool is_right = l->note.rank >= first && l->note.rank < end && l->note.channel >= 0 &&
                        l->note.channel < SW_MAX_CHANNELS && l->note.bytes >= 0;
        if (!is_right)
            return bad_note(m, l, err);
        if (l->note.bytes > 0 && (status = find_place(m, l, err)))
            return status;
        l->left = l->note.bytes;
    } else {
        l->to += l->coming;
        l->left -= l->coming;
    }
    if (l->left > 0)
        return await_piece(m, l, l->to, l->left < SW_PIECE_BYTES ? l->left : SW_PIECE_BYTES, err);
    apply(m, l);
    return sw_link_is_over(m, l) ? SW_OK : sw_link_await(m, l, err);
}

sw_status sw_link_receive(sw_mover *m, sw_link *l, double now, bool *moved, sw_error *err) {
    enum { AT_ONCE = 64 };
    for (int i = 0; i < AT_ONCE && !sw_link_is_over(m, l); i++) {
        int is_done = 0, error = m->table->test(&l->request, &is_done);
        if (error)
            return sw_link_fail(m, l, "receiving", error, err);
        if (!is_done)
            break;
        l->heard = now;
        *moved = true;
        sw_status status = go_on(m, l, err);
        if (status)
            return status;
    }
    if (sw_link_is_over(m, l) || now - l->heard <= m->deadline)
        return SW_OK;
    return sw_fail(err, SW_LOST_RANK,
                   "host %s (ranks %d-%d) has not been heard of for %g s · has it gone down, or "
                   "its network? the same command goes on from the last checkpoint",
                   m->bridge->name[l->host], m->bridge->first[l->host],
                   m->bridge->first[l->host + 1] - 1, m->deadline);
}
