/* test_safetensors.c: what a safetensors file may say, what is read from it, and what we write. */
#include "bad_files.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/safetensors.h"
#include "support/folder.h"

static char folder[FOLDER_BYTES];
static char path[256];

static int make_folder(void **state) {
    (void)state;
    if (!folder_make(folder))
        return -1;
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

/* A file from the length that it claims, its header [header_bytes] and its data. */
static void write_parts(uint64_t claimed, const char *header, size_t header_bytes, const void *data,
                        size_t data_bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&claimed, 8, 1, file), 1);
    assert_int_equal(fwrite(header, 1, header_bytes, file), header_bytes);
    assert_int_equal(fwrite(data, 1, data_bytes, file), data_bytes);
    assert_int_equal(fclose(file), 0);
}

static void write_file(const char *header, const void *data, size_t data_bytes) {
    write_parts(strlen(header), header, strlen(header), data, data_bytes);
}

static sw_status open_and_close(const char *name, sw_error *err) {
    sw_safetensors *file;
    sw_status status = sw_safetensors_open(name, &file, err);
    if (status == SW_OK)
        sw_safetensors_close(file);
    return status;
}

/* The file is refused, and the message holds its path and `words`. */
static void assert_refused(const char *words) {
    sw_error err = {0};
    sw_status status = open_and_close(path, &err);
    if (status != SW_BAD_FILE || !strstr(err.message, path) || !strstr(err.message, words))
        fail_msg("expected a refusal with \"%s\", got %s: %s", words, sw_status_name(status),
                 err.message);
}

static sw_safetensors *open_good(void) {
    sw_safetensors *file = NULL;
    sw_error err = {0};
    if (sw_safetensors_open(path, &file, &err) != SW_OK)
        fail_msg("%s", err.message);
    return file;
}

static void files_are_accepted_and_refused_as_the_verdicts_say(void **state) {
    (void)state;
    assert_int_equal(check_verdicts("safetensors/", open_and_close), 57);
}

/* B01 */
static void a_repeated_name_is_named(void **state) {
    (void)state;
    char data[16] = {0};
    write_file("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
               "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
               data, 16);
    assert_refused("\"w\": is there twice");
    write_file("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
               "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
               data, 8);
    assert_refused("\"w\": is there twice");
    write_file("{\"\xc3\xa9\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
               "\"\\u00e9\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
               data, 16);
    assert_refused("\"\xc3\xa9\": is there twice");
    write_file("{\"__metadata__\":{\"a\":0}}", data, 0);
    assert_refused("__metadata__");
    write_file("{\"__metadata__\":{},\"__metadata__\":{}}", data, 0);
    assert_refused("__metadata__");
    write_file("{\"a\xff\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", data, 8);
    assert_refused("UTF-8");
}

/* B02. The length is compared by subtraction, before anything is allocated. */
static void lengths_beyond_the_file_allocate_nothing(void **state) {
    (void)state;
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 4, 0, 3 + 1};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        write_parts(lengths[i], "{ }", 3, "", 0);
        assert_refused("the header");
    }
    write_parts(2, "{}", 2, "", 0);
    sw_safetensors *file = open_good();
    assert_int_equal(sw_safetensors_count(file), 0);
    sw_safetensors_close(file);
    static const uint64_t sparse[][2] = {{100000001, 100000009},
                                         {(uint64_t)1 << 40, ((uint64_t)1 << 40) + 8}};
    for (int i = 0; i < 2; i++) {
        write_parts(sparse[i][0], "{}", 2, "", 0);
        assert_int_equal(truncate(path, (off_t)sparse[i][1]), 0);
        assert_refused("at most 100000000");
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
#ifndef SW_SANITIZED
    assert_true(usage.ru_maxrss < 64 << 10);
#endif
}

