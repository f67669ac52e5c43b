/* test_jinja_origin.c: each byte of a rendering is known to come from the template or from a
 * message, whatever the template did to it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "data/jinja/jinja.h"

/* What templates are given: origins are 2 and 3 for the messages, 1 for the tool. `own` stands for
 * the template's own names. */
static const char data[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"aB<|x|>\", \"n\": 7}, {\"role\": \"as "
    "sistant\", \"content\": "
    "\" c'd\\n\", \"calls\": [{\"k\": \"v\"}]}], \"tools\": [{\"t\": \"w\"}]}";
static const char own[] = "{\"own\": \"oO\"}";

/* The text that `body` gives, and beside it, byte for byte, where it comes from: '.' the template,
 * or the origin's digit. */
static void gives(const char *body, const char *wanted, const char *origins) {
    sw_jinja *template;
    sw_jinja_rendering out = {.text = NULL};
    sw_error err = {0};
    char text[1024], shown[256];
    int n = snprintf(text, sizeof text,
                     "{%%- set m = messages[0].content -%%}{%%- set n = messages[1].content -%%}%s",
                     body);
    json_t *values = json_loads(data, 0, NULL), *names = json_loads(own, 0, NULL);
    assert_non_null(values);
    if (sw_jinja_parse("t", text, n, &template, &err) != SW_OK)
        fail_msg("%s: %s", body, err.message);
    const sw_jinja_options options = {.data = values};
    for (int again = 0; again < 2;
         again++) { /* memory that is used again has none of the first's origins */
        if (sw_jinja_render(template, names, &options, &out, &err) != SW_OK)
            fail_msg("%s: %s", body, err.message);
        assert_true(out.bytes < (int64_t)sizeof shown);
        memset(shown, '.', (size_t)out.bytes);
        shown[out.bytes] = 0;
        int64_t at = 0;
        for (int64_t i = 0; i < out.n_origins; i++) {
            assert_true(out.origins[i].first >= at && out.origins[i].first < out.origins[i].end &&
                        out.origins[i].end <= out.bytes);
            for (at = out.origins[i].first; at < out.origins[i].end; at++)
                shown[at] = (char)('0' + out.origins[i].origin);
        }
        if (out.bytes != (int64_t)strlen(wanted) ||
            memcmp(out.text, wanted, (size_t)out.bytes) != 0)
            fail_msg("%s gives \"%.*s\"", body, (int)out.bytes, out.text);
        if (strcmp(shown, origins) != 0)
            fail_msg("%s: %.*s\n%s instead of\n%s", body, (int)out.bytes, out.text, shown, origins);
    }
    sw_jinja_rendering_free(&out);
    sw_jinja_free(template);
    json_decref(values);
    json_decref(names);
}

static void what_is_printed_has_its_origin(void **state) {
    (void)state;
    gives("a{{ m }}b", "aaB<|x|>b", ".2222222.");
    gives("{{ m }}{{ n }}", "aB<|x|> c'd\n", "222222233333");
    gives("{{ own }}{{ own ~ m }}", "oOoOaB<|x|>", "....2222222");
    gives("{{ tools[0].t }}{{ tools[0] }}", "w{'t': 'w'}", "1..1....1..");
    gives("{{ messages[0].n }}{{ messages | length }}", "72", "..");
}

/* '<|' + message.role + '|>' is a control token of the template; a role that could spell one is
 * not. */
static void a_role_is_the_templates(void **state) {
    (void)state;
    gives("<|{{ messages[0].role }}|>{{ messages[1].role }}", "<|user|>as sistant",
          "........3333333333");
    gives("{{ messages[0]['role'] + m }}", "useraB<|x|>", "....2222222");
}

static void texts_are_cut_and_joined_with_it(void **state) {
    (void)state;
    gives("{{ '<' + m + '>' }}", "<aB<|x|>>", ".2222222.");
    gives("{{ m[2:4] }}{{ m[0] }}{{ m[::-1] }}", "<|a>|x|<Ba", "2222222222");
    gives("{{ n | trim }}|{{ n.strip() }}|{{ n.lstrip() }}", "c'd|c'd|c'd\n", "333.333.3333");
    gives("{{ m.split('|') | join('-') }}", "aB<-x->", "222.2.2");
    gives("{{ [m, 'y', n] | join(own) }}", "aB<|x|>oOyoO c'd\n", "2222222.....33333");
    gives("{{ m | replace('x', 'yy') }}{{ 'axa' | replace('x', m) }}", "aB<|yy|>aaB<|x|>a",
          "2222..22.2222222.");
    gives("{{ m.partition('<')[2] }}{{ m.removesuffix('>') }}", "|x|>aB<|x|", "2222222222");
    gives("{{ (m ~ n)[5:9] }}{{ (m ~ n ~ m) | length }}", "|> c19", "2233..");
    gives("{% for c in m %}{{ c }}.{% endfor %}", "a.B.<.|.x.|.>.", "2.2.2.2.2.2.2.");
    gives("{{ m | list | join }}{{ m | first }}{{ m | last }}{{ m | reverse }}", "aB<|x|>a>>|x|<Ba",
          "2222222222222222");
}

static void characters_that_are_changed_keep_it(void **state) {
    (void)state;
    gives("{{ m | upper }}{{ m | lower }}{{ m.title() }}", "AB<|X|>ab<|x|>Ab<|X|>",
          "222222222222222222222");
    gives("{{ 'aa' | upper }}{{ (own + m) | upper }}", "AAOOAB<|X|>", "....2222222");
    gives("{{ m | tojson }}{{ n | tojson }}", "\"aB<|x|>\"\" c'd\\n\"", ".2222222..3333...");
    gives("{{ [n] }}{{ [m] | string }}", "[\" c'd\\n\"]['aB<|x|>']", "..333333....2222222..");
    gives("{{ messages[1].calls | tojson }}", "[{\"k\": \"v\"}]", "...3....3...");
    gives("{{ '%s and %s' | format(m, n | trim) }}", "aB<|x|> and c'd", "2222222.....333");
    gives("{{ '{}{:>4}'.format(m, 'y') }}{{ '{:>9}'.format(m) }}", "aB<|x|>   y  aB<|x|>",
          "2222222......2222222");
    gives("{{ m | center(9) }}{{ n | indent(2) }}", " aB<|x|>  c'd\n", ".2222222.3333.");
    gives("{{ m.zfill(9) }}{{ m | truncate(4, true, '~', 0) }}", "00aB<|x|>aB<~", "..2222222222.");
    gives("{{ '<b>' | e }}{{ m | e }}", "&lt;b&gt;aB&lt;|x|&gt;", ".........22....222....");
}

/* Through variables, loops, macros and blocks. */
static void what_is_kept_for_later_keeps_it(void **state) {
    (void)state;
    gives("{% set ns = namespace(s='') %}{% for x in messages %}{% set ns.s = ns.s + x.content + "
          "';' %}{% endfor %}{{ ns.s }}",
          "aB<|x|>; c'd\n;", "2222222.33333.");
    gives("{% macro f(x) %}({{ x }}){% endmacro %}{{ f(m) }}{{ f('y') | upper }}", "(aB<|x|>)(Y)",
          ".2222222....");
    gives("{% set b %}[{{ m }}]{% endset %}{{ b }}{{ b[1:3] }}", "[aB<|x|>]aB", ".2222222.22");
    gives("{% filter upper %}y{{ m }}{% endfilter %}", "YAB<|X|>", ".2222222");
    gives("{% for k, v in messages[1].calls[0].items() %}{{ k }}={{ v }}{% endfor %}", "k=v",
          "3.3");
    gives("{{ {m: 'y'}.keys() | join }}{{ [n, m] | sort | join }}{{ messages | "
          "map(attribute='content') | join }}",
          "aB<|x|> c'd\naB<|x|>aB<|x|> c'd\n", "2222222333332222222222222233333");
    gives("{{ m if m else 'y' }}{{ '' or n }}{{ nothing | default(m) }}", "aB<|x|> c'd\naB<|x|>",
          "2222222333332222222");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_printed_has_its_origin),
        cmocka_unit_test(a_role_is_the_templates),
        cmocka_unit_test(texts_are_cut_and_joined_with_it),
        cmocka_unit_test(characters_that_are_changed_keep_it),
        cmocka_unit_test(what_is_kept_for_later_keeps_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
