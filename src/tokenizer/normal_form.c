/* normal_form.c: decompose, put marks in order, compose again.
 *
 * The text is taken in stretches that begin with a starter (combining class 0) and hold the marks
 * after it: within one, marks are sorted by class (stably) and composed with the starter. A starter
 * may also compose with the starter right before it (Hangul and a few others), so the last starter
 * stays open until the next cannot join it.
 */
#include "tokenizer/normal_form.h"

#include <stdlib.h>

#include "tokenizer/unicode.h"

enum {
    L_BASE = 0x1100,
    V_BASE = 0x1161,
    T_BASE = 0x11A7,
    S_BASE = 0xAC00,
    N_L = 19,
    N_V = 21,
    N_T = 28,
    N_S = N_L * N_V * N_T
};

typedef struct mark {
    uint32_t code;
    uint8_t class; /* canonical combining class */
} mark;

typedef struct stretch {
    mark *marks; /* the first is the starter, if it is one */
    size_t n, capacity;
    bool composes, is_compatible;
    sw_bytes *out;
} stretch;

static uint8_t class_of(uint32_t code) {
    return code < 0x300
               ? 0
               : (uint8_t)sw_unicode_value(sw_unicode_combining, sw_unicode_n_combining, code, 0);
}

static const sw_code_decomposition *find_decomposition(const sw_code_decomposition *table, int n,
                                                       uint32_t code) {
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (table[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && table[low].code == code ? &table[low] : NULL;
}

/* What two characters compose to; 0 if they do not. */
static uint32_t compose(uint32_t first, uint32_t second) {
    if (first - L_BASE < N_L && second - V_BASE < N_V)
        return S_BASE + ((first - L_BASE) * N_V + (second - V_BASE)) * N_T;
    if (first - S_BASE < N_S && (first - S_BASE) % N_T == 0 && second > T_BASE &&
        second < T_BASE + N_T)
        return first + (second - T_BASE);
    int low = 0, high = sw_unicode_n_compositions;
    while (low < high) {
        int middle = (low + high) / 2;
        const sw_code_composition *at = &sw_unicode_compositions[middle];
        if (at->first < first || (at->first == first && at->second < second))
            low = middle + 1;
        else
            high = middle;
    }
    const sw_code_composition *found = &sw_unicode_compositions[low];
    return low < sw_unicode_n_compositions && found->first == first && found->second == second
               ? found->result
               : 0;
}

/* Stable, and there are few marks to sort: insertion. Long runs of marks are cut to keep that so by
 * the merge below. */
static void sort_marks(mark *marks, size_t n, mark *other) {
    if (n <= 16) {
        for (size_t i = 1; i < n; i++)
            for (size_t j = i; j > 0 && marks[j - 1].class > marks[j].class; j--) {
                mark lower = marks[j];
                marks[j] = marks[j - 1];
                marks[j - 1] = lower;
            }
        return;
    }
    size_t half = n / 2, left = 0, right = half;
    sort_marks(marks, half, other);
    sort_marks(marks + half, n - half, other);
    memcpy(other, marks, n * sizeof *marks);
    for (size_t i = 0; i < n; i++)
        marks[i] = left < half && (right == n || other[left].class <= other[right].class)
                       ? other[left++]
                       : other[right++];
}

/* Close the stretch: order, compose, write. The last starter remains when it may still join what
 * follows. */
static void close_stretch(stretch *s) {
    size_t first = s->n && s->marks[0].class == 0; /* the marks begin here */
    size_t n_marks = s->n - first;
    if (n_marks > 1) {
        mark *other = n_marks > 16 ? malloc(n_marks * sizeof *other) : NULL;
        if (n_marks > 16 && !other) {
            s->out->is_short = true;
            return;
        }
        sort_marks(s->marks + first, n_marks, other);
        free(other);
    }
    if (s->composes && first) {
        size_t n_kept = 1;
        uint8_t last_class = 0;
        for (size_t i = 1; i < s->n; i++) {
            mark m = s->marks[i];
            bool is_blocked =
                n_kept > 1 &&
                last_class >= m.class; /* a mark of this class, or a starter, stands between */
            uint32_t composed = is_blocked ? 0 : compose(s->marks[0].code, m.code);
            if (composed)
                s->marks[0].code = composed;
            else {
                s->marks[n_kept++] = m;
                last_class = m.class;
            }
        }
        s->n = n_kept;
    }
}

static void write_stretch(stretch *s) {
    for (size_t i = 0; i < s->n; i++)
        sw_bytes_put_code(s->out, s->marks[i].code);
    s->n = 0;
}

/* The next fully decomposed character. */
static void take(stretch *s, uint32_t code) {
    uint8_t class = class_of(code);
    if (class == 0 && s->n) {
        close_stretch(s);
        if (s->composes && s->n == 1 && s->marks[0].class == 0) {
            uint32_t composed = compose(s->marks[0].code, code);
            if (composed) {
                s->marks[0].code = composed;
                return;
            }
        }
        write_stretch(s);
    }
    if (s->n == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 32;
        mark *marks = realloc(s->marks, capacity * sizeof *marks);
        if (!marks) {
            s->out->is_short = true;
            return;
        }
        s->marks = marks;
        s->capacity = capacity;
    }
    s->marks[s->n++] = (mark){code, class};
}

static void decompose(stretch *s, uint32_t code) {
    if (code - S_BASE < N_S) {
        uint32_t index = code - S_BASE;
        take(s, L_BASE + index / (N_V * N_T));
        take(s, V_BASE + index % (N_V * N_T) / N_T);
        if (index % N_T)
            take(s, T_BASE + index % N_T);
        return;
    }
    const sw_code_decomposition *found =
        s->is_compatible ? find_decomposition(sw_unicode_compatible, sw_unicode_n_compatible, code)
                         : NULL;
    if (!found)
        found = find_decomposition(sw_unicode_canonical, sw_unicode_n_canonical, code);
    if (!found)
        take(s, code);
    for (int i = 0; found && i < found->n; i++)
        take(s, sw_unicode_pool[found->first + i]);
}

void sw_normal_form_append(sw_normal_form form, const char *text, size_t n_bytes, sw_bytes *out) {
    stretch s = {.composes = form == SW_NFC || form == SW_NFKC,
                 .is_compatible = form == SW_NFKC || form == SW_NFKD,
                 .out = out};
    const char *at = text, *end = text + n_bytes;
    while (at < end && !out->is_short) {
        /* ASCII is in every form already; only its last character before another kind may still
         * change. */
        const char *ascii = at;
        while (ascii < end && (unsigned char)*ascii < 0x80)
            ascii++;
        if (ascii - at > 1 || (ascii == end && ascii > at)) {
            close_stretch(&s);
            write_stretch(&s);
            size_t n_safe = (size_t)(ascii - at) - (ascii < end);
            sw_bytes_append(out, at, n_safe);
            at += n_safe;
            continue;
        }
        decompose(&s, sw_utf8_next(&at));
    }
    close_stretch(&s);
    write_stretch(&s);
    free(s.marks);
}
