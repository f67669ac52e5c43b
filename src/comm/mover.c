/* mover.c: see mover.h. Every look at all links and outboxes that finds nothing to do is followed
 * by a short sleep, so that ranks have the cores. */
#include "comm/mover.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "comm/links.h"

enum { LOOKS_BEFORE_SLEEP = 20, SLEEP_NS = 20000 };
static const double HEARTBEAT_SECONDS = 0.1, PARTING_SECONDS = 0.4, SUSPENDED_SECONDS = 1;

/* ---- out ---- */

/* What a note becomes for one host: with what that host's ranks of the line read, and no more. */
static sw_note note_for(const sw_mover *m, const sw_link *l, const sw_note *note) {
    sw_note mine = *note;
    int first = m->bridge->first[l->host], end = m->bridge->first[l->host + 1];
    int n_there = 0, first_place = 0;
    if (note->kind != SW_NOTE_PUBLISH && note->kind != SW_NOTE_POST)
        return mine;
    for (int i = 0; i < note->line.n; i++) {
        int rank = note->line.first + i * note->line.step;
        if (rank >= first && rank < end && n_there++ == 0)
            first_place = i; /* ranks rise along a line, so those of a host are neighbours on it */
    }
    if (note->is_cut) {
        mine.offset = note->offset + first_place * note->bytes;
        mine.bytes = n_there * note->bytes;
    } else if (!n_there) {
        mine.bytes = 0;
    }
    return mine;
}

/* Hand a rank's note to all links; false: there is no room yet. */
static sw_status hand_out(sw_mover *m, const sw_note *note, bool *has_gone, sw_error *err) {
    *has_gone = false;
    for (int i = 0; i < m->n_links; i++)
        if (!sw_link_has_room(&m->link[i], note_for(m, &m->link[i], note).bytes))
            return SW_OK;
    bool is_of_window = note->kind == SW_NOTE_PUBLISH || note->kind == SW_NOTE_POST;
    if (is_of_window && note->bytes > 0) {
        sw_status status = sw_mover_find_window(m, note->window, err);
        if (status)
            return status;
    }
    for (int i = 0; i < m->n_links; i++) {
        sw_note mine = note_for(m, &m->link[i], note);
        const char *from = NULL;
        if (is_of_window && note->bytes > 0)
            from = m->window[note->window].base + mine.offset;
        else if (note->kind == SW_NOTE_EXCHANGE)
            from = m->control->rank[note->rank].exchange_slot[note->value % 2];
        sw_link_queue(&m->link[i], &mine, from);
    }
    *has_gone = true;
    return SW_OK;
}

static sw_status empty_outboxes(sw_mover *m, bool *moved, sw_error *err) {
    for (int here = 0; here < m->bridge->n_here; here++) {
        int rank = m->bridge->first[m->bridge->host] + here;
        /* Looked at first: whatever the rank has told, it told before. */
        bool has_returned = atomic_load(&m->control->rank[rank].has_returned), is_empty = true;
        for (int l = 0; l < SW_LANES; l++) {
            sw_outbox *outbox = &m->bridge->outbox[here * SW_LANES + l];
            const sw_note *note;
            bool has_gone = true;
            while (has_gone && (note = sw_outbox_look(outbox))) {
                sw_status status = hand_out(m, note, &has_gone, err);
                if (status)
                    return status;
                if (has_gone)
                    sw_outbox_drop(outbox);
                *moved |= has_gone;
            }
            is_empty &= has_gone;
        }
        const sw_error *final = &m->control->rank[rank].final;
        for (int i = 0; i < m->n_links; i++)
            is_empty &= sw_link_has_room(&m->link[i], sizeof *final);
        if (!has_returned || !is_empty || m->has_told_return[here])
            continue;
        for (int i = 0; i < m->n_links; i++)
            sw_link_queue(
                &m->link[i],
                &(sw_note){.kind = SW_NOTE_RETURNED, .rank = rank, .bytes = sizeof *final},
                (const char *) final);
        m->has_told_return[here] = true;
        m->n_told++;
    }
    return SW_OK;
}

