/* test_power_loss.c: whatever a disk may forget when the power goes, there is a good checkpoint.
 *
 * All changes that saves make are recorded: bytes into files, names into folders, syncs of either.
 * What a disk holds after a crash at some moment is the changes before it, less any of those that
 * no later sync of the same file or folder had made lasting by then: in any combination, as file
 * systems may reorder them. Of every moment and combination (all of them where they are few, else
 * those that lack one or have one, and many at random) the folder is made anew and looked at as the
 * next start would do.
 */
#include "checkpoint/saved_run.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>

#include "base/hash.h"

enum {
    MOST_NODES = 512,
    MOST_ENTRIES = 16,
    NAME_BYTES = 40,
    MOST_CHANGES = 4096,
    MOST_DESCRIPTORS = 64
};
enum { MOST_OPEN_CHANGES_TRIED_ALL = 8, RANDOM_COMBINATIONS = 24, ROOT = 0 };

typedef struct node {
    enum { A_FILE, A_FOLDER, A_LINK } kind;
    char *bytes; /* of a file; the target of a link */
    int64_t n_bytes;
    struct {
        char name[NAME_BYTES];
        int node;
    } entry[MOST_ENTRIES];
    int n_entries;
} node;

typedef enum change_kind { WRITE, RESIZE, ADD, MOVE, SWAP, DROP, SYNC } change_kind;

typedef struct change {
    change_kind kind;
    int node;                              /* the file, or the folder whose names change */
    int64_t offset, n_bytes;               /* WRITE, RESIZE */
    char *bytes;                           /* WRITE */
    char name[NAME_BYTES], to[NAME_BYTES]; /* of entries */
    int added;                             /* ADD: the node */
} change;

typedef struct disk {
    node node[MOST_NODES];
} disk;

typedef struct recorder {
    const sw_storage *real;
    const char *folder; /* the run's: the root */
    disk now;
    int n_nodes, n_changes;
    change change[MOST_CHANGES];
    int node_of_descriptor[MOST_DESCRIPTORS * 16];
    bool cannot_exchange, cannot_link;
} recorder;

/* ---- a disk ---- */

static int find_entry(const node *folder, const char *name) {
    for (int i = 0; i < folder->n_entries; i++)
        if (strcmp(folder->entry[i].name, name) == 0)
            return i;
    return -1;
}

static void drop_entry(node *folder, const char *name) {
    int at = find_entry(folder, name);
    if (at >= 0)
        folder->entry[at] = folder->entry[--folder->n_entries];
}

static void add_entry(node *folder, const char *name, int added) {
    drop_entry(folder, name);
    assert_true(folder->n_entries < MOST_ENTRIES);
    strcpy(folder->entry[folder->n_entries].name, name);
    folder->entry[folder->n_entries++].node = added;
}

static void resize(node *file, int64_t n_bytes) {
    file->bytes = realloc(file->bytes, (size_t)n_bytes + 1);
    if (n_bytes > file->n_bytes)
        memset(file->bytes + file->n_bytes, 0, (size_t)(n_bytes - file->n_bytes));
    file->n_bytes = n_bytes;
}

/* A change whose names are not there (what made them was forgotten) changes nothing. */
static void apply(disk *d, const change *c) {
    node *n = &d->node[c->node];
    int at = find_entry(n, c->name), to = find_entry(n, c->to);
    switch (c->kind) {
    case WRITE:
        if (c->offset + c->n_bytes > n->n_bytes)
            resize(n, c->offset + c->n_bytes);
        memcpy(n->bytes + c->offset, c->bytes, (size_t)c->n_bytes);
        break;
    case RESIZE:
        resize(n, c->n_bytes);
        break;
    case ADD:
        add_entry(n, c->name, c->added);
        break;
    case MOVE:
        if (at >= 0) {
            int moved = n->entry[at].node;
            drop_entry(n, c->name);
            add_entry(n, c->to, moved);
        }
        break;
    case SWAP:
        if (at >= 0 && to >= 0) {
            int other = n->entry[at].node;
            n->entry[at].node = n->entry[to].node;
            n->entry[to].node = other;
        }
        break;
    case DROP:
        drop_entry(n, c->name);
        break;
    case SYNC:
        break;
    }
}

