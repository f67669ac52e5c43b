/* chat.c: one function for each family of formats, and the buffer that they write into.
 *
 * A renderer says what it puts where: control text as it is, what a message holds as literal, the part of an assistant's turn as
 * supervised. Trimming removes what Python's str.strip() does, since the templates were written for Jinja.
 */
#include "data/chat.h"

#include <stdlib.h>
#include <string.h>

typedef struct writer {
    const sw_chat *chat;
    const sw_message *messages;
    int n_messages;
    bool add_generation_prompt;
    sw_chat_text *out;
    bool is_short; /* memory ran out; what is written afterwards goes nowhere */
    sw_error *err;
} writer;

/* ---- writing ---- */

static void put_bytes(writer *w, const char *text, int64_t bytes) {
    sw_chat_text *out = w->out;
    if (w->is_short)
        return;
    if (bytes > out->capacity - out->bytes) {
        int64_t capacity = 2 * out->capacity + bytes + 256;
        char *grown = realloc(out->text, (size_t)capacity);
        if (!grown) {
            w->is_short = true;
            return;
        }
        out->text = grown;
        out->capacity = capacity;
    }
    memcpy(out->text + out->bytes, text, (size_t)bytes);
    out->bytes += bytes;
}

static void put(writer *w, const char *text) {
    put_bytes(w, text, (int64_t)strlen(text));
}

static void add_span(writer *w, sw_span **spans, int *n, int *capacity, int64_t first) {
    if (w->is_short || w->out->bytes == first)
        return;
    if (*n == *capacity) {
        int wider = *capacity ? 2 * *capacity : 16;
        sw_span *grown = realloc(*spans, (size_t)wider * sizeof *grown);
        if (!grown) {
            w->is_short = true;
            return;
        }
        *spans = grown;
        *capacity = wider;
    }
    (*spans)[(*n)++] = (sw_span){first, w->out->bytes};
}

static void put_content(writer *w, sw_slice content) {
    int64_t first = w->out->bytes;
    put_bytes(w, content.text, content.bytes);
    add_span(w, &w->out->literal, &w->out->n_literal, &w->out->literal_capacity, first);
}

/* A word of the format that may be a token of its own. */
static void put_control(writer *w, const char *text) {
    int64_t first = w->out->bytes;
    put(w, text);
    add_span(w, &w->out->control, &w->out->n_control, &w->out->control_capacity, first);
}

/* What the model says, from `first` to here. */
static void supervise(writer *w, int64_t first) {
    add_span(w, &w->out->supervised, &w->out->n_supervised, &w->out->supervised_capacity, first);
}

/* ---- trimming ---- */

/* Bytes of the blank character that begins at s; 0 if none does. Python's str.isspace(): the property White_Space, and U+001C
 * to U+001F. */
static int blank_at(const char *s, int64_t n) {
    const uint8_t *b = (const uint8_t *)s;
    if (n >= 1 && (b[0] == ' ' || (b[0] >= 0x09 && b[0] <= 0x0D) || (b[0] >= 0x1C && b[0] <= 0x1F)))
        return 1;
    if (n >= 2 && b[0] == 0xC2 && (b[1] == 0x85 || b[1] == 0xA0))
        return 2;
    if (n < 3)
        return 0;
    bool is_1680 = b[0] == 0xE1 && b[1] == 0x9A && b[2] == 0x80;
    bool is_20xx = b[0] == 0xE2 && b[1] == 0x80 && (b[2] <= 0x8A || b[2] == 0xA8 || b[2] == 0xA9 || b[2] == 0xAF);
    bool is_205f = b[0] == 0xE2 && b[1] == 0x81 && b[2] == 0x9F;
    bool is_3000 = b[0] == 0xE3 && b[1] == 0x80 && b[2] == 0x80;
    return is_1680 || is_20xx || is_205f || is_3000 ? 3 : 0;
}

static sw_slice trim(sw_slice s) {
    for (int n; (n = blank_at(s.text, s.bytes)) > 0;)
        s.text += n, s.bytes -= n;
    for (int n = 1; n > 0 && s.bytes > 0;) {
        n = 0; /* in UTF-8 the last character is the one length that fits */
        for (int width = 1; width <= 3 && width <= s.bytes && n == 0; width++)
            if (blank_at(s.text + s.bytes - width, width) == width)
                n = width;
        s.bytes -= n;
    }
    return s;
}

static sw_slice trim_blanks_after(sw_slice s) {
    while (s.bytes > 0 && s.text[s.bytes - 1] == ' ')
        s.bytes--;
    return s;
}

/* ---- the formats ---- */

static const char *const role_names[SW_N_ROLES] = {"system", "user", "assistant"};

static bool begins_with_system(const writer *w) {
    return w->messages[0].role == SW_ROLE_SYSTEM;
}

