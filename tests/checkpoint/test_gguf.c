/* test_gguf.c: GGUF files in and out. The golden files are the reference writer's:
 * tests/checkpoint/gguf/make.py. */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/file.h"
#include "base/json.h"
#include "formats/gguf_write.h"
#include "formats/safetensors.h"
#include "hf/convert.h"
#include "hf/gguf_model.h"
#include "hf/gguf_tokenizer.h"
#include "support/folder.h"

#define GOLDEN SW_SOURCE_FOLDER "/tests/checkpoint/gguf/"

static char scratch[FOLDER_BYTES];

static int make_scratch(void **state) {
    (void)state;
    return folder_make(scratch) ? 0 : -1;
}

static int remove_scratch(void **state) {
    (void)state;
    return folder_remove(scratch);
}

static int clean(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s/*", scratch);
    return system(command);
}

static char *in_scratch(const char *name, char path[256]) {
    snprintf(path, 256, "%s/%s", scratch, name);
    return path;
}

static char *read_whole(const char *path, int64_t *bytes) {
    char *text;
    sw_error err = {0};
    if (sw_file_read(path, 1 << 24, &text, bytes, &err) != SW_OK)
        fail_msg("%s", err.message);
    return text;
}

/* ---- formats ---- */

static void blocks_become_what_the_reference_makes_of_them(void **state) {
    (void)state;
    int n_formats = 0;
    for (uint32_t id = 0; id < 64; id++) {
        const sw_gguf_format *format = sw_gguf_format_of(id);
        char path[512];
        int64_t n_bytes, n_value_bytes;
        if (!format || !format->unpack)
            continue;
        n_formats++;
        snprintf(path, sizeof path, GOLDEN "blocks/%s.blocks", format->name);
        char *blocks = read_whole(path, &n_bytes);
        snprintf(path, sizeof path, GOLDEN "blocks/%s.values", format->name);
        char *values = read_whole(path, &n_value_bytes);
        int64_t n_blocks = n_bytes / format->block_bytes;
        assert_int_equal(n_blocks * format->block * 4, n_value_bytes);
        for (int64_t b = 0; b < n_blocks; b++) {
            float out[256];
            format->unpack((const uint8_t *)blocks + b * format->block_bytes, out);
            if (memcmp(out, values + 4 * b * format->block, 4 * (size_t)format->block) != 0)
                fail_msg("block %" PRId64 " of %s differs", b, format->name);
        }
        free(blocks);
        free(values);
    }
    assert_int_equal(n_formats, 10);
}

/* Whatever range is asked for, across blocks and inside one, its elements are those of the
 * whole. */
static void any_range_of_a_tensor_is_read(void **state) {
    (void)state;
    sw_gguf file;
    sw_error err = {0};
    if (sw_gguf_open(GOLDEN "tiny-gpt2.gguf", &file, &err) != SW_OK)
        fail_msg("%s", err.message);
    for (int t = 0; t < file.n_tensors; t++) {
        const sw_gguf_tensor *tensor = &file.tensors[t];
        float *whole = malloc(4 * (size_t)tensor->n_elements), part[700];
        assert_non_null(whole);
        assert_int_equal(sw_gguf_read(&file, tensor, 0, tensor->n_elements, whole, &err), SW_OK);
        static const int64_t firsts[] = {0, 1, 31, 33, 255, 256, 300},
                             lengths[] = {0, 1, 5, 32, 64, 257, 700};
        for (int i = 0; i < 7; i++)
            for (int k = 0; k < 7; k++)
                if (firsts[i] + lengths[k] <= tensor->n_elements) {
                    assert_int_equal(sw_gguf_read(&file, tensor, firsts[i], lengths[k], part, &err),
                                     SW_OK);
                    assert_memory_equal(part, whole + firsts[i], 4 * (size_t)lengths[k]);
                }
        assert_int_equal(sw_gguf_read(&file, tensor, tensor->n_elements, 1, part, &err), SW_BUG);
        free(whole);
    }
    sw_gguf_close(&file);
}

/* ---- import ---- */

static void hash_tensor(sw_safetensors *file, const sw_tensor_entry *tensor, char text[32]) {
    sw_error err = {0};
    unsigned char *bytes = malloc((size_t)tensor->n_bytes);
    uint64_t hash = 0xCBF29CE484222325u;
    assert_non_null(bytes);
    assert_int_equal(sw_safetensors_read_bytes(file, tensor, 0, tensor->n_bytes, bytes, &err),
                     SW_OK);
    for (int64_t i = 0; i < tensor->n_bytes; i++)
        hash = (hash ^ bytes[i]) * 0x100000001B3u;
    snprintf(text, 32, "%016" PRIx64, hash);
    free(bytes);
}

static void import(const char *from, const char *to, sw_dtype dtype) {
    sw_error err = {0};
    if (sw_checkpoint_import(from, to, dtype, 0, &err) != SW_OK)
        fail_msg("%s", err.message);
}

/* Dequantised, renamed, and with the rotary permutation of q and k undone. */
static void tensors_are_those_of_the_reference(void **state) {
    (void)state;
    static const char *const names[] = {"tiny-gpt2", "tiny-llama"};
    for (int i = 0; i < 2; i++) {
        char gguf[512], expected[512], folder[256], weights[512], found[32];
        snprintf(gguf, sizeof gguf, GOLDEN "%s.gguf", names[i]);
        snprintf(expected, sizeof expected, GOLDEN "%s.json", names[i]);
        import(gguf, in_scratch(names[i], folder), SW_F32);
        snprintf(weights, sizeof weights, "%s/model.safetensors", folder);
        sw_safetensors *file;
        sw_json *document;
        sw_error err = {0};
        assert_int_equal(sw_safetensors_open(weights, &file, &err), SW_OK);
        assert_int_equal(sw_json_read(expected, 1 << 20, &document, &err), SW_OK);
        sw_json_object root = sw_json_root(document);
        void *at = NULL;
        int n = 0;
        for (const char *name; (name = sw_json_next_key(&root, &at)); n++) {
            const char *hash;
            const sw_tensor_entry *tensor = sw_safetensors_find(file, name);
            assert_non_null(tensor);
            assert_int_equal(sw_json_text(&root, name, SW_JSON_REQUIRED, &hash, &err), SW_OK);
            hash_tensor(file, tensor, found);
            if (strcmp(found, hash) != 0)
                fail_msg("%s: %s differs", names[i], name);
        }
        assert_int_equal(sw_safetensors_count(file), n);
        sw_json_free(document);
        sw_safetensors_close(file);
        sw_model_config config;
        if (sw_model_config_read(folder, &config, &err) != SW_OK)
            fail_msg("%s", err.message);
        assert_int_equal(config.hidden, 32);
        assert_int_equal(config.head_channels, 8);
        assert_int_equal(config.kv_heads, 2);
        assert_int_equal(config.vocabulary, i ? 273 : 300);
        assert_int_equal(config.tied, !i);
        assert_int_equal(config.bos_token, 1);
        assert_int_equal(config.eos_token, 2);
        assert_true(config.norm_epsilon == (double)1e-5f);
    }
}

static json_t *read_json(const char *folder, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    json_t *root = json_load_file(path, 0, NULL);
    if (!root)
        fail_msg("%s is not JSON", path);
    return root;
}

static void assert_json(const json_t *value, const char *expected) {
    json_t *other = json_loads(expected, JSON_DECODE_ANY, NULL);
    assert_non_null(other);
    char *dumped = json_dumps(value, JSON_ENCODE_ANY);
    if (!json_equal(value, other))
        fail_msg("expected %s, got %s", expected, dumped ? dumped : "nothing");
    free(dumped);
    json_decref(other);
}

static void a_byte_level_tokenizer_is_taken_from_the_file(void **state) {
    (void)state;
    char folder[256];
    import(GOLDEN "tiny-gpt2.gguf", in_scratch("model", folder), SW_BF16);
    json_t *root = read_json(folder, "tokenizer.json"), *model = json_object_get(root, "model");
    assert_json(json_object_get(root, "pre_tokenizer"),
                "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_"
                "digits\":true},{\"type\":\"ByteLevel\","
                "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}]}");
    assert_json(json_object_get(root, "normalizer"), "null");
    assert_json(json_object_get(root, "post_processor"), "null");
    assert_json(json_object_get(model, "merges"),
                "[[\"h\",\"e\"],[\"l\",\"l\"],[\"he\",\"ll\"],[\"hell\",\"o\"],[\"\\u0120\",\"w\"],"
                "[\"o\",\"r\"],[\"\\u0120w\",\"or\"],"
                "[\"1\",\"2\"]]");
    json_t *added = json_object_get(root, "added_tokens");
    assert_int_equal(json_array_size(added), 4);
    assert_json(json_array_get(added, 2),
                "{\"id\":2,\"content\":\"<|im_end|>\",\"single_word\":false,\"lstrip\":false,"
                "\"rstrip\":false,\"normalized\":false,"
                "\"special\":true}");
    assert_json(json_object_get(json_array_get(added, 3), "special"), "false");
    json_t *vocabulary = json_object_get(model, "vocab");
    assert_int_equal(json_object_size(vocabulary), 3 + 256 + 8 + 1); /* without the fillers */
    assert_int_equal(json_integer_value(json_object_get(vocabulary, "hello")), 3 + 256 + 3);
    assert_int_equal(json_integer_value(json_object_get(vocabulary, "!")), 3);
    json_decref(root);
    root = read_json(folder, "tokenizer_config.json");
    assert_json(json_object_get(root, "eos_token"), "\"<|im_end|>\"");
    assert_json(json_object_get(root, "bos_token"), "\"<|im_start|>\"");
    json_decref(root);
    root = read_json(folder, "generation_config.json");
    assert_json(json_object_get(root, "eos_token_id"), "2");
    json_decref(root);
    char path[512];
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    char *text = read_whole(path, NULL);
    assert_string_equal(text, "{% for message in messages %}{{ message['content'] }}{% endfor %}");
    free(text);
}

/* Scores become merges: the later a piece was made the later it is made again, each in every way
 * that its parts are pieces. */
static void sentence_piece_scores_become_merges(void **state) {
    (void)state;
    char folder[256];
    import(GOLDEN "tiny-llama.gguf", in_scratch("model", folder), SW_F16);
    json_t *root = read_json(folder, "tokenizer.json"), *model = json_object_get(root, "model");
    assert_json(json_object_get(model, "merges"),
                "[[\"h\",\"e\"],[\"l\",\"l\"],[\"\\u2581\",\"he\"],[\"ll\",\"o\"],[\"he\",\"llo\"],"
                "[\"\\u2581he\",\"llo\"],[\"\\u2581\",\"hello\"],[\"\\u2581\",\"w\"]]");
    assert_json(json_object_get(model, "byte_fallback"), "true");
    assert_json(json_object_get(model, "unk_token"), "\"<unk>\"");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(model, "vocab"), "<0x0A>")),
                     3 + 10);
    assert_json(json_object_get(root, "normalizer"),
                "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
                "\"\\u2581\"},{\"type\":\"Replace\","
                "\"pattern\":{\"String\":\" \"},\"content\":\"\\u2581\"}]}");
    assert_json(json_object_get(json_object_get(root, "post_processor"), "single"),
                "[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\","
                "\"type_id\":0}}]");
    json_decref(root);
}