/* ---- recording ---- */

/* The folder of a path and the name in it. */
static int resolve(const recorder *r, const char *path, char name[NAME_BYTES]) {
    int at = ROOT;
    size_t n = strlen(r->folder);
    assert_true(strncmp(path, r->folder, n) == 0);
    path += n;
    *name = 0;
    while (*path == '/') {
        if (*name) {
            int entry = find_entry(&r->now.node[at], name);
            assert_true(entry >= 0);
            at = r->now.node[at].entry[entry].node;
        }
        size_t length = strcspn(++path, "/");
        assert_true(length < NAME_BYTES);
        memcpy(name, path, length);
        name[length] = 0;
        path += length;
    }
    return at;
}

static change *record(recorder *r, change_kind kind, int of) {
    assert_true(r->n_changes < MOST_CHANGES);
    change *c = &r->change[r->n_changes++];
    *c = (change){.kind = kind, .node = of};
    return c;
}

static int record_added(recorder *r, const char *path, int kind) {
    char name[NAME_BYTES];
    int folder = resolve(r, path, name), entry = find_entry(&r->now.node[folder], name);
    if (entry >= 0)
        return r->now.node[folder].entry[entry].node;
    assert_true(r->n_nodes < MOST_NODES);
    change *c = record(r, ADD, folder);
    strcpy(c->name, name);
    c->added = r->n_nodes++;
    r->now.node[c->added].kind = kind;
    apply(&r->now, c);
    return c->added;
}

static int call_make_folder(void *self, const char *path) {
    recorder *r = self;
    int result = r->real->make_folder(NULL, path);
    if (result == 0)
        record_added(r, path, A_FOLDER);
    return result;
}

static int call_open(void *self, const char *path, bool is_direct) {
    recorder *r = self;
    int fd = r->real->open(NULL, path, is_direct);
    assert_true(fd >= 0 && fd < MOST_DESCRIPTORS * 16);
    r->node_of_descriptor[fd] = record_added(r, path, A_FILE);
    return fd;
}

static int64_t call_write(void *self, int descriptor, const void *data, int64_t bytes,
                          int64_t offset) {
    recorder *r = self;
    change *c = record(r, WRITE, r->node_of_descriptor[descriptor]);
    c->offset = offset;
    c->n_bytes = bytes;
    c->bytes = malloc((size_t)bytes + 1);
    memcpy(c->bytes, data, (size_t)bytes);
    apply(&r->now, c);
    assert_int_equal(r->real->write(NULL, descriptor, data, bytes, offset), bytes);
    return bytes;
}

static int call_reserve(void *self, int descriptor, int64_t bytes) {
    recorder *r = self;
    change *c = record(r, RESIZE, r->node_of_descriptor[descriptor]);
    c->n_bytes = bytes;
    apply(&r->now, c);
    return r->real->reserve(NULL, descriptor, bytes);
}

static int call_sync(void *self, int descriptor) {
    recorder *r = self;
    record(r, SYNC, r->node_of_descriptor[descriptor]);
    return 0;
}

static int call_close(void *self, int descriptor) {
    return ((recorder *)self)->real->close(NULL, descriptor);
}

static int call_sync_folder(void *self, const char *path) {
    recorder *r = self;
    char name[NAME_BYTES];
    int above = resolve(r, path, name);
    record(r, SYNC,
           *name ? r->now.node[above].entry[find_entry(&r->now.node[above], name)].node : ROOT);
    return 0;
}

/* A change of names that has been made. */
static int record_names(recorder *r, change_kind kind, const char *path, const char *to) {
    char name[NAME_BYTES], to_name[NAME_BYTES];
    int folder = resolve(r, path, name);
    if (to)
        assert_int_equal(resolve(r, to, to_name), folder);
    change *c = record(r, kind, folder);
    strcpy(c->name, name);
    if (to)
        strcpy(c->to, to_name);
    apply(&r->now, c);
    return 0;
}

static int call_rename(void *self, const char *from, const char *to) {
    recorder *r = self;
    int result = r->real->rename(NULL, from, to);
    return result == 0 ? record_names(r, MOVE, from, to) : result;
}