/* Turns are those from `first_turn` on: user, assistant, user ... */
static sw_status check_turns(const writer *w, int first_turn) {
    for (int i = first_turn; i < w->n_messages; i++) {
        sw_role role = w->messages[i].role;
        if ((role == SW_ROLE_USER) != ((i - first_turn) % 2 == 0) || role == SW_ROLE_SYSTEM)
            return sw_fail(w->err, SW_BAD_FILE,
                           "message %d is of role `%s`; in this chat format roles must alternate user, assistant, user, ...",
                           i + 1, role_names[role]);
    }
    return SW_OK;
}

static void chatml(writer *w) {
    if (w->chat->has_default_system && !begins_with_system(w)) {
        put_control(w, "<|im_start|>");
        put(w, "system\n");
        put(w, w->chat->default_system);
        put_control(w, "<|im_end|>");
        put(w, "\n");
    }
    for (int i = 0; i < w->n_messages; i++) {
        const sw_message *m = &w->messages[i];
        put_control(w, "<|im_start|>");
        put(w, role_names[m->role]);
        put(w, "\n");
        int64_t first = w->out->bytes;
        put_content(w, m->content);
        put_control(w, "<|im_end|>");
        if (m->role == SW_ROLE_ASSISTANT)
            supervise(w, first);
        put(w, "\n");
    }
    if (w->add_generation_prompt) {
        put_control(w, "<|im_start|>");
        put(w, "assistant\n");
    }
}

static void llama3_header(writer *w, sw_role role) {
    put_control(w, "<|start_header_id|>");
    put(w, role_names[role]);
    put_control(w, "<|end_header_id|>");
    put(w, "\n\n");
}

static void llama3(writer *w) {
    int i = 0;
    put_control(w, w->chat->bos);
    if (w->chat->date[0]) {
        llama3_header(w, SW_ROLE_SYSTEM);
        put(w, "Cutting Knowledge Date: December 2023\nToday Date: ");
        put(w, w->chat->date);
        put(w, "\n\n");
        if (begins_with_system(w))
            put_content(w, trim(w->messages[i++].content));
        put_control(w, "<|eot_id|>");
    }
    for (; i < w->n_messages; i++) {
        const sw_message *m = &w->messages[i];
        llama3_header(w, m->role);
        int64_t first = w->out->bytes;
        put_content(w, trim(m->content));
        put_control(w, "<|eot_id|>");
        if (m->role == SW_ROLE_ASSISTANT)
            supervise(w, first);
    }
    if (w->add_generation_prompt)
        llama3_header(w, SW_ROLE_ASSISTANT);
}

/* The first turn is trimmed as a whole, with the system text and its frame in front: a blank after the frame stays, and one at
 * the end goes, which is the frame's own where the turn is empty. */
static void llama2_first_turn(writer *w, sw_slice system, sw_slice content) {
    put(w, "<<SYS>>\n");
    put_content(w, system);
    sw_slice trimmed = trim(content);
    if (trimmed.bytes > 0) {
        put(w, "\n<</SYS>>\n\n");
        put_content(w, (sw_slice){content.text, trimmed.text + trimmed.bytes - content.text});
    } else {
        put(w, "\n<</SYS>>");
    }
}

static sw_status llama2(writer *w) {
    int first_turn = begins_with_system(w);
    sw_status status = check_turns(w, first_turn);
    if (status != SW_OK)
        return status;
    for (int i = first_turn; i < w->n_messages; i++) {
        const sw_message *m = &w->messages[i];
        if (m->role == SW_ROLE_USER) {
            put_control(w, w->chat->bos);
            put_control(w, "[INST]");
            put(w, " ");
            if (i == first_turn && first_turn == 1)
                llama2_first_turn(w, w->messages[0].content, m->content);
            else
                put_content(w, trim(m->content));
            put(w, " ");
            put_control(w, "[/INST]");
        } else {
            int64_t first = w->out->bytes;
            put(w, " ");
            put_content(w, trim(m->content));
            put(w, " ");
            put_control(w, w->chat->eos);
            supervise(w, first);
        }
    }
    return SW_OK;
}

/* What the three formats of Mistral differ in. */
typedef struct mistral_style {
    const char *before, *inside, *after, *said; /* what stands around [INST] and [/INST]; before the assistant's words */
    bool system_in_last, trims_said;
} mistral_style;

static sw_status mistral(writer *w, mistral_style style) {
    int first_turn = begins_with_system(w), n_turns = w->n_messages - first_turn;
    int last_user = first_turn + (n_turns - 1) / 2 * 2, with_system = style.system_in_last ? last_user : first_turn;
    sw_status status = check_turns(w, first_turn);
    if (status != SW_OK)
        return status;
    put_control(w, w->chat->bos);
    for (int i = first_turn; i < w->n_messages; i++) {
        const sw_message *m = &w->messages[i];
        if (m->role == SW_ROLE_USER) {
            put(w, style.before);
            put_control(w, "[INST]");
            put(w, style.inside);
            if (first_turn == 1 && i == with_system) {
                put_content(w, w->messages[0].content);
                put(w, "\n\n");
            }
            put_content(w, m->content);
            put(w, style.after);
            put_control(w, "[/INST]");
        } else {
            int64_t first = w->out->bytes;
            put(w, style.said);
            put_content(w, style.trims_said ? trim_blanks_after(m->content) : m->content);
            put_control(w, w->chat->eos);
            supervise(w, first);
        }
    }
    return SW_OK;
}

