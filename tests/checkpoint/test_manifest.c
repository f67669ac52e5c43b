/* test_manifest.c: a manifest comes back as it was written; any byte of it that changes is noticed;
 * what it says is checked. */
#include "checkpoint/saved_run.h"

#include "checkpoint/manifest_format.h"

/* A manifest with something of everything. Ownership: free. */
static char *make_text(int64_t *bytes) {
    static const sw_setting_text settings[] = {{"a", "1"}, {"b\"", "\\"}};
    static const sw_state_parameter parameters[] = {{"w", 2, {3, 5}, 15, true},
                                                    {"é", 0, {0}, 1, false}};
    static sw_file_range master[] = {{0, 16, 7}, {16, 64, UINT64_MAX}}, moment[] = {{0, 76, 0}};
    sw_manifest m = {.step = 12,
                     .validation_loss = 0.1,
                     .state = "{\"k\": [1, 2.5], \"t\": \"x\"}",
                     .model_config = "{\n}",
                     .n_settings = 2,
                     .n_parameters = 2,
                     .setting = settings,
                     .parameter = parameters};
    m.file[SW_STATE_MASTER] = (sw_manifest_file){true, 80, 2, master};
    m.file[SW_STATE_MOMENTUM] = (sw_manifest_file){true, 76, 1, moment};
    int64_t room = sw_manifest_write(&m, NULL, 0);
    char *text = malloc((size_t)room);
    *bytes = sw_manifest_write(&m, text, room);
    assert_true(*bytes <= room);
    return text;
}

static void it_comes_back(void **state) {
    (void)state;
    int64_t bytes;
    char *text = make_text(&bytes);
    sw_manifest m;
    sw_error err;
    if (sw_manifest_parse("manifest.json", text, bytes, &m, &err) != SW_OK)
        fail_msg("%s", err.message);
    assert_int_equal(m.step, 12);
    assert_true(m.validation_loss == 0.1);
    assert_string_equal(m.state, "{\"k\": [1, 2.5], \"t\": \"x\"}");
    assert_string_equal(m.model_config, "{\n}");
    assert_string_equal(m.setting[1].key, "b\"");
    assert_string_equal(m.setting[1].value, "\\");
    assert_string_equal(m.parameter[1].name, "é");
    assert_int_equal(m.parameter[0].n_elements, 15);
    assert_true(m.parameter[0].is_trainable && !m.parameter[1].is_trainable);
    assert_int_equal(m.parameter[1].n_dimensions, 0);
    assert_int_equal(m.parameter[1].n_elements, 1);
    assert_int_equal(m.file[SW_STATE_MASTER].n_ranges, 2);
    assert_int_equal(m.file[SW_STATE_MASTER].range[1].offset, 16);
    assert_true(m.file[SW_STATE_MASTER].range[1].checksum == UINT64_MAX);
    assert_true(m.file[SW_STATE_MOMENTUM].is_there && !m.file[SW_STATE_FIRST_MOMENT].is_there);
    sw_manifest_free(&m);
    free(text);
}

/* Every byte, every value it can take instead; cut at every length; anything added. */
static void every_change_is_noticed(void **state) {
    (void)state;
    int64_t bytes;
    char *text = make_text(&bytes), *longer = malloc((size_t)bytes + 1);
    sw_manifest m;
    sw_error err;
    for (int64_t i = 0; i < bytes; i++) {
        char was = text[i];
        for (int value = 1; value < 256; value++) {
            text[i] = (char)(was ^ value);
            if (sw_manifest_parse("manifest.json", text, bytes, &m, &err) != SW_BAD_FILE)
                fail_msg("byte %lld: %02x instead of %02x", (long long)i, text[i] & 255, was & 255);
            sw_manifest_free(&m);
        }
        text[i] = was;
        assert_int_equal(sw_manifest_parse("manifest.json", text, i, &m, &err), SW_BAD_FILE);
        sw_manifest_free(&m);
    }
    memcpy(longer, text, (size_t)bytes);
    longer[bytes] = '\n';
    assert_int_equal(sw_manifest_parse("manifest.json", longer, bytes + 1, &m, &err), SW_BAD_FILE);
    sw_manifest_free(&m);
    free(longer);
    free(text);
}