/* B04 */
static void shapes_that_wrap_are_refused(void **state) {
    (void)state;
    static const char *const shapes[] = {"[4294967296,4294967296]",
                                         "[-1,0]",
                                         "[3.5]",
                                         "[18446744073709551616]",
                                         "[1e1]",
                                         "[01]",
                                         "[2.0]",
                                         "[-0]",
                                         "[9223372036854775808]",
                                         "[2305843009213693952]",
                                         "[\"2\"]",
                                         "[[2]]",
                                         "[true]",
                                         "[2,]",
                                         "2",
                                         "null",
                                         "[4294967296,4294967296,0]"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char header[256];
        snprintf(header, sizeof header,
                 "{\"w\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[0,0]}}", shapes[i]);
        write_file(header, "", 0);
        assert_refused("\"w\"");
    }
    write_file(
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,9223372036854775810],\"data_offsets\":[0,16]}}",
        "0123456789abcdef", 16);
    assert_refused("\"w\"");
}

/* B05 */
static void shape_and_dtype_must_fill_the_byte_range(void **state) {
    (void)state;
    static const char *const fields[] = {
        "\"dtype\":\"F32\",\"shape\":[1000,1000],\"data_offsets\":[0,4]",
        "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]",
        "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]",
        "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,2,4]",
        "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-8,4]",
        "\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[9223372036854775808,4]",
        "\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]",
        "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"strides\":[1]",
        "\"dtype\":\"F32\",\"shape\":[1]",
        "\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]",
        "\"dtype\":\"F4\",\"shape\":[7],\"data_offsets\":[0,4]",
        ""};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char header[256];
        snprintf(header, sizeof header, "{\"w\":{%s}}", fields[i]);
        write_file(header, "0123", 4);
        assert_refused("\"w\"");
    }
}

static void every_dtype_has_its_size_and_its_bytes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int bits;
    } dtypes[] = {{"BOOL", 8}, {"U8", 8},   {"I8", 8},     {"F8_E4M3", 8}, {"F8_E5M2", 8},
                  {"I16", 16}, {"U16", 16}, {"F16", 16},   {"BF16", 16},   {"I32", 32},
                  {"U32", 32}, {"F32", 32}, {"I64", 64},   {"U64", 64},    {"F64", 64},
                  {"C64", 64}, {"F4", 4},   {"F6_E2M3", 6}};
    char data[64];
    for (int i = 0; i < 64; i++)
        data[i] = (char)(i * 37);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        char header[256];
        int bytes = 4 * dtypes[i].bits / 8;
        snprintf(header, sizeof header,
                 "{\"w\":{\"dtype\":\"%s\",\"shape\":[2,2],\"data_offsets\":[0,%d]}}",
                 dtypes[i].name, bytes);
        write_file(header, data, (size_t)bytes);
        sw_safetensors *file = open_good();
        const sw_tensor_entry *w = sw_safetensors_find(file, "w");
        char back[64];
        sw_error err;
        float values[4];
        assert_non_null(w);
        assert_string_equal(w->dtype, dtypes[i].name);
        assert_int_equal(w->n_bytes, bytes);
        assert_int_equal(w->n_elements, 4);
        assert_int_equal(sw_safetensors_read_bytes(file, w, 0, bytes, back, &err), SW_OK);
        assert_memory_equal(back, data, (size_t)bytes);
        assert_int_equal(sw_safetensors_read(file, w, 0, 4, values, &err),
                         sw_safetensors_is_real(w) ? SW_OK : SW_BAD_FILE);
        sw_safetensors_close(file);
    }
}

/* B07. Data begin at 8 plus the length, aligned or not; blanks may fill the header up, NULs may
 * not. */
static void data_begin_right_after_the_header(void **state) {
    (void)state;
    const char *header = "{\"abcd\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    assert_int_equal(strlen(header) % 2, 1);
    float data[2] = {1.5f, -2.25f}, values[2];
    char padded[128] = {0};
    for (int n_blanks = 0; n_blanks <= 3; n_blanks += 3) {
        snprintf(padded, sizeof padded, "%s%.*s", header, n_blanks, "   ");
        write_file(padded, data, sizeof data);
        sw_safetensors *file = open_good();
        sw_error err;
        assert_int_equal(sw_safetensors_read(file, sw_safetensors_at(file, 0), 0, 2, values, &err),
                         SW_OK);
        assert_memory_equal(values, data, sizeof data);
        sw_safetensors_close(file);
    }
    memset(padded, 0, sizeof padded);
    memcpy(padded, header, strlen(header));
    write_parts(strlen(header) + 3, padded, strlen(header) + 3, data, sizeof data);
    assert_refused("after its closing }");
}