static int call_exchange(void *self, const char *a, const char *b) {
    recorder *r = self;
    int result = r->cannot_exchange ? -EINVAL : r->real->exchange(NULL, a, b);
    return result == 0 ? record_names(r, SWAP, a, b) : result;
}

static int call_link(void *self, const char *target, const char *path) {
    recorder *r = self;
    int result = r->cannot_link ? -EOPNOTSUPP : r->real->link(NULL, target, path);
    if (result == 0)
        r->now.node[record_added(r, path, A_LINK)].bytes = strdup(target);
    return result;
}

static int call_remove(void *self, const char *path) {
    recorder *r = self;
    int result = r->real->remove(NULL, path);
    return result == 0 ? record_names(r, DROP, path, NULL) : result;
}

static int call_remove_folder(void *self, const char *path) {
    recorder *r = self;
    int result = r->real->remove_folder(NULL, path);
    return result == 0 ? record_names(r, DROP, path, NULL) : result;
}

/* ---- after the power came back ---- */

/* Bytes in folders that are no checkpoint's yet, or no more, make no difference. */
static uint64_t hash_tree(const disk *d, int at, bool has_bytes) {
    const node *n = &d->node[at];
    uint64_t hash = (uint64_t)n->kind + 1;
    if (n->kind == A_FILE && has_bytes)
        hash += sw_checksum(n->bytes ? n->bytes : "", n->n_bytes);
    for (int i = 0; i < n->n_entries; i++) { /* in any order */
        uint64_t below[2] = {
            sw_hash_text(SW_HASH_START, n->entry[i].name),
            hash_tree(d, n->entry[i].node, has_bytes && n->entry[i].name[0] != '.')};
        hash += sw_checksum(below, sizeof below);
    }
    return hash;
}

static void materialize(const disk *d, int at, const char *path) {
    const node *n = &d->node[at];
    if (n->kind == A_LINK) {
        assert_int_equal(symlink(n->bytes, path), 0);
    } else if (n->kind == A_FILE) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(n->bytes ? n->bytes : "", 1, (size_t)n->n_bytes, file), n->n_bytes);
        fclose(file);
    } else {
        assert_int_equal(mkdir(path, 0777), 0);
        for (int i = 0; i < n->n_entries; i++) {
            char below[SW_PATH_BYTES];
            assert_int_equal(sw_path_join(below, path, n->entry[i].name, NULL), SW_OK);
            materialize(d, n->entry[i].node, below);
        }
    }
}

static const char RESTATED[] = "{\"rows_left_out\": 20}";

/* The states that a checkpoint may have; `replaced`: that it must have the later one. */
static void check_state(const saved_run *run, int64_t step, bool must_be_replaced) {
    char saved[SAVED_STATE_BYTES];
    sw_checkpoint *checkpoint = open_step(run, step);
    bool is_replaced = strcmp(sw_checkpoint_state(checkpoint), RESTATED) == 0;
    saved_state(step, saved);
    assert_true(is_replaced ||
                (!must_be_replaced && strcmp(sw_checkpoint_state(checkpoint), saved) == 0));
    sw_checkpoint_close(checkpoint);
}

/* What the next start finds: every checkpoint that has a name is whole, bit for bit; the newest is
 * at least `least`, and if it is `replaced` it has its new state; cleaning leaves nothing else; and
 * saving goes on. */
