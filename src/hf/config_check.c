/* config_check.c: do the dimensions of a model fit together? Asked of run.yaml's and config.json's
 * alike, in their own words. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "model/model.h"

#define MAX_SIZE ((int64_t)INT32_MAX)

/* What a setting is called: in run.yaml, in a Llama's config.json, in a GPT-2's. */
typedef struct words {
    const char *run_yaml, *llama, *gpt2;
} words;

static const words hidden = {"model.hidden", "hidden_size", "n_embd"};
static const words layers = {"model.layers", "num_hidden_layers", "n_layer"};
static const words heads = {"model.heads", "num_attention_heads", "n_head"};
static const words kv_heads = {"model.kv_heads", "num_key_value_heads", "n_head"};
static const words head_channels = {"model.hidden / model.heads", "head_dim", "n_embd / n_head"};
static const words ffn = {"model.ffn", "intermediate_size", "n_inner"};
static const words vocabulary = {"model.vocab", "vocab_size", "vocab_size"};
static const words positions = {"model.max_positions", "max_position_embeddings", "n_positions"};
static const words rope_theta = {"model.rope_theta", "rope_theta", "rope_theta"};
static const words epsilon = {"model.norm_epsilon", "rms_norm_eps", "layer_norm_epsilon"};
static const words embedding_dropout = {"model.dropout", "embd_pdrop", "embd_pdrop"};
static const words residual_dropout = {"model.dropout", "resid_pdrop", "resid_pdrop"};
static const words attention_dropout = {"model.dropout", "attention_dropout", "attn_pdrop"};
static const words init_std = {"model.init_std", "initializer_range", "initializer_range"};

typedef struct checker {
    const sw_model_config *config;
    sw_config_spelling spelling;
    sw_error *err;
} checker;

static const char *say(const checker *c, const words *w) {
    return c->spelling == SW_SPELL_RUN_YAML     ? w->run_yaml
           : c->config->architecture == SW_GPT2 ? w->gpt2
                                                : w->llama;
}

static sw_status status_of(const checker *c) {
    return c->spelling == SW_SPELL_RUN_YAML ? SW_BAD_CONFIG : SW_BAD_FILE;
}

static sw_status check_size(const checker *c, const words *w, int64_t value, int64_t most) {
    if (value >= 1 && value <= most)
        return SW_OK;
    return sw_fail(c->err, status_of(c), "%s is %" PRId64 ", it must be from 1 to %" PRId64,
                   say(c, w), value, most);
}

static sw_status check_multiple(const checker *c, const words *what, int64_t value, const words *of,
                                int64_t divisor) {
    if (value % divisor == 0)
        return SW_OK;
    return sw_fail(c->err, status_of(c), "%s %" PRId64 " is no multiple of %s %" PRId64,
                   say(c, what), value, say(c, of), divisor);
}

static sw_status check_real(const checker *c, const words *w, double value, bool fits,
                            const char *needed) {
    if (isfinite(value) && fits)
        return SW_OK;
    char text[SW_TEXT_NUMBER_BYTES];
    return sw_fail(c->err, status_of(c), "%s is %s, %s is needed", say(c, w),
                   sw_text_exact_real(value, text, sizeof text), needed);
}

static sw_status check_sizes(const checker *c) {
    const sw_model_config *m = c->config;
    const struct {
        const words *words;
        int64_t value, most;
    } sizes[] = {{&layers, m->layers, SW_MOST_LAYERS},
                 {&hidden, m->hidden, MAX_SIZE},
                 {&heads, m->heads, MAX_SIZE},
                 {&kv_heads, m->kv_heads, MAX_SIZE},
                 {&ffn, m->ffn, MAX_SIZE},
                 {&vocabulary, m->vocabulary, MAX_SIZE},
                 {&positions, m->max_positions, MAX_SIZE}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sw_status status = check_size(c, sizes[i].words, sizes[i].value, sizes[i].most);
        if (status != SW_OK)
            return status;
    }
    return SW_OK;
}

