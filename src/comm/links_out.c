/* links_out.c: the queue of pieces that goes out over a link. */
#include "comm/links.h"

enum { MAX_POSTED = 64 }; /* pieces, handed to MPI */

sw_status sw_link_fail(const sw_mover *m, const sw_link *l, const char *doing, int error,
                       sw_error *err) {
    char words[256];
    m->table->explain(error, words, sizeof words);
    return sw_fail(err, SW_LOST_RANK,
                   "host %s (ranks %d-%d) cannot be reached: %s: %s · has it gone down, or its "
                   "network? the same command goes on from the last checkpoint",
                   m->bridge->name[l->host], m->bridge->first[l->host],
                   m->bridge->first[l->host + 1] - 1, doing, words);
}

static int64_t pieces_of(int64_t bytes) {
    return 1 + (bytes + SW_PIECE_BYTES - 1) / SW_PIECE_BYTES;
}

bool sw_link_has_room(const sw_link *l, int64_t bytes) {
    return l->n_queued - l->n_sent + (uint64_t)pieces_of(bytes) <= SW_MAX_PIECES;
}

static sw_piece *queue_piece(sw_link *l, const void *from, int64_t bytes, bool is_news) {
    sw_piece *p = &l->piece[l->n_queued++ % SW_MAX_PIECES];
    p->from = from;
    p->bytes = (int)bytes;
    p->is_news = is_news;
    return p;
}

/* A note and its bytes, which must stay until they are sent. */
void sw_link_queue(sw_link *l, const sw_note *note, const char *from) {
    bool is_news = note->kind < SW_NOTE_LANES;
    sw_piece *p = queue_piece(l, NULL, sizeof *note, is_news);
    p->note = *note;
    p->from = &p->note;
    for (int64_t at = 0; at < note->bytes; at += SW_PIECE_BYTES)
        queue_piece(l, from + at,
                    note->bytes - at < SW_PIECE_BYTES ? note->bytes - at : SW_PIECE_BYTES, is_news);
}

sw_status sw_link_send(sw_mover *m, sw_link *l, bool *moved, sw_error *err) {
    while (l->n_posted < l->n_queued && l->n_posted - l->n_sent < MAX_POSTED) {
        sw_piece *p = &l->piece[l->n_posted % SW_MAX_PIECES];
        int error = m->table->send(p->from, p->bytes, l->process, &p->request);
        if (error)
            return sw_link_fail(m, l, "sending", error, err);
        l->n_posted++;
        *moved = true;
    }
    while (l->n_sent < l->n_posted) {
        sw_piece *p = &l->piece[l->n_sent % SW_MAX_PIECES];
        int is_done = 0, error = m->table->test(&p->request, &is_done);
        if (error)
            return sw_link_fail(m, l, "sending", error, err);
        if (!is_done)
            break;
        l->n_sent++;
        if (p->is_news)
            atomic_fetch_add_explicit(&m->bridge->n_moved, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&m->bridge->n_bytes, (uint64_t)p->bytes, memory_order_relaxed);
        *moved = true;
    }
    return SW_OK;
}