static void check_folder(const saved_run *run, const char *folder, int64_t least,
                         int64_t replaced) {
    saved_run after = *run;
    sw_steps steps;
    sw_error err;
    int64_t newest;
    snprintf(after.folder, sizeof after.folder, "%s", folder);
    after.storage = sw_storage_system();
    assert_int_equal(sw_steps_list(folder, &steps, &err), SW_OK);
    for (int i = 0; i < steps.n; i++) {
        if (!steps.item[i].is_whole)
            fail_msg("%s", steps.item[i].reason);
        check_step(&after, steps.item[i].step);
        check_state(&after, steps.item[i].step, steps.item[i].step == replaced);
    }
    assert_true((steps.n ? steps.item[0].step : -1) >= least);
    if (sw_steps_clean(after.storage, folder, NULL, NULL, &err) != SW_OK)
        fail_msg("%s", err.message);
    assert_int_equal(newest_good_step(folder, 1, NULL, NULL, &newest, &err), SW_OK);
    assert_true(newest == (steps.n ? steps.item[0].step : -1));
    char path[SW_PATH_BYTES];
    for (int i = 0; i < steps.n; i++) {
        assert_int_equal(sw_path_join(path, step_folder(&after, steps.item[i].step),
                                      "manifest.json.partial", NULL),
                         SW_OK);
        assert_false(sw_file_exists(path));
    }
    assert_int_equal(sw_path_join(path, folder, "steps", NULL), SW_OK);
    DIR *open_folder = opendir(path);
    for (struct dirent *entry; open_folder && (entry = readdir(open_folder));)
        if (entry->d_name[0] == '.' && entry->d_name[1] && strcmp(entry->d_name, "..") != 0)
            fail_msg("%s/%s is left", path, entry->d_name);
    if (open_folder)
        closedir(open_folder);
    sw_steps_free(&steps);
}

typedef struct world {
    const saved_run *run;
    const recorder *recorder;
    char folder[64]; /* in which states are made */
    uint64_t seen[1 << 16];
    int n_states, n_distinct;
} world;

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *place) {
    (void)info, (void)flag, (void)place;
    return remove(path);
}

