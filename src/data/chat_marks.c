/* chat_marks.c: texts that a template prints around messages, looked at without knowing the
 * template. */
#include "data/chat_marks.h"

#include <string.h>

enum { LONGEST_MARK = 96 };

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool sw_begins_with(sw_slice s, sw_slice with) {
    return s.bytes >= with.bytes &&
           (with.bytes == 0 || memcmp(s.text, with.text, (size_t)with.bytes) == 0);
}

bool sw_ends_with(sw_slice s, sw_slice with) {
    return s.bytes >= with.bytes && (with.bytes == 0 || memcmp(s.text + s.bytes - with.bytes,
                                                               with.text, (size_t)with.bytes) == 0);
}

bool sw_are_blanks(sw_slice s) {
    for (int64_t k = 0; k < s.bytes; k++)
        if (!is_blank(s.text[k]))
            return false;
    return true;
}

sw_slice sw_without_blanks_behind(sw_slice s) {
    while (s.bytes > 0 && is_blank(s.text[s.bytes - 1]))
        s.bytes--;
    return s;
}

int64_t sw_mark_at(sw_slice s) {
    if (s.bytes < 3 || (*s.text != '<' && *s.text != '['))
        return 0;
    const char closing = *s.text == '<' ? '>' : ']';
    for (int64_t k = 1; k < s.bytes && k < LONGEST_MARK; k++) {
        if (s.text[k] == closing)
            return k > 1 ? k + 1 : 0;
        if (is_blank(s.text[k]) || s.text[k] == *s.text)
            return 0;
    }
    return 0;
}

bool sw_ends_in_mark(sw_slice s) {
    for (int64_t k = s.bytes - 1; k >= 0 && k > s.bytes - LONGEST_MARK; k--)
        if (s.text[k] == '<' || s.text[k] == '[')
            return k + sw_mark_at((sw_slice){s.text + k, s.bytes - k}) == s.bytes;
    return false;
}

bool sw_are_marks(sw_slice s) {
    while (s.bytes > 0) {
        int64_t n = is_blank(*s.text) ? 1 : sw_mark_at(s);
        if (n == 0)
            return false;
        s.text += n, s.bytes -= n;
    }
    return true;
}

static bool is_of_thought(const char *mark, int64_t n) {
    return memmem(mark, (size_t)n, "think", 5) || memmem(mark, (size_t)n, "reason", 6) ||
           memmem(mark, (size_t)n, "thought", 7);
}

bool sw_is_thought(sw_slice s) {
    bool has_mark = false;
    while (s.bytes > 0) {
        int64_t n = sw_mark_at(s);
        if (n > 0 ? !is_of_thought(s.text, n) : !is_blank(*s.text))
            return false;
        has_mark = has_mark || n > 0;
        n = n > 0 ? n : 1;
        s.text += n, s.bytes -= n;
    }
    return has_mark;
}

int64_t sw_before_mark(sw_slice s, int64_t at) {
    for (int64_t k = at - 1; k >= 0 && k > at - LONGEST_MARK; k--)
        if ((s.text[k] == '<' || s.text[k] == '[') &&
            k + sw_mark_at((sw_slice){s.text + k, s.bytes - k}) > at)
            return k;
    return at;
}

static bool names_speaker(const char *word, int64_t n) {
    static const char *const names[] = {"assistant", "model",    "bot",    "gpt",   "ai",
                                        "chatbot",   "response", "answer", "output"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if ((int64_t)strlen(names[k]) == n && strncasecmp(names[k], word, (size_t)n) == 0)
            return true;
    return false;
}

/* A mark may name the speaker itself: "<|assistant|>". */
static bool has_speaker(const char *mark, int64_t n) {
    for (int64_t k = 1, first = 1; k < n; k++) {
        if (is_letter(mark[k]))
            continue;
        if (names_speaker(mark + first, k - first))
            return true;
        first = k + 1;
    }
    return false;
}

bool sw_is_header(sw_slice s) {
    bool has_name = false;
    while (s.bytes > 0) {
        int64_t n = sw_mark_at(s);
        if (n > 0 && is_of_thought(s.text, n))
            return false;
        has_name = has_name || (n > 0 ? has_speaker(s.text, n) : is_letter(*s.text));
        if (n == 0 && is_letter(*s.text)) {
            while (n < s.bytes && is_letter(s.text[n]))
                n++;
            if (!names_speaker(s.text, n))
                return false;
        } else if (n == 0) {
            if (!is_blank(*s.text) && !strchr("#:*|-=_>/", *s.text))
                return false;
            n = 1;
        }
        s.text += n, s.bytes -= n;
    }
    return has_name;
}