static sw_status check_heads(const checker *c) {
    const sw_model_config *m = c->config;
    /* transformers asks it of these two alone; others name the channels of a head themselves. */
    sw_status status = m->architecture == SW_LLAMA || m->architecture == SW_GPT2
                           ? check_multiple(c, &hidden, m->hidden, &heads, m->heads)
                           : SW_OK;
    if (status == SW_OK)
        status = check_multiple(c, &heads, m->heads, &kv_heads, m->kv_heads);
    if (status == SW_OK)
        status = check_size(c, &head_channels, m->head_channels, MAX_SIZE);
    if (status != SW_OK)
        return status;
    if (m->heads * m->head_channels > MAX_SIZE)
        return sw_fail(c->err, status_of(c),
                       "%s %" PRId64 " times %s %" PRId64 " is beyond %" PRId64, say(c, &heads),
                       m->heads, say(c, &head_channels), m->head_channels, MAX_SIZE);
    if (m->architecture != SW_GPT2 && m->head_channels % 2)
        return sw_fail(c->err, status_of(c),
                       "%s is %" PRId64
                       ", which is odd: rotary position embedding turns pairs of channels",
                       say(c, &head_channels), m->head_channels);
    if (m->architecture == SW_GPT2 &&
        (m->kv_heads != m->heads || m->heads * m->head_channels != m->hidden))
        return sw_fail(
            c->err, status_of(c),
            "gpt2 has as many key/value heads as heads, and their channels are %s together",
            say(c, &hidden));
    return SW_OK;
}

/* Settings of a rotary scaling. run.yaml has none, so they go by one name. */
static sw_status check_rope(const checker *c) {
    const sw_rope_scaling *s = &c->config->rope;
    static const words factor = {"factor", "rope factor", "factor"},
                       low = {"low", "low_freq_factor", "low"},
                       high = {"high", "high_freq_factor", "high"},
                       slow = {"slow", "beta_slow", "slow"}, fast = {"fast", "beta_fast", "fast"},
                       attention = {"attention", "attention_factor", "attention"},
                       original = {"original", "original_max_position_embeddings", "original"};
    sw_status status = SW_OK;
    if (s->type != SW_ROPE_DEFAULT)
        status = check_real(c, &factor, s->factor, s->factor > 0, "a positive number");
    if (status == SW_OK && (s->type == SW_ROPE_LLAMA3 || s->type == SW_ROPE_YARN))
        status = check_size(c, &original, s->original_positions, MAX_SIZE);
    if (status == SW_OK && s->type == SW_ROPE_LLAMA3)
        status = check_real(c, &low, s->low_factor, s->low_factor > 0, "a positive number");
    if (status == SW_OK && s->type == SW_ROPE_LLAMA3)
        status = check_real(c, &high, s->high_factor, s->high_factor > s->low_factor,
                            "a number above low_freq_factor");
    if (status != SW_OK || s->type != SW_ROPE_YARN)
        return status;
    status = check_real(c, &slow, s->beta_slow, s->beta_slow > 0, "a positive number");
    if (status == SW_OK)
        status = check_real(c, &fast, s->beta_fast, s->beta_fast >= s->beta_slow,
                            "a number of at least beta_slow");
    if (status == SW_OK)
        status = check_real(c, &rope_theta, c->config->rope_theta, c->config->rope_theta > 1,
                            "with yarn, a number above 1");
    if (status == SW_OK)
        status = check_real(c, &attention, sw_model_rotary(c->config).amplitude,
                            sw_model_rotary(c->config).amplitude > 0, "a positive number");
    return status;
}

sw_status sw_model_config_check(const sw_model_config *config, sw_config_spelling spelling,
                                sw_error *err) {
    const checker c = {config, spelling, err};
    sw_status status = check_sizes(&c);
    if (status == SW_OK)
        status = check_heads(&c);
    if (status == SW_OK && config->architecture != SW_GPT2)
        status = check_real(&c, &rope_theta, config->rope_theta, config->rope_theta > 0,
                            "a positive number");
    if (status == SW_OK && config->architecture != SW_GPT2)
        status = check_rope(&c);
    if (status == SW_OK)
        status = check_real(&c, &epsilon, config->norm_epsilon, config->norm_epsilon > 0,
                            "a positive number");
    if (status == SW_OK)
        status = check_real(&c, &init_std, config->init_std, config->init_std >= 0,
                            "a number of at least 0");
    return status;
}

sw_status sw_model_config_check_training(const sw_model_config *config, sw_config_spelling spelling,
                                         sw_error *err) {
    const checker c = {config, spelling, err};
    const struct {
        const words *words;
        double share;
    } shares[] = {{&embedding_dropout, config->dropout.embedding},
                  {&residual_dropout, config->dropout.residual},
                  {&attention_dropout, config->dropout.attention}};
    sw_status status = SW_OK;
    for (size_t i = 0; i < sizeof shares / sizeof *shares && status == SW_OK; i++)
        status = check_real(&c, shares[i].words, shares[i].share,
                            shares[i].share >= 0 && shares[i].share < 1,
                            "for training a number from 0 to below 1");
    return status;
}