/* The divisors that Llama 3.1 files hold are turned back into the four numbers that they were made
 * of; others are refused. */
static void rotary_divisors_become_a_setting(void **state) {
    (void)state;
    sw_gguf file;
    sw_error err = {0};
    char *text = NULL, path[256];
    int64_t size;
    if (sw_gguf_open(GOLDEN "rope-llama3.gguf", &file, &err) != SW_OK ||
        sw_gguf_config(&file, SW_BF16, &text, &err) != SW_OK)
        fail_msg("%s", err.message);
    json_t *config = json_loads(text, 0, NULL);
    assert_json(json_object_get(config, "rope_parameters"),
                "{\"rope_theta\":500000.0,\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_"
                "factor\":1.0,\"high_freq_factor\":4.0,"
                "\"original_max_position_embeddings\":8192}");
    json_decref(config);
    free(text);
    int64_t at = sw_gguf_find_tensor(&file, "rope_freqs.weight")->file_offset;
    sw_gguf_close(&file);
    char *data = read_whole(GOLDEN "rope-llama3.gguf", &size);
    float wrong = 1.5f;
    memcpy(data + at + 4 * 3, &wrong, sizeof wrong);
    assert_int_equal(sw_file_write(in_scratch("x.gguf", path), data, size, &err), SW_OK);
    free(data);
    assert_int_equal(sw_gguf_open(path, &file, &err), SW_OK);
    assert_int_equal(sw_gguf_config(&file, SW_BF16, &text, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "in another way than Llama 3"));
    sw_gguf_close(&file);
}