static const char *const zephyr_marks[SW_N_ROLES] = {"<|system|>", "<|user|>", "<|assistant|>"};

static void zephyr(writer *w) {
    for (int i = 0; i < w->n_messages; i++) {
        const sw_message *m = &w->messages[i];
        put_control(w, zephyr_marks[m->role]);
        put(w, "\n");
        int64_t first = w->out->bytes;
        put_content(w, m->content);
        put_control(w, w->chat->eos);
        if (m->role == SW_ROLE_ASSISTANT)
            supervise(w, first);
        put(w, "\n");
    }
    if (w->add_generation_prompt) {
        put_control(w, zephyr_marks[SW_ROLE_ASSISTANT]);
        put(w, "\n");
    }
}

static sw_status gemma(writer *w) {
    bool takes_system = w->chat->family == SW_CHAT_GEMMA3;
    int first_turn = takes_system && begins_with_system(w);
    if (begins_with_system(w) && !takes_system)
        return sw_fail(w->err, SW_BAD_FILE, "message 1 is of role `system`; this model takes no system message");
    sw_status status = check_turns(w, first_turn);
    if (status != SW_OK)
        return status;
    put_control(w, w->chat->bos);
    for (int i = first_turn; i < w->n_messages; i++) {
        const sw_message *m = &w->messages[i];
        bool is_model = m->role == SW_ROLE_ASSISTANT;
        put_control(w, "<start_of_turn>");
        put(w, is_model ? "model\n" : "user\n");
        int64_t first = w->out->bytes;
        if (i == first_turn && first_turn == 1) {
            put_content(w, w->messages[0].content);
            put(w, "\n\n");
        }
        put_content(w, trim(m->content));
        put_control(w, "<end_of_turn>");
        if (is_model)
            supervise(w, first);
        put(w, "\n");
    }
    if (w->add_generation_prompt) {
        put_control(w, "<start_of_turn>");
        put(w, "model\n");
    }
    return SW_OK;
}

const char *sw_chat_turn_end(const sw_chat *chat) {
    switch (chat->family) {
    case SW_CHAT_CHATML:
        return "<|im_end|>";
    case SW_CHAT_LLAMA3:
        return "<|eot_id|>";
    case SW_CHAT_GEMMA:
    case SW_CHAT_GEMMA3:
        return "<end_of_turn>";
    default:
        return chat->eos;
    }
}

sw_status sw_chat_render(const sw_chat *chat, const sw_message *messages, int n_messages, bool add_generation_prompt,
                         sw_chat_text *out, sw_error *err) {
    static const mistral_style v1 = {" ", " ", " ", " ", false, false}, v3 = {"", " ", "", " ", true, true},
                               tekken = {"", "", "", "", true, true};
    writer w = {chat, messages, n_messages, add_generation_prompt, out, false, err};
    sw_status status = SW_OK;
    out->bytes = 0;
    out->n_literal = out->n_supervised = out->n_control = 0;
    switch (chat->family) {
    case SW_CHAT_CHATML:
        chatml(&w);
        break;
    case SW_CHAT_LLAMA2:
        status = llama2(&w);
        break;
    case SW_CHAT_LLAMA3:
        llama3(&w);
        break;
    case SW_CHAT_MISTRAL_V1:
        status = mistral(&w, v1);
        break;
    case SW_CHAT_MISTRAL_V3:
        status = mistral(&w, v3);
        break;
    case SW_CHAT_MISTRAL_TEKKEN:
        status = mistral(&w, tekken);
        break;
    case SW_CHAT_ZEPHYR:
        zephyr(&w);
        break;
    case SW_CHAT_GEMMA:
    case SW_CHAT_GEMMA3:
        status = gemma(&w);
        break;
    case SW_CHAT_NONE:
        return sw_fail(err, SW_BAD_FILE,
                       "a conversation needs a chat format, and %s; set data.chat_format or --chat-format (chatml, "
                       "llama2, llama3, mistral, mistral-v1, zephyr, gemma)",
                       chat->reason[0] ? chat->reason : "none is known");
    }
    if (status == SW_OK && w.is_short)
        return sw_fail(err, SW_NO_MEMORY, "no memory for a conversation of %d messages", n_messages);
    return status;
}

void sw_chat_text_free(sw_chat_text *out) {
    free(out->text);
    free(out->literal);
    free(out->supervised);
    free(out->control);
    *out = (sw_chat_text){0};
}