/* `text` without its last lines, with the checksum that it needs. */
static sw_status parse_signed(const char *text, sw_error *err) {
    char *whole = malloc(strlen(text) + 64);
    int n = sprintf(whole, "%s" SW_MANIFEST_BEFORE_CHECKSUM, text);
    n += sprintf(whole + n, "%016llx" SW_MANIFEST_AFTER_CHECKSUM,
                 (unsigned long long)sw_checksum(whole, n));
    sw_manifest m;
    sw_status status = sw_manifest_parse("manifest.json", whole, n, &m, err);
    sw_manifest_free(&m);
    free(whole);
    return status;
}

#define HEAD                                                                                    \
    "{\"format\": \"shardwise checkpoint\", \"version\": 1, \"step\": 1, \"validation_loss\": " \
    "null"
#define MIDDLE                                                                       \
    ", \"state\": {}, \"model_config\": null, \"settings\": {}, \"settings_hash\": " \
    "\"cbf29ce484222325\""
#define PARAMETERS ", \"parameters\": [{\"name\": \"w\", \"shape\": [3], \"trainable\": true}]"
#define ONE_RANGE "\"ranges\": [[0, 8, \"0000000000000000\"]]"
#define MASTER "{\"name\": \"parameters.safetensors\", \"bytes\": 8, " ONE_RANGE "}"
#define FILES ", \"files\": [" MASTER "]"