static void remove_tree(const char *path) {
    assert_int_equal(nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* The disk after the first n changes but those that are left out. */
static void look_at(world *w, int n, const bool *is_left_out, int64_t least, int64_t replaced) {
    static disk d;
    memset(&d, 0, sizeof d);
    for (int i = 0; i < w->recorder->n_nodes; i++) {
        d.node[i].kind = w->recorder->now.node[i].kind;
        if (d.node[i].kind == A_LINK)
            d.node[i].bytes = strdup(w->recorder->now.node[i].bytes);
    }
    for (int i = 0; i < n; i++)
        if (!is_left_out[i])
            apply(&d, &w->recorder->change[i]);
    uint64_t hash =
        (hash_tree(&d, ROOT, true) + (uint64_t)(least * 1000 + replaced) * 0x9e3779b97f4a7c15u) | 1;
    size_t slot = hash % (sizeof w->seen / sizeof *w->seen);
    while (w->seen[slot] && w->seen[slot] != hash)
        slot = (slot + 1) % (sizeof w->seen / sizeof *w->seen);
    w->n_states++;
    if (!w->seen[slot]) {
        w->seen[slot] = hash;
        assert_true(++w->n_distinct < 60000);
        materialize(&d, ROOT, w->folder);
        check_folder(w->run, w->folder, least, replaced);
        remove_tree(w->folder);
    }
    for (int i = 0; i < MOST_NODES; i++)
        free(d.node[i].bytes);
}

/* A crash after the first n changes. */
static void crash_at(world *w, int n, int64_t least, int64_t replaced) {
    static bool is_left_out[MOST_CHANGES];
    int open_change[MOST_CHANGES], n_open = 0;
    for (int i = 0; i < n; i++) {
        bool is_lasting = w->recorder->change[i].kind == SYNC;
        for (int k = i + 1; k < n && !is_lasting; k++)
            is_lasting = w->recorder->change[k].kind == SYNC &&
                         w->recorder->change[k].node == w->recorder->change[i].node;
        if (!is_lasting)
            open_change[n_open++] = i;
    }
    uint64_t chance = 88172645463325252u + (uint64_t)n;
    bool tries_all = n_open <= MOST_OPEN_CHANGES_TRIED_ALL;
    int n_combinations = tries_all ? 1 << n_open : 2 + 2 * n_open + RANDOM_COMBINATIONS;
    for (int c = 0; c < n_combinations; c++) {
        memset(is_left_out, 0, sizeof is_left_out);
        chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17;
        for (int i = 0; i < n_open; i++) {
            bool left_out = tries_all        ? c >> i & 1
                            : c < 2          ? c == 1
                            : c < 2 + n_open ? i == c - 2
                            : c < 2 + 2 * n_open
                                ? i != c - 2 - n_open
                                : ((chance >> (i % 60) ^ chance >> (i / 60)) & 1) != 0;
            is_left_out[open_change[i]] = left_out;
        }
        look_at(w, n, is_left_out, least, replaced);
    }
}

static recorder rec;
static world the_world;

static sw_storage recording_storage(saved_run *run) {
    rec = (recorder){.real = sw_storage_system(), .folder = run->folder, .n_nodes = 1};
    rec.now.node[ROOT].kind = A_FOLDER;
    return (sw_storage){.self = &rec, SW_STORAGE_CALLS(SW_STORAGE_FILL)};
}

typedef enum disk_kind { USUAL_DISK, NO_EXCHANGE, NO_LINKS, NO_EXCHANGE_NO_LINKS } disk_kind;

/* A run that saves those steps, or gives a saved one another state (its negative); after each it
 * says what it has, and the power may go at every moment of the next. */
static void run_through(int n_ranks, int64_t keep, disk_kind kind, const int64_t *saves,
                        int n_saves) {
    saved_run run;
    sw_error err;
    int done[8], n = 0;
    begin_run_of(&run, n_ranks, SKINNY_ROWS);
    sw_storage storage = recording_storage(&run);
    rec.cannot_exchange = kind & NO_EXCHANGE;
    rec.cannot_link = kind & NO_LINKS;
    run.storage = &storage;
    run.retention.keep = keep;
    for (int i = 0; i < n_saves; i++) {
        if (saves[i] >= 0)
            save_step(&run, saves[i]);
        else if (sw_save_replace_state(run.save[0], -saves[i], RESTATED, &err) != SW_OK)
            fail_msg("%s", err.message);
        done[i] = rec.n_changes;
    }
    memset(&the_world, 0, sizeof the_world);
    the_world.run = &run;
    the_world.recorder = &rec;
    snprintf(the_world.folder, sizeof the_world.folder, "%s-after", run.folder);
    int64_t least = -1, replaced = -1; /* what a save that has returned promises */
    for (int i = 0; i < n_saves; i++) {
        /* Replacing by three renames may lose the step that is replaced, which is not the last good
         * one. */
        int64_t promised =
            rec.cannot_exchange && i && saves[i] == saves[i - 1] ? saves[i - 2] : least;
        for (; n < done[i]; n++)
            crash_at(&the_world, n, promised, replaced);
        least = saves[i] >= 0 ? saves[i] : least;
        replaced = saves[i] < 0 ? -saves[i] : replaced;
    }
    for (; n <= rec.n_changes; n++)
        crash_at(&the_world, n, least, replaced);
    print_message("%d changes, %d states of the disk, %d of them distinct\n", rec.n_changes,
                  the_world.n_states, the_world.n_distinct);
    for (int i = 0; i < rec.n_changes; i++)
        free(rec.change[i].bytes);
    for (int i = 0; i < rec.n_nodes; i++)
        free(rec.now.node[i].bytes);
    end_run(&run);
}

static void two_ranks_keep_one_checkpoint(void **state) {
    (void)state;
    run_through(2, 1, USUAL_DISK, (int64_t[]){10, 20, 30}, 3);
}

static void a_step_is_replaced(void **state) {
    (void)state;
    run_through(1, 0, USUAL_DISK, (int64_t[]){10, 20, 20}, 3);
}

static void a_step_is_replaced_where_folders_cannot_be_exchanged(void **state) {
    (void)state;
    run_through(1, 2, NO_EXCHANGE, (int64_t[]){10, 20, 20, 30}, 4);
}

/* After a rollback: the one checkpoint that is there is never lost, on any disk. */
static void the_only_checkpoint_is_replaced(void **state) {
    (void)state;
    run_through(1, 1, USUAL_DISK, (int64_t[]){20, -20, 30}, 3);
    run_through(1, 1, NO_EXCHANGE_NO_LINKS, (int64_t[]){20, -20, -20}, 3);
}

static void a_disk_without_links(void **state) {
    (void)state;
    run_through(2, 1, NO_LINKS, (int64_t[]){10, 20}, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_keep_one_checkpoint),
        cmocka_unit_test(a_step_is_replaced),
        cmocka_unit_test(a_step_is_replaced_where_folders_cannot_be_exchanged),
        cmocka_unit_test(the_only_checkpoint_is_replaced),
        cmocka_unit_test(a_disk_without_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