static void unaligned_tensors_of_every_real_dtype_are_read(void **state) {
    (void)state;
    unsigned char data[3 + 8 + 4 + 4 + 16] = {1, 2, 3};
    float f32[2] = {3.5f, -0.0f}, values[2];
    uint16_t bf16[2] = {0x3f80, 0xc000}, f16[2] = {0x3c00, 0x0001}; /* 1, -2; 1, 2^-24 */
    double f64[2] = {0.1, -1e10};
    memcpy(data + 3, f32, 8);
    memcpy(data + 11, bf16, 4);
    memcpy(data + 15, f16, 4);
    memcpy(data + 19, f64, 16);
    write_file("{\"u\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},\"d\":{\"dtype\":"
               "\"F64\",\"shape\":[2],\"data_"
               "offsets\":[19,35]},"
               "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[3,11]},\"b\":{\"dtype\":"
               "\"BF16\",\"shape\":[2],\"data_"
               "offsets\":[11,15]},"
               "\"c\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[15,19]}}",
               data, sizeof data);
    const float expected[4][2] = {
        {3.5f, -0.0f}, {1, -2}, {1, 5.9604644775390625e-8f}, {0.1f, -1e10f}};
    const char *const names[] = {"a", "b", "c", "d"};
    sw_safetensors *file = open_good();
    sw_error err;
    assert_string_equal(sw_safetensors_at(file, 0)->name,
                        "u"); /* by place, not by order of the header */
    for (int i = 0; i < 4; i++) {
        const sw_tensor_entry *tensor = sw_safetensors_find(file, names[i]);
        assert_int_equal(sw_safetensors_read(file, tensor, 0, 2, values, &err), SW_OK);
        assert_memory_equal(values, expected[i], sizeof values);
        assert_int_equal(sw_safetensors_read(file, tensor, 1, 1, values, &err), SW_OK);
        assert_memory_equal(values, &expected[i][1], sizeof *values);
        assert_int_equal(sw_safetensors_read(file, tensor, 1, 2, values, &err), SW_BUG);
    }
    assert_null(sw_safetensors_find(file, "e"));
    assert_null(sw_safetensors_find(file, ""));
    sw_safetensors_close(file);
}

/* B08 */
static void scalars_and_empty_tensors_lie_anywhere(void **state) {
    (void)state;
    float data[3] = {7, 1, 2}, value;
    write_file("{\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},\"e\":{\"dtype\":"
               "\"F16\",\"shape\":[0],\"data_"
               "offsets\":[4,4]},"
               "\"z\":{\"dtype\":\"BF16\",\"shape\":[3,0,2],\"data_offsets\":[4,4]},\"t\":{"
               "\"dtype\":\"F32\",\"shape\":[2],"
               "\"data_offsets\":[4,12]},"
               "\"q\":{\"dtype\":\"F8_E4M3\",\"shape\":[0],\"data_offsets\":[12,12]}}",
               data, 12);
    sw_safetensors *file = open_good();
    sw_error err;
    assert_int_equal(sw_safetensors_count(file), 5);
    const sw_tensor_entry *s = sw_safetensors_find(file, "s"), *z = sw_safetensors_find(file, "z");
    assert_int_equal(s->n_dimensions, 0);
    assert_int_equal(s->n_elements, 1);
    assert_int_equal(sw_safetensors_read(file, s, 0, 1, &value, &err), SW_OK);
    assert_true(value == 7);
    assert_int_equal(z->n_dimensions, 3);
    assert_int_equal(z->dimension[0], 3);
    assert_int_equal(z->dimension[2], 2);
    assert_int_equal(z->n_elements, 0);
    assert_int_equal(sw_safetensors_read(file, z, 0, 0, &value, &err), SW_OK);
    sw_safetensors_close(file);
    write_file("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,4]}}", data, 4);
    assert_refused("\"w\"");
}