/* What a manifest says, its checksum being right. */
static void what_it_says_is_checked(void **state) {
    (void)state;
    static const struct {
        const char *text, *reason;
    } bad[] = {
        {"{\"format\": \"other\", \"version\": 1", "format"},
        {"{\"format\": \"shardwise checkpoint\", \"version\": 2, \"new\": {}", "newer"},
        {"{\"format\": \"shardwise checkpoint\", \"version\": \"1\"", "version"},
        {"{\"format\": \"shardwise checkpoint\", \"version\": 0", "version"},
        {"[1", "format"},
        {HEAD MIDDLE PARAMETERS, "files"},
        {HEAD MIDDLE PARAMETERS FILES ", \"more\": 1", "last member"},
        {HEAD MIDDLE PARAMETERS FILES ", \"step\": 1", "last member"},
        {"{\"format\": \"shardwise checkpoint\", \"version\": 1, \"step\": -1, "
         "\"validation_loss\": null" MIDDLE PARAMETERS FILES,
         "step"},
        {"{\"format\": \"shardwise checkpoint\", \"version\": 1, \"step\": 1, \"validation_loss\": "
         "\"2\"" MIDDLE PARAMETERS FILES,
         "validation_loss"},
        {HEAD ", \"state\": [], \"model_config\": null, \"settings\": {}, \"settings_hash\": "
              "\"cbf29ce484222325\"" PARAMETERS FILES,
         "state"},
        {HEAD ", \"state\": {}, \"model_config\": {}, \"settings\": {}, \"settings_hash\": "
              "\"cbf29ce484222325\"" PARAMETERS FILES,
         "model_config"},
        {HEAD ", \"state\": {}, \"model_config\": null, \"settings\": {\"a\": 1}, "
              "\"settings_hash\": \"cbf29ce484222325\"" PARAMETERS FILES,
         "settings"},
        {HEAD ", \"state\": {}, \"model_config\": null, \"settings\": {\"a\": \"1\"}, "
              "\"settings_hash\": "
              "\"cbf29ce484222325\"" PARAMETERS FILES,
         "settings_hash"},
        {HEAD MIDDLE ", \"parameters\": {}" FILES, "parameters"},
        {HEAD MIDDLE
         ", \"parameters\": [{\"name\": \"\", \"shape\": [3], \"trainable\": true}]" FILES,
         "parameters"},
        {HEAD MIDDLE
         ", \"parameters\": [{\"name\": \"w\", \"shape\": [3], \"trainable\": 1}]" FILES,
         "parameters"},
        {HEAD MIDDLE ", \"parameters\": [{\"name\": \"w\", \"shape\": [3], \"trainable\": true, "
                     "\"left_out\": true}]" FILES,
         "parameters"},
        {HEAD MIDDLE ", \"parameters\": [{\"name\": \"w\", \"shape\": [3], \"trainable\": false, "
                     "\"left_out\": false}]" FILES,
         "parameters"},
        {HEAD MIDDLE
         ", \"parameters\": [{\"name\": \"w\", \"shape\": [-3], \"trainable\": true}]" FILES,
         "shape"},
        {HEAD MIDDLE
         ", \"parameters\": [{\"name\": \"w\", \"shape\": [3.0], \"trainable\": true}]" FILES,
         "shape"},
        {HEAD MIDDLE ", \"parameters\": [{\"name\": \"w\", \"shape\": [4294967296, 4294967296], "
                     "\"trainable\": true}]" FILES,
         "shape"},
        {HEAD MIDDLE ", \"parameters\": [{\"name\": \"w\", \"shape\": [1, 1, 1, 1, 1], "
                     "\"trainable\": true}]" FILES,
         "parameters"},
        {HEAD MIDDLE PARAMETERS ", \"files\": []", "parameters.safetensors"},
        {HEAD MIDDLE PARAMETERS ", \"files\": [" MASTER ", " MASTER "]", "twice"},
        {HEAD MIDDLE PARAMETERS
         ", \"files\": [{\"name\": \"../parameters.safetensors\", \"bytes\": 8, " ONE_RANGE "}]",
         "name"},
        {HEAD MIDDLE PARAMETERS ", \"files\": [{\"name\": \"/etc/passwd\", \"bytes\": 8, " ONE_RANGE
                                "}]",
         "name"},
        {HEAD MIDDLE PARAMETERS
         ", \"files\": [{\"name\": \"parameters.safetensors\", \"bytes\": 9, " ONE_RANGE "}]",
         "cover"},
        {HEAD MIDDLE PARAMETERS
         ", \"files\": [{\"name\": \"parameters.safetensors\", \"bytes\": -8, " ONE_RANGE "}]",
         "files"},
        {HEAD MIDDLE PARAMETERS ", \"files\": [{\"name\": \"parameters.safetensors\", \"bytes\": "
                                "2097152, \"ranges\": [[0, 2097152, "
                                "\"0000000000000000\"]]}]",
         "ranges"},
        {HEAD MIDDLE PARAMETERS
         ", \"files\": [{\"name\": \"parameters.safetensors\", \"bytes\": 8, \"ranges\": [[0, 4, "
         "\"0000000000000000\"], [5, 3, \"0000000000000000\"]]}]",
         "ranges"},
        {HEAD MIDDLE PARAMETERS
         ", \"files\": [{\"name\": \"parameters.safetensors\", \"bytes\": 8, \"ranges\": [[0, 8, "
         "\"000000000000000G\"]]}]",
         "ranges"},
        {HEAD MIDDLE PARAMETERS
         ", \"files\": [{\"name\": \"parameters.safetensors\", \"bytes\": 8, \"ranges\": [[0, 8, "
         "\"0000\"]]}]",
         "ranges"},
        {HEAD MIDDLE PARAMETERS
         ", \"files\": [{\"name\": \"parameters.safetensors\", \"bytes\": 8, \"ranges\": [[0, 0, "
         "\"0000000000000000\"], [0, 8, \"0000000000000000\"]]}]",
         "ranges"},
    };
    sw_error err;
    if (parse_signed(HEAD MIDDLE PARAMETERS FILES, &err) != SW_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bool is_newer = strcmp(bad[i].reason, "newer") == 0; /* which is no damage */
        if (parse_signed(bad[i].text, &err) != (is_newer ? SW_BAD_CONFIG : SW_BAD_FILE))
            fail_msg("accepted: %s", bad[i].text);
        if (!strstr(err.message, bad[i].reason))
            fail_msg("%s is not in: %s", bad[i].reason, err.message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_back),
        cmocka_unit_test(every_change_is_noticed),
        cmocka_unit_test(what_it_says_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