/* A file of settings, with one tensor of [10, 16] zeros: what a model needs, and up to two more
 * (NULL: none). */
typedef struct setting {
    const char *name; /* behind "ARCHITECTURE." */
    sw_gguf_type type;
    double number;
    const char *text;
} setting;

static void write_settings(const char *path, const char *architecture, const setting *more,
                           int n_more) {
    static const setting needed[] = {{"block_count", SW_GGUF_U32, 1},
                                     {"context_length", SW_GGUF_U32, 64},
                                     {"embedding_length", SW_GGUF_U32, 16},
                                     {"feed_forward_length", SW_GGUF_U32, 8},
                                     {"attention.head_count", SW_GGUF_U32, 2},
                                     {"attention.layer_norm_rms_epsilon", SW_GGUF_F32, 1e-5}};
    char *values = NULL;
    size_t n_bytes = 0;
    sw_gguf_writer w = {.out = open_memstream(&values, &n_bytes)};
    sw_gguf_write_text(&w, "general.architecture", architecture);
    for (int i = 0; i < 6 + n_more; i++) {
        const setting *of = i < 6 ? &needed[i] : &more[i - 6];
        char key[128];
        snprintf(key, sizeof key, "%s.%s", architecture, of->name);
        if (!of->name)
            continue;
        if (of->type == SW_GGUF_U32)
            sw_gguf_write_integer(&w, key, (uint32_t)of->number);
        else if (of->type == SW_GGUF_F32)
            sw_gguf_write_real(&w, key, (float)of->number);
        else if (of->type == SW_GGUF_BOOL)
            sw_gguf_write_bool(&w, key, of->number != 0);
        else
            sw_gguf_write_text(&w, key, of->text);
    }
    fclose(w.out);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fwrite("GGUF", 4, 1, file);
    sw_gguf_put_32(file, 3);
    sw_gguf_put_64(file, 1);
    sw_gguf_put_64(file, w.n_values);
    fwrite(values, n_bytes, 1, file);
    sw_gguf_put_text(file, "token_embd.weight");
    sw_gguf_put_32(file, 2);
    sw_gguf_put_64(file, 16);
    sw_gguf_put_64(file, 10);
    sw_gguf_put_32(file, 0);
    sw_gguf_put_64(file, 0);
    while (ftell(file) % 32)
        fputc(0, file);
    for (int i = 0; i < 160; i++)
        sw_gguf_put_32(file, 0);
    assert_int_equal(fclose(file), 0);
    free(values);
}

