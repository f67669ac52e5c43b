/* finish.h: how sums become elements of C: scaled, bias and addend added, heads turned
 * (sw_rotation), rounded once.
 *
 * To turn a channel its partner is needed, half a head away, which is mostly in another tile. So
 * where heads are turned, a block of columns is whole heads, and the sums of its rows wait in the
 * first cache until all of its tiles are there. Heads for which there is no such block are turned
 * where they were stored: that costs less than blocks cut to their width would.
 */
#ifndef SW_DEVICE_CPU_TUNED_FINISH_H
#define SW_DEVICE_CPU_TUNED_FINISH_H

#include "device/cpu/gemm.h"
#include "device/cpu/tuned/units.h"

/* alpha sums + bias + addend for n columns, at most VEC; what is there is constant where this is
 * inlined. */
SW_INLINE vec finished(const sw_product *p, bool has_bias, bool has_addend, sw_dtype type,
                       int64_t row, int64_t column, int64_t n, const float *sums) {
    vec x = (float)p->alpha * load_floats(sums, VEC);
    if (has_bias)
        x += load_reals(p->bias, p->bias_type, column, n);
    if (has_addend)
        x += load_reals(p->addend, type, row * p->addend_stride + column, n);
    return x;
}

/* VEC channels of a head, and their partners; table: their (cos, sin). */
SW_INLINE void turn(const float *table, vec *low, vec *high) {
    vec cosine, sine;
    vec_apart(table, &cosine, &sine);
    const vec turned = *low * cosine - *high * sine;
    *high = *high * cosine + *low * sine;
    *low = turned;
}

static inline const float *turns_of_row(const sw_rotation *r, int64_t row) {
    return r->table + (r->first_row + row) % r->T * r->D;
}

/* C for n columns of a row. */
SW_INLINE void finish_row(const sw_product *p, bool has_bias, bool has_addend, sw_dtype type,
                          int64_t row, int64_t column, int64_t n, const float *sums) {
    for (int64_t j = 0; j < n; j += VEC)
        store_reals(p->c, type, row * p->c_stride + column + j, n - j,
                    finished(p, has_bias, has_addend, type, row, column + j, n - j, sums + j));
}

/* The same for n columns that are whole heads, turned. */
SW_INLINE void finish_heads(const sw_product *p, bool has_bias, bool has_addend, sw_dtype type,
                            int64_t row, int64_t column, int64_t n, const float *sums) {
    const int64_t half = p->rotation.D / 2, at = row * p->c_stride + column;
    const float *turns = turns_of_row(&p->rotation, row);
    for (int64_t head = 0; head < n; head += 2 * half) {
        const float *table = turns;
        for (int64_t i = head; i < head + half; i += VEC, table += 2 * VEC) {
            vec low = finished(p, has_bias, has_addend, type, row, column + i, VEC, sums + i);
            vec high = finished(p, has_bias, has_addend, type, row, column + i + half, VEC,
                                sums + i + half);
            turn(table, &low, &high);
            store_reals(p->c, type, at + i, VEC, low);
            store_reals(p->c, type, at + i + half, VEC, high);
        }
    }
}

SW_INLINE void finish_rows(const sw_product *p, sw_dtype type, int64_t row, int64_t n_rows,
                           int64_t column, int64_t n, const float *sums, int64_t stride) {
    for (int64_t i = 0; i < n_rows; i++, sums += stride) {
        if (p->bias && p->addend)
            finish_row(p, true, true, type, row + i, column, n, sums);
        else if (p->bias)
            finish_row(p, true, false, type, row + i, column, n, sums);
        else if (p->addend)
            finish_row(p, false, true, type, row + i, column, n, sums);
        else
            finish_row(p, false, false, type, row + i, column, n, sums);
    }
}

/* C for n_rows x n elements, from sums that are `stride` apart from row to row; whole vectors of
 * sums may be read. */
SW_INLINE void finish(const sw_product *p, int64_t row, int64_t n_rows, int64_t column, int64_t n,
                      const float *sums, int64_t stride) {
    if (p->c_type == SW_BF16)
        finish_rows(p, SW_BF16, row, n_rows, column, n, sums, stride);
    else
        finish_rows(p, SW_F32, row, n_rows, column, n, sums, stride);
}

/* The same; of the columns those that are heads to turn are turned. For them biases and addends are
 * looked for in each vector. */
static void finish_turned(const sw_product *p, int64_t row, int64_t n_rows, int64_t column,
                          int64_t n, const float *sums, int64_t stride) {
    const int64_t n_turned = larger(0, smaller(p->rotation.columns - column, n));
    for (int64_t i = 0; i < n_rows; i++)
        finish_heads(p, p->bias, p->addend, p->c_type, row + i, column, n_turned,
                     sums + i * stride);
    finish(p, row, n_rows, column + n_turned, n - n_turned, sums + n_turned, stride);
}

/* Turn what lies in C already. */
static void turn_stored(const sw_product *p) {
    const sw_rotation *r = &p->rotation;
    const int64_t half = r->D / 2, columns = smaller(r->columns, p->n);
    for (int64_t row = 0; row < p->m; row++) {
        const float *table = turns_of_row(r, row);
        for (int64_t head = 0; head < columns; head += r->D)
            for (int64_t i = 0; i < half; i += VEC) {
                const int64_t at = row * p->c_stride + head + i;
                vec low = load_reals(p->c, p->c_type, at, VEC),
                    high = load_reals(p->c, p->c_type, at + half, VEC);
                turn(table + 2 * i, &low, &high);
                store_reals(p->c, p->c_type, at, VEC, low);
                store_reals(p->c, p->c_type, at + half, VEC, high);
            }
    }
}

#endif