/* What the lanes do, for messages and for the watch there; and a sign of life. */
static void beat(sw_mover *m, double now) {
    bool is_over = m->n_told == m->bridge->n_here; /* that was the last of them */
    if (is_over || now - m->last_heartbeat < HEARTBEAT_SECONDS)
        return;
    for (int i = 0; i < m->n_links; i++)
        if (m->link[i].n_sent < m->link[i].n_heartbeats) /* the last is still in use */
            return;
    m->last_heartbeat = now;
    for (int here = 0; here < m->bridge->n_here; here++) {
        sw_note note = {.kind = SW_NOTE_LANES,
                        .rank = m->bridge->first[m->bridge->host] + here,
                        .bytes = sizeof m->lanes[here]};
        for (int l = 0; l < SW_LANES; l++)
            sw_lane_load(&m->control->rank[note.rank].lane[l], &m->lanes[here][l]);
        for (int i = 0; i < m->n_links; i++) {
            if (sw_link_has_room(&m->link[i], note.bytes))
                sw_link_queue(&m->link[i], &note, (const char *)m->lanes[here]);
            m->link[i].n_heartbeats = m->link[i].n_queued;
        }
    }
}

/* ---- the whole ---- */

static sw_status look(sw_mover *m, bool *moved, sw_error *err) {
    double now = sw_seconds_now();
    bool was_suspended = now - m->last_look > SUSPENDED_SECONDS;
    sw_status status = empty_outboxes(m, moved, err);
    m->last_look = now;
    beat(m, now);
    for (int i = 0; i < m->n_links && !status; i++) {
        if (was_suspended)
            m->link[i].heard = now;
        status = sw_link_send(m, &m->link[i], moved, err);
        if (!status)
            status = sw_link_receive(m, &m->link[i], now, moved, err);
    }
    return status;
}

static bool is_done(const sw_mover *m) {
    bool all = m->n_told == m->bridge->n_here;
    for (int i = 0; i < m->n_links; i++) {
        const sw_link *l = &m->link[i];
        all &= l->n_sent == l->n_queued && sw_link_is_over(m, l);
    }
    return all;
}

/* Tell the other hosts why the run ends here, if they can still be told. */
static void part(sw_mover *m) {
    const sw_error *error = &m->control->error;
    int rank = m->bridge->first[m->bridge->host];
    double give_up = sw_seconds_now() + PARTING_SECONDS;
    sw_error unseen;
    for (int i = 0; i < m->n_links; i++)
        if (sw_link_has_room(&m->link[i], sizeof *error))
            sw_link_queue(&m->link[i],
                          &(sw_note){.kind = SW_NOTE_ABORT, .rank = rank, .bytes = sizeof *error},
                          (const char *)error);
    for (bool is_left = true; is_left && sw_seconds_now() < give_up;) {
        bool moved = false;
        is_left = false;
        for (int i = 0; i < m->n_links; i++)
            is_left |= sw_link_send(m, &m->link[i], &moved, &unseen) == SW_OK &&
                       m->link[i].n_sent < m->link[i].n_queued;
        if (is_left && !moved)
            nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    }
}

static sw_status carry(sw_mover *m, sw_error *err) {
    sw_status status = SW_OK;
    m->last_look = sw_seconds_now();
    for (int i = 0; i < m->n_links && !status; i++) {
        m->link[i].heard = m->last_look;
        status = sw_link_await(m, &m->link[i], err);
    }
    for (int n_idle = 0; !status && !is_done(m);) {
        bool moved = false;
        status = sw_control_check(m->control, err);
        if (!status)
            status = look(m, &moved, err);
        n_idle = moved ? 0 : n_idle + 1;
        if (n_idle > LOOKS_BEFORE_SLEEP)
            nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
        else if (n_idle)
            sched_yield();
    }
    return status;
}