/* Every setting that is known is read into config.json, refused by name and value where it asks for
 * what is not built, or says nothing: then config.json is what it is without it. */
static void settings_are_read_refused_or_without_effect(void **state) {
    (void)state;
    static const struct {
        setting one, other;
        const char *words;       /* of the refusal, or ... */
        const char *key, *value; /* ... in config.json; NULL: nothing changes */
    } cases[] = {
        {{"attention.causal", SW_GGUF_BOOL, 0}, {0}, NULL, "is_causal", "false"},
        {{"attention.causal", SW_GGUF_BOOL, 1}, {0}, NULL, NULL, NULL},
        {{"attention.causal", SW_GGUF_U32, 0}, {0}, "attention.causal", NULL, NULL},
        {{"attention.head_count_kv", SW_GGUF_U32, 1}, {0}, NULL, "num_key_value_heads", "1"},
        {{"attention.key_length", SW_GGUF_U32, 6},
         {"attention.value_length", SW_GGUF_U32, 6},
         NULL,
         "head_dim",
         "6"},
        {{"attention.key_length", SW_GGUF_U32, 6},
         {"attention.value_length", SW_GGUF_U32, 4},
         "value_length differs",
         NULL,
         NULL},
        {{"attention.value_length", SW_GGUF_U32, 4}, {0}, "value_length differs", NULL, NULL},
        {{"attention.sliding_window", SW_GGUF_U32, 4096},
         {0},
         "attention.sliding_window is not 0",
         NULL,
         NULL},
        {{"attention.sliding_window", SW_GGUF_U32, 0}, {0}, NULL, NULL, NULL},
        {{"rope.dimension_count", SW_GGUF_U32, 4},
         {"attention.key_length", SW_GGUF_U32, 8},
         "rope.dimension_count",
         NULL,
         NULL},
        {{"rope.dimension_count", SW_GGUF_U32, 8}, {0}, NULL, NULL, NULL},
        {{"rope.freq_base", SW_GGUF_F32, 500}, {0}, NULL, "rope_theta", "500.0"},
        {{"rope.scaling.type", SW_GGUF_TEXT, 0, "none"},
         {"rope.scaling.factor", SW_GGUF_F32, 4},
         NULL,
         NULL,
         NULL},
        {{"rope.scaling.type", SW_GGUF_TEXT, 0, "longrope"},
         {"rope.scaling.factor", SW_GGUF_F32, 4},
         "rope.scaling.type",
         NULL,
         NULL},
        {{"rope.scaling.type", SW_GGUF_TEXT, 0, "yarn"},
         {"rope.scaling.factor", SW_GGUF_F32, 4},
         "rope.scaling.type",
         NULL,
         NULL},
        {{"rope.scaling.factor", SW_GGUF_F32, 4},
         {0},
         NULL,
         "rope_parameters",
         "{\"rope_theta\":10000.0,\"rope_type\":\"linear\",\"factor\":4.0}"},
        {{"rope.scale_linear", SW_GGUF_F32, 2},
         {0},
         NULL,
         "rope_parameters",
         "{\"rope_theta\":10000.0,\"rope_type\":\"linear\",\"factor\":2.0}"},
        {{"rope.scaling.factor", SW_GGUF_F32, 0}, {0}, NULL, NULL, NULL},
        {{"rope.scaling.original_context_length", SW_GGUF_U32, 32}, {0}, NULL, NULL, NULL},
        {{"rope.scaling.finetuned", SW_GGUF_BOOL, 1}, {0}, NULL, NULL, NULL},
        {{"vocab_size", SW_GGUF_U32, 12}, {0}, NULL, NULL, NULL},
        {{"expert_count", SW_GGUF_U32, 8},
         {"expert_used_count", SW_GGUF_U32, 2},
         "expert_count is not 0",
         NULL,
         NULL},
        {{"expert_count", SW_GGUF_U32, 0}, {"expert_used_count", SW_GGUF_U32, 0}, NULL, NULL, NULL},
        {{"tensor_data_layout", SW_GGUF_TEXT, 0, "Meta AI original pth"}, {0}, NULL, NULL, NULL},
        {{"tensor_data_layout", SW_GGUF_TEXT, 0, "turned"},
         {0},
         "tensor_data_layout is not",
         NULL,
         NULL},
        {{"logit_scale", SW_GGUF_F32, 2},
         {0},
         "logit_scale is a setting that shardwise does not know",
         NULL,
         NULL},
        {{"attention.clamp_kqv", SW_GGUF_F32, 8},
         {0},
         "attention.clamp_kqv is a setting that shardwise does not know",
         NULL,
         NULL},
    };
    static const char *const architectures[] = {"llama", "qwen2", "qwen3"};
    for (size_t a = 0; a < 3; a++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            char path[256], *text[2] = {NULL, NULL};
            sw_error err = {0};
            sw_status status = SW_OK;
            for (int with = 0; with < 2; with++) {
                sw_gguf file;
                const setting more[] = {cases[i].one, cases[i].other};
                write_settings(in_scratch("settings.gguf", path), architectures[a], more,
                               with ? 2 : 0);
                assert_int_equal(sw_gguf_open(path, &file, &err), SW_OK);
                status = sw_gguf_config(&file, SW_F32, &text[with], &err);
                sw_gguf_close(&file);
            }
            if (cases[i].words) {
                if (status != SW_BAD_FILE || !strstr(err.message, cases[i].words))
                    fail_msg("%s.%s: expected \"%s\", got \"%s\"", architectures[a],
                             cases[i].one.name, cases[i].words, status ? err.message : text[1]);
            } else {
                if (status)
                    fail_msg("%s.%s: %s", architectures[a], cases[i].one.name, err.message);
                json_t *root = json_loads(text[1], 0, NULL);
                if (cases[i].key)
                    assert_json(json_object_get(root, cases[i].key), cases[i].value);
                else
                    assert_string_equal(text[0], text[1]);
                json_decref(root);
            }
            free(text[0]);
            free(text[1]);
        }
}