static void names_are_any_text(void **state) {
    (void)state;
    write_file("{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
               "\"a\\n\\\"\\\\\\/"
               "\\u0041\\ud83d\\ude00\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
               "xy", 2);
    sw_safetensors *file = open_good();
    assert_non_null(sw_safetensors_find(file, ""));
    assert_non_null(sw_safetensors_find(file, "a\n\"\\/A\xf0\x9f\x98\x80"));
    sw_safetensors_close(file);
    static const char *const wrong[] = {"\\ud83d", "\\ude00",  "\\u12g4", "\\x",
                                        "\\u0000", "\\ud83dx", "\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char header[128];
        snprintf(header, sizeof header,
                 "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", wrong[i]);
        write_file(header, "x", 1);
        assert_refused("the header");
    }
}

/* C20. A tensor beyond 4 GiB: nothing is counted in 32 bits. */
static void a_sparse_file_beyond_4_gib_is_read_at_its_end(void **state) {
    (void)state;
    int64_t n = ((int64_t)1 << 30) + 3; /* of F32 */
    char header[128];
    snprintf(header, sizeof header,
             "{\"a\":{\"dtype\":\"F32\",\"shape\":[%" PRId64 "],\"data_offsets\":[0,%" PRId64 "]}}",
             n, 4 * n);
    write_file(header, "", 0);
    int64_t file_bytes = 8 + (int64_t)strlen(header) + 4 * n;
    float last = 42, values[2];
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &last, 4, file_bytes - 4), 4);
    close(fd);
    sw_safetensors *file = open_good();
    sw_error err;
    assert_int_equal(sw_safetensors_read(file, sw_safetensors_at(file, 0), n - 2, 2, values, &err),
                     SW_OK);
    assert_true(values[0] == 0 && values[1] == 42);
    assert_int_equal(sw_safetensors_bytes_read(file), 8 + (int64_t)strlen(header) + 8);
    sw_safetensors_close(file);
}

/* A header of the format's limit, and one of many tensors, are read in memory of their own size. */
static void the_largest_header_is_accepted(void **state) {
    (void)state;
    write_parts(100000000, "{}", 2, "", 0);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 10, SEEK_SET);
    char blanks[4096];
    memset(blanks, ' ', sizeof blanks);
    for (int64_t left = 99999998; left > 0; left -= sizeof blanks)
        fwrite(blanks, 1, left < (int64_t)sizeof blanks ? (size_t)left : sizeof blanks, file);
    fclose(file);
    sw_error err = {0};
    assert_int_equal(open_and_close(path, &err), SW_OK);
}

static void things_that_are_no_files_are_refused(void **state) {
    (void)state;
    sw_error err = {0};
    assert_int_equal(open_and_close(folder, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "is a folder"));
    assert_int_equal(open_and_close("/dev/null", &err), SW_BAD_FILE);
    assert_int_equal(open_and_close("/nowhere/x.safetensors", &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "/nowhere/x.safetensors: cannot be read: No such file"));
    if (geteuid() != 0) {
        write_file("{}", "", 0);
        assert_int_equal(chmod(path, 0), 0);
        assert_refused("Permission denied");
        assert_int_equal(chmod(path, 0600), 0);
    }
}

/* ---- writing ---- */

/* B07 d. Whatever the names' lengths, the header's is a multiple of 8, and the file reads back as
 * planned. */