/* Hosts in the order of their first processes, and their ranks. */
static sw_status place_hosts(sw_mover *m, const sw_mover_options *options, const sw_hello *all,
                             int number, sw_error *err) {
    sw_bridge *b = m->bridge;
    int n = options->n_processes, rank = 0;
    b->n_hosts = 0;
    for (int p = 0; p < n; p++) {
        if (all[p].host_rank != 0)
            continue;
        const sw_hello *theirs = &all[p], *mine = &all[number];
        if (rank + theirs->host_size > m->control->n_ranks)
            return sw_fail(err, SW_BAD_CONFIG, "hosts have more processes than %s started",
                           options->launcher);
        bool is_alike = theirs->n_ranks == mine->n_ranks && theirs->mode == mine->mode &&
                        theirs->control_bytes == mine->control_bytes &&
                        !strncmp(theirs->version, mine->version, sizeof mine->version) &&
                        !strncmp(theirs->machine, mine->machine, sizeof mine->machine);
        if (!is_alike)
            return sw_fail(
                err, SW_MISMATCH,
                "hosts %.*s and %.*s disagree: shardwise %.*s and %.*s, CPUs %.*s and %.*s, %d and "
                "%d ranks, shard.mode %d and %d · give all hosts one command and one RUN.yaml",
                SW_HOST_NAME_BYTES, mine->host, SW_HOST_NAME_BYTES, theirs->host,
                (int)sizeof mine->version, mine->version, (int)sizeof mine->version,
                theirs->version, (int)sizeof mine->machine, mine->machine,
                (int)sizeof mine->machine, theirs->machine, mine->n_ranks, theirs->n_ranks,
                mine->mode, theirs->mode);
        if (theirs->n_threads != mine->n_threads) /* programs have a place for each */
            return sw_fail(
                err, SW_BAD_CONFIG,
                "ranks have %d threads on host %.*s and %d on host %.*s, as train.threads "
                "is auto and cores or processes are not alike · set train.threads",
                mine->n_threads, SW_HOST_NAME_BYTES, mine->host, theirs->n_threads,
                SW_HOST_NAME_BYTES, theirs->host);
        if (p == number)
            b->host = b->n_hosts;
        else
            m->link[m->n_links++] = (sw_link){.host = b->n_hosts, .process = p};
        memcpy(b->name[b->n_hosts], theirs->host, sizeof theirs->host - 1);
        b->first[b->n_hosts++] = rank;
        rank += theirs->host_size;
    }
    b->first[b->n_hosts] = rank;
    if (rank != m->control->n_ranks)
        return sw_fail(err, SW_BAD_CONFIG, "%s started %d processes, but hosts have %d",
                       options->launcher, m->control->n_ranks, rank);
    for (int i = 0; i < m->n_links; i++)
        if (!(m->link[i].piece = calloc(SW_MAX_PIECES, sizeof *m->link[i].piece)))
            return sw_fail(err, SW_NO_MEMORY, "no memory for the queues to %d hosts", m->n_links);
    return SW_OK;
}

sw_status sw_mover_run(const sw_mover_options *options, sw_error *err) {
    sw_mover m = {
        .bridge = options->bridge, .control = options->control, .deadline = options->deadline};
    const int n_here = m.bridge->n_here;
    sw_hello *all = NULL;
    const char *level = "";
    int number = 0;
    m.link = calloc((size_t)options->n_processes, sizeof *m.link);
    m.lanes = calloc((size_t)n_here, sizeof *m.lanes);
    m.has_told_return = calloc((size_t)n_here, sizeof *m.has_told_return);
    sw_status status = m.link && m.lanes && m.has_told_return
                           ? SW_OK
                           : sw_fail(err, SW_NO_MEMORY, "no memory to talk to other hosts");
    if (!status)
        status = sw_mpi_meet(options->kind, options->launcher, options->n_processes,
                             &options->hello, &m.table, &number, &level, &all, err);
    if (!status)
        status = place_hosts(&m, options, all, number, err);
    if (!status) {
        snprintf(m.bridge->library, sizeof m.bridge->library, "%.60s, %s", m.table->library(),
                 level);
        atomic_store(&m.bridge->state, SW_BRIDGE_MET);
        status = carry(&m, err);
    }
    if (status && status != SW_ABORTED)
        sw_control_abort(m.control, err);
    if (status && m.n_links && m.link[m.n_links - 1].piece)
        part(&m);
    if (!status) {
        struct timespec used = {0};
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        m.bridge->cpu_seconds = (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
        atomic_store(&m.bridge->state, SW_BRIDGE_DONE);
        m.table->end();
    }
    for (int i = 0; i < m.n_links; i++)
        free(m.link[i].piece);
    free(m.has_told_return);
    free(m.lanes);
    free(m.link);
    free(all);
    return status;
}