/* ---- export ---- */

static void assert_same_file(const char *a, const char *b, const char *name) {
    char path[512];
    int64_t a_bytes, b_bytes;
    snprintf(path, sizeof path, "%s/%s", a, name);
    char *x = read_whole(path, &a_bytes);
    snprintf(path, sizeof path, "%s/%s", b, name);
    char *y = read_whole(path, &b_bytes);
    if (a_bytes != b_bytes || memcmp(x, y, (size_t)a_bytes) != 0)
        fail_msg("%s differs", name);
    free(x);
    free(y);
}

/* A model whose tokens see those after them stays one, there and back. */
static void the_mask_is_exported_too(void **state) {
    (void)state;
    char first[256], file[256], second[256], path[512];
    sw_error err = {0};
    import(GOLDEN "tiny-llama.gguf", in_scratch("first", first), SW_F32);
    json_t *config = read_json(first, "config.json");
    json_object_set_new(config, "is_causal", json_false());
    snprintf(path, sizeof path, "%s/config.json", first);
    assert_int_equal(json_dump_file(config, path, 0), 0);
    json_decref(config);
    if (sw_checkpoint_export_gguf(first, in_scratch("out.gguf", file), SW_F32, true, &err) != SW_OK)
        fail_msg("%s", err.message);
    import(file, in_scratch("second", second), SW_F32);
    sw_model_config back;
    assert_int_equal(sw_model_config_read(second, &back, &err), SW_OK);
    assert_int_equal(back.mask, SW_MASK_FULL);
}

static void what_is_exported_is_imported_again_to_the_bit(void **state) {
    (void)state;
    static const sw_dtype dtypes[] = {SW_F32, SW_F16, SW_BF16};
    static const char *const names[] = {"tiny-gpt2", "tiny-llama"};
    for (int i = 0; i < 6; i++) {
        char gguf[512], first[256], file[256], second[256];
        sw_error err = {0};
        snprintf(gguf, sizeof gguf, GOLDEN "%s.gguf", names[i % 2]);
        import(gguf, in_scratch("first", first), dtypes[i / 2]);
        if (sw_checkpoint_export_gguf(first, in_scratch("out.gguf", file), dtypes[i / 2], true,
                                      &err) != SW_OK)
            fail_msg("%s", err.message);
        assert_false(sw_file_exists(in_scratch("out.gguf.partial", second)));
        import(file, in_scratch("second", second), dtypes[i / 2]);
        assert_same_file(first, second, "model.safetensors");
        assert_same_file(first, second, "config.json");
        assert_same_file(first, second, "tokenizer.json");
        assert_same_file(first, second, "tokenizer_config.json");
        assert_same_file(first, second, "generation_config.json");
        if (i % 2 == 0)
            assert_same_file(first, second, "chat_template.jinja");
        assert_int_equal(sw_checkpoint_export_gguf(first, file, SW_F32, true, &err), SW_BAD_CONFIG);
        assert_non_null(strstr(err.message, "exists already"));
        assert_int_equal(sw_checkpoint_import(gguf, first, SW_F32, 0, &err), SW_BAD_CONFIG);
        assert_non_null(strstr(err.message, "exists already"));
        clean(NULL);
    }
}