static void a_planned_file_reads_back(void **state) {
    (void)state;
    for (int length = 1; length <= 16; length++) {
        char name[32] = {0}, *header;
        memset(name, 'n', (size_t)length);
        sw_tensor_plan plan[] = {
            {.name = name, .dtype = "F32", .n_dimensions = 2, .dimension = {2, 3}},
            {.name = "scalar \"\\\n\xc3\xa9", .dtype = "BF16"},
            {.name = "empty", .dtype = "F16", .n_dimensions = 3, .dimension = {3, 0, 2}},
            {.name = "last", .dtype = "F16", .n_dimensions = 1, .dimension = {5}}};
        int64_t header_bytes, file_bytes;
        sw_error err;
        assert_int_equal(
            sw_safetensors_plan(plan, 4, NULL, &header, &header_bytes, &file_bytes, &err), SW_OK);
        assert_int_equal(header_bytes % 8, 0);
        assert_int_equal(file_bytes, header_bytes + 24 + 2 + 0 + 10);
        write_parts((uint64_t)header_bytes - 8, header + 8, (size_t)header_bytes - 8,
                    "0123456789abcdefghijklmnopqrstuvwxyz", 36);
        assert_memory_equal(header, (uint64_t[]){(uint64_t)header_bytes - 8}, 8);
        free(header);
        sw_safetensors *file = open_good();
        assert_int_equal(sw_safetensors_count(file), 4);
        for (int i = 0; i < 4; i++) {
            const sw_tensor_entry *tensor = sw_safetensors_find(file, plan[i].name);
            assert_non_null(tensor);
            assert_string_equal(tensor->dtype, plan[i].dtype);
            assert_int_equal(tensor->file_offset, plan[i].file_offset);
            assert_int_equal(tensor->n_dimensions, plan[i].n_dimensions);
            for (int k = 0; k < tensor->n_dimensions; k++)
                assert_int_equal(tensor->dimension[k], plan[i].dimension[k]);
        }
        sw_safetensors_close(file);
    }
}

static void names_that_nobody_could_read_are_not_written(void **state) {
    (void)state;
    static const char *const wrong[][2] = {{"a", "__metadata__"}, {"a", "a"}, {"a", "b\xff"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sw_tensor_plan plan[] = {{.name = wrong[i][0], .dtype = "F32"},
                                 {.name = wrong[i][1], .dtype = "F32"}};
        char *header;
        int64_t header_bytes, file_bytes;
        sw_error err;
        assert_int_equal(
            sw_safetensors_plan(plan, 2, NULL, &header, &header_bytes, &file_bytes, &err),
            SW_BAD_CONFIG);
    }
    sw_tensor_plan huge = {.name = "a",
                           .dtype = "F32",
                           .n_dimensions = 2,
                           .dimension = {(int64_t)1 << 40, (int64_t)1 << 40}};
    char *header;
    int64_t header_bytes, file_bytes;
    sw_error err;
    assert_int_equal(sw_safetensors_plan(&huge, 1, NULL, &header, &header_bytes, &file_bytes, &err),
                     SW_BAD_CONFIG);
}

/* No tensors at all: metadata only, zero data bytes. */
static void an_empty_plan_is_a_valid_file(void **state) {
    (void)state;
    char *header;
    int64_t header_bytes, file_bytes;
    sw_error err;
    assert_int_equal(sw_safetensors_plan(NULL, 0, NULL, &header, &header_bytes, &file_bytes, &err),
                     SW_OK);
    assert_int_equal(header_bytes, file_bytes);
    write_parts((uint64_t)header_bytes - 8, header + 8, (size_t)header_bytes - 8, "", 0);
    free(header);
    sw_safetensors *file = open_good();
    assert_int_equal(sw_safetensors_count(file), 0);
    sw_safetensors_close(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_accepted_and_refused_as_the_verdicts_say),
        cmocka_unit_test(a_repeated_name_is_named),
        cmocka_unit_test(lengths_beyond_the_file_allocate_nothing),
        cmocka_unit_test(shapes_that_wrap_are_refused),
        cmocka_unit_test(shape_and_dtype_must_fill_the_byte_range),
        cmocka_unit_test(every_dtype_has_its_size_and_its_bytes),
        cmocka_unit_test(data_begin_right_after_the_header),
        cmocka_unit_test(unaligned_tensors_of_every_real_dtype_are_read),
        cmocka_unit_test(scalars_and_empty_tensors_lie_anywhere),
        cmocka_unit_test(names_are_any_text),
        cmocka_unit_test(a_sparse_file_beyond_4_gib_is_read_at_its_end),
        cmocka_unit_test(the_largest_header_is_accepted),
        cmocka_unit_test(things_that_are_no_files_are_refused),
        cmocka_unit_test(a_planned_file_reads_back),
        cmocka_unit_test(names_that_nobody_could_read_are_not_written),
        cmocka_unit_test(an_empty_plan_is_a_valid_file),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