static void put_file(const char *folder, const char *name, const char *text) {
    char path[512];
    sw_error err = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(sw_file_write(path, text, (int64_t)strlen(text), &err), SW_OK);
}

/* A tokenizer that GGUF has no name for is refused, unless it is left out; without one nothing is
 * said about tokens. */
static void a_tokenizer_without_a_name_is_refused(void **state) {
    (void)state;
    char folder[256], file[256], again[256];
    sw_error err = {0};
    import(GOLDEN "tiny-gpt2.gguf", in_scratch("model", folder), SW_F32);
    put_file(folder, "tokenizer.json",
             "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},\"pre_tokenizer\":null}");
    assert_int_equal(
        sw_checkpoint_export_gguf(folder, in_scratch("out.gguf", file), SW_F32, true, &err),
        SW_BAD_FILE);
    assert_non_null(strstr(err.message, "--no-tokenizer"));
    put_file(folder, "tokenizer.json", "{\"model\":{\"type\":\"WordPiece\"}}");
    assert_int_equal(sw_checkpoint_export_gguf(folder, file, SW_F32, true, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "no BPE"));
    assert_false(sw_file_exists(file));
    assert_int_equal(sw_checkpoint_export_gguf(folder, file, SW_F32, false, &err), SW_OK);
    import(file, in_scratch("again", again), SW_F32);
    assert_same_file(folder, again, "model.safetensors");
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizer.json", again);
    assert_false(sw_file_exists(path));
}

/* ---- a folder in another dtype ---- */

static void a_folder_is_written_in_another_dtype_and_split(void **state) {
    (void)state;
    char first[256], second[256], third[256];
    sw_error err = {0};
    import(GOLDEN "tiny-gpt2.gguf", in_scratch("first", first), SW_BF16);
    put_file(first, "merges.txt", "carried along");
    if (sw_checkpoint_import(first, in_scratch("second", second), SW_F32, 10000, &err) != SW_OK)
        fail_msg("%s", err.message);
    assert_same_file(first, second, "tokenizer.json");
    assert_same_file(first, second, "merges.txt");
    json_t *config = read_json(second, "config.json");
    assert_json(json_object_get(config, "torch_dtype"), "\"float32\"");
    json_decref(config);
    char path[512];
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", second);
    assert_true(sw_file_exists(path));
    import(second, in_scratch("third", third), SW_BF16);
    assert_same_file(first, third, "model.safetensors");
}

/* ---- what is refused ---- */

/* tiny-gpt2.gguf with bytes replaced behind the first occurrence of `find` (NULL: from the start),
 * as a file. */
static void write_changed(const char *path, const char *find, int64_t skip, const void *bytes,
                          size_t n) {
    int64_t size;
    sw_error err = {0};
    char *data = read_whole(GOLDEN "tiny-gpt2.gguf", &size), *at = data;
    if (find) {
        at = memmem(data, (size_t)size, find, strlen(find));
        assert_non_null(at);
        at += strlen(find);
    }
    memcpy(at + skip, bytes, n);
    assert_int_equal(sw_file_write(path, data, size, &err), SW_OK);
    free(data);
}

static void wrong_files_are_refused_with_the_reason(void **state) {
    (void)state;
    static const char huge[] = "\0\0\0\0\0\0\0\x40", larger[] = "\0\0\0\0\0\0\0\x20";
    static const struct {
        const char *find;
        int64_t skip;
        const char *bytes;
        size_t n;
        const char *words;
    } changes[] = {
        {NULL, 0, "GGUX", 4, "does not begin with GGUF"},
        {NULL, 4, "\1\0\0\0", 4, "version 1; versions 2 and 3"},
        {NULL, 4, "\4\0\0\0", 4, "version 4"},
        {NULL, 4, "\0\0\0\3", 4, "big-endian"},
        {NULL, 8, huge, 8, "than the file has room for"},
        {NULL, 16, huge, 8, "than the file has room for"},
        {NULL, 16, "\1\0\0\0\0\0\0\0", 8, "byte"},
        {NULL, 24, huge, 8, "beyond the end of the file"},
        {"general.architecture", 0, "\x63", 1,
         "\"general.architecture\": has a value of an unknown type"},
        {"general.architecture", 4, huge, 8, "\"general.architecture\": goes on beyond the end"},
        {"general.architecture", 12, "lamma", 5, "\"lamma\" is not read"},
        {"general.architecture", 0, "\x04", 1, "byte"},
        {"llama.block_count", 4, "\2", 1, "model.layers.1.input_layernorm.weight is missing"},
        {"llama.block_count", 4, "\0", 1, "num_hidden_layers"},
        {"llama.embedding_length", 4, "\x40", 1, "does not have the shape of"},
        {"llama.block_count", 0, "\6", 1, "llama.block_count is a fraction, an integer is needed"},
        {"llama.rope.freq_bas", 0, "f", 1,
         "llama.rope.freq_basf is a setting that shardwise does not know"},
        {"llama.rope.freq_base", 4, "\0\0\xc0\x7f", 4,
         "llama.rope.freq_base is not a finite number"},
        {"llama.rope.dimension_count", 4, "\4", 1, "q_proj"},
        {"tokenizer.ggml.tokens", 4, "\x09", 1, "is a list of lists"},
        {"tokenizer.ggml.tokens", 4, "\x20", 1, "is a list of an unknown type"},
        {"tokenizer.ggml.tokens", 8, larger, 8, "than a file can have"},
        {"tokenizer.ggml.tokens", 8, "\0\0\0\0\0\1\0\0", 8, "beyond the end of the file"},
        {"tokenizer.ggml.model", 12, "gpt3", 4, "tokenizer.ggml.model \"gpt3\" is not read"},
        {"tokenizer.ggml.pre", 12, "smollx", 6,
         "\"smollx\" is a pre-tokenizer that shardwise does not know"},
        {"tokenizer.ggml.bos_token_id", 4, "\xff\xff\0\0", 4, "is 65535, there are 300 tokens"},
        {"tokenizer.ggml.merges", 24, "h q", 3, "merge 0 joins or makes what is no token"},
        {"tokenizer.ggml.merges", 24, "hhe", 3, "merge 0 is no pair"},
        {"[PAD299", -1, "8", 1, "tokens 298 and 299 are both \"[PAD298]\""},
        {"[PAD299", -1, "\xff", 1, "token 299 is no UTF-8"},
        {"[PAD299", -1, "\0", 1, "token 299 is no UTF-8"},
        {"tokenizer.ggml.bos", -3, "e", 1, "\"tokenizer.ggml.eos_token_id\" is there twice"},
        {"tokenizer.ggml.add_bos_token", 4, "\2", 1, "neither true nor false"},
        {"tokenizer.ggml.add_bos_token", -1, "\xff", 1, "not UTF-8"},
        {"blk.0.attn_q.weight", 0, "\5", 1, "\"blk.0.attn_q.weight\": has more than 4 dimensions"},
        {"blk.0.attn_q.weight", 4, huge, 8, "more elements than 63 bits"},
        {"blk.0.attn_q.weight", 4, "\x21", 1, "no whole blocks of Q5_0 (32)"},
        {"blk.0.attn_q.weight", 20, "\xc8", 1, "element format 200 is unknown"},
        {"blk.0.ffn_down.weight", 20, "\x0d", 1, "is in format Q5_K; F32, F16"},
        {"blk.0.attn_q.weight", 24, "\1", 1, "no multiple of 32"},
        {"blk.0.attn_q.weight", 24, huge, 8, "beyond the end of the file"},
        {"blk.0.attn_q.weight", 24, "\0\0\0\0\0\0\0\x80", 8, "beyond the end of the file"},
        {"blk.0.attn_v.weight", 24, "\0\0\0\0\0\0\0\0", 8, "claim the same bytes"},
        {"blk.0.attn_q.weight", -8, "x", 1, "of model.layers.0.self_attn.q_proj.weight is missing"},
        {"blk.0.attn_q.weight", -8, "k", 1, "\"blk.0.attn_k.weight\" is there twice"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char path[256], folder[256], partial[256];
        sw_error err = {0};
        write_changed(in_scratch("x.gguf", path), changes[i].find, changes[i].skip,
                      changes[i].bytes, changes[i].n);
        sw_status status = sw_checkpoint_import(path, in_scratch("model", folder), SW_F32, 0, &err);
        if (status != SW_BAD_FILE || !strstr(err.message, changes[i].words) ||
            !strstr(err.message, path))
            fail_msg("change %zu: expected \"%s\", got %s: %s", i, changes[i].words,
                     sw_status_name(status), err.message);
        assert_false(sw_file_exists(folder));
        assert_false(sw_file_exists(in_scratch("model.partial", partial)));
    }
}

/* Cut anywhere, a file is refused; and a header of which only a part was read says that there is
 * more. */
static void a_cut_file_is_refused_wherever_it_is_cut(void **state) {
    (void)state;
    int64_t size;
    char *data = read_whole(GOLDEN "tiny-gpt2.gguf", &size), path[256], folder[256];
    sw_gguf file;
    sw_error err = {0};
    bool is_cut;
    assert_int_equal(sw_gguf_parse("x", (uint8_t *)data, size, size, &file, &is_cut, &err), SW_OK);
    int64_t header = file.data_offset;
    sw_gguf_close(&file);
    for (int64_t n = 0; n < header - 64; n++) {
        uint8_t *part = malloc((size_t)n + 1); /* so that a sanitizer sees what is read behind it */
        assert_non_null(part);
        memcpy(part, data, (size_t)n);
        assert_int_equal(sw_gguf_parse("x", part, n, n, &file, &is_cut, &err), SW_BAD_FILE);
        assert_false(is_cut);
        sw_gguf_close(&file);
        assert_int_equal(sw_gguf_parse("x", part, n, size, &file, &is_cut, &err), SW_BAD_FILE);
        assert_true(is_cut);
        sw_gguf_close(&file);
        free(part);
    }
    for (int64_t n = size - 64; n < size; n += 9) {
        assert_int_equal(sw_file_write(in_scratch("x.gguf", path), data, n, &err), SW_OK);
        if (sw_checkpoint_import(path, in_scratch("model", folder), SW_F32, 0, &err) != SW_OK)
            assert_non_null(strstr(err.message, "is the download complete?"));
        else
            clean(NULL); /* only the filling behind the last tensor is gone */
    }
    free(data);
}

/* No byte of the header can make the reader crash; what it accepts lies in the file. */
static void any_byte_may_be_wrong(void **state) {
    (void)state;
    int64_t size;
    char *data = read_whole(GOLDEN "tiny-llama.gguf", &size);
    static const unsigned char masks[] = {0xff, 0x01, 0x80};
    for (int64_t i = 0; i < 12000 && i < size; i++) {
        sw_gguf file;
        sw_error err = {0};
        bool is_cut;
        data[i] = (char)((unsigned char)data[i] ^ masks[i % 3]);
        if (sw_gguf_parse("x", (uint8_t *)data, size, size, &file, &is_cut, &err) == SW_OK) {
            sw_gguf_tokenizer_files texts;
            char *config = NULL;
            for (int t = 0; t < file.n_tensors; t++)
                assert_in_range(file.tensors[t].file_offset + file.tensors[t].n_bytes, 0, size);
            (void)sw_gguf_config(&file, SW_F32, &config, &err);
            (void)sw_gguf_tokenizer(&file, &texts, &err);
            sw_gguf_tokenizer_files_free(&texts);
            free(config);
        }
        sw_gguf_close(&file);
        data[i] = (char)((unsigned char)data[i] ^ masks[i % 3]);
    }
    free(data);
}

/* The folder is whole or not there, the file too. */
static void a_full_disk_leaves_nothing(void **state) {
    (void)state;
    char folder[256], partial[256], model[256], file[256];
    sw_error err = {0};
    import(GOLDEN "tiny-gpt2.gguf", in_scratch("model", model), SW_F32);
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){20000, before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    sw_status imported =
        sw_checkpoint_import(GOLDEN "tiny-gpt2.gguf", in_scratch("new", folder), SW_F32, 0, &err);
    sw_status exported =
        sw_checkpoint_export_gguf(model, in_scratch("new.gguf", file), SW_F32, true, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    assert_int_equal(imported, SW_NO_SPACE);
    assert_int_equal(exported, SW_NO_SPACE);
    assert_false(sw_file_exists(folder));
    assert_false(sw_file_exists(in_scratch("new.partial", partial)));
    assert_false(sw_file_exists(file));
    assert_false(sw_file_exists(in_scratch("new.gguf.partial", partial)));
    assert_true(sw_file_exists(model));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_become_what_the_reference_makes_of_them),
        cmocka_unit_test(any_range_of_a_tensor_is_read),
        cmocka_unit_test_teardown(tensors_are_those_of_the_reference, clean),
        cmocka_unit_test_teardown(a_byte_level_tokenizer_is_taken_from_the_file, clean),
        cmocka_unit_test_teardown(sentence_piece_scores_become_merges, clean),
        cmocka_unit_test_teardown(rotary_divisors_become_a_setting, clean),
        cmocka_unit_test_teardown(settings_are_read_refused_or_without_effect, clean),
        cmocka_unit_test_teardown(the_mask_is_exported_too, clean),
        cmocka_unit_test_teardown(what_is_exported_is_imported_again_to_the_bit, clean),
        cmocka_unit_test_teardown(a_tokenizer_without_a_name_is_refused, clean),
        cmocka_unit_test_teardown(a_folder_is_written_in_another_dtype_and_split, clean),
        cmocka_unit_test_teardown(wrong_files_are_refused_with_the_reason, clean),
        cmocka_unit_test_teardown(a_cut_file_is_refused_wherever_it_is_cut, clean),
        cmocka_unit_test(any_byte_may_be_wrong),
        cmocka_unit_test_teardown(a_full_disk_leaves_nothing, clean),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
