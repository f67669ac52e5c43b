#!/usr/bin/env python3
"""Write rules.jsonl: small templates, each for a rule of the language, and what transformers renders.

    pip install transformers==5.24.0 jinja2==3.1.6      (Python 3.11)
    ./make-rules.py >rules.jsonl

Expressions are tried one by one on the variables VALUES; BLOCKS are whole templates. `error`: the reference fails, in its words.
"""
import copy
import json
import sys

import transformers.utils.chat_template_utils as reference

VALUES = {
    "n": 7,
    "m": -13,
    "big": 9223372036854775807,
    "x": 2.5,
    "y": -7.125,
    "wide": 1e22,
    "t": True,
    "no": None,
    "s": "Hello World foo-bar (baz) [qux]",
    "u": "ÄÖÜ ß ﬁ Σίσυφος ΟΔΟΣ ǆ ŉ İ ı",
    "blank": "  \t x \n y\u00a0",
    "lines": "one\ntwo\r\nthree\r\r\n\u000bq\u001cz",
    "csv": "a,b,,c",
    "html": "<b>&'\"</b>",
    "cjk": "日本語テキスト😀a",
    "odd": "\x00\x7f\u0080\u200b",
    "digits": "１２３",
    "empty": "",
    "l": [3, 1, 2],
    "names": ["b", "A", "c", "B", "a"],
    "mixed": [1, "a", None, 2.5, True, [1], {"k": 1}],
    "pairs": [[1, 2], [3, 4]],
    "rows": [{"n": "x", "v": 2, "d": {"e": 1}}, {"n": "Y", "v": 1, "d": {"e": 2}},
             {"n": "y", "v": 3}],
    "d": {"a": 1, "B": 2, "c": {"d": [1, 2]}},
    "keys": {"items": 1, "get": 5, "x y": 3, "": 0},
}
EXPRESSIONS = r"""
1 + 2 * 3 - 4 | -2 ** 2 | -2 ** n | 2 ** 3 ** 2 | 7 // 2 | -7 // 2 | 7 % -3 | -7.5 // 2 | 7.5 % -2 | 1 / 3 | 6 / 3 | 2 ** -1 | 0 ** 0 | 2.0 ** 0.5
1 / 0 | 1 // 0 | 1 % 0 | 1.5 // 0 | 0 ** -1 | 10.0 ** 400 | t + 1 | -t | big + 1 | big * big | 2 ** 200 | 2 ** 200 // 3 ** 50 | -2 ** 70 // 7 | 2 ** 70 % 1000003 | 2 ** 64 / 3
123456789012345678901234567890 - 1 | 0x1F + 0o17 + 0b11 + 1_000 | 1e16 | 1e15 | 1e-5 | 1e-4 | 0.1 + 0.2 | 5e-324 | 1e308 * 10 | 100.0 | 2 ** 0.5 | 1 == 1.0 == true | 9007199254740993 == 9007199254740992.0
'1' ~ 2 + '3' | 'a' + 1 | 'a' + no | l + [4] | l + (4,) | 'ab' * 3 | 3 * 'ab' | 'a' * -1 | [0] * 3 | (1, 2) * 2 | nothing + 1 | 'a' ~ nothing ~ no ~ true ~ 1.0
1 < 2 < 3 | 1 < 3 < 2 | 'a' < 'b' | 'a' < 1 | [1, 2] < [1, 3] | (1,) < (1, 2) | no == no | no < 1 | nothing == nothing2 | nothing < 1 | 'a' in 'abc' | 1 in 'abc' | 'k' in {'k': 1} | [1] in {} | 2 not in l
not 0 | not '' | not [] and 1 | 0 or 'x' | 1 and [] | 1 if t else 2 | 1 if no | (1 if no) is defined | 'a' if empty else 'b' if no else 'c'
s[0] | s[-1] | s[99] is defined | s[1:5] | s[::-1] | s[::3] | s[5:1] | s[10:2:-2] | cjk[2] | cjk[-2:] | cjk[::-1] | l[1:] | l[::-1] | l[5:] | l[::0] | l['a'] is defined | (1, 2, 3)[1:] | n[0] is defined | no[1:] | d[1:]
range(3) | range(3) | list | range(10, 0, -3) | list | range(0) | list | range(1, 10)[2:5] | range(200000) | range(1, 2, 0) | 3 in range(5) | range(3)[1] | range(5) | length
d.a | d['a'] | d.zz is defined | d.zz.y | d.items() | d.keys() | d.values() | keys.items is callable | keys['items'] | keys.get('items') | d.get('zz') | d.get('zz', 3) | d | length | d['c'].d[1] | d.c['d'][0] | d | list | keys['x y'] | d.copy() | d.pop | d.update({}) | d.__class__
l.append(1) | l.index(1) | l.index(9) | l.count(1) | l.sort() | l.copy() | rows[0].n | rows.0.v | (1, 2).index(2) | mixed[6].k | s.__len__() | n.bit_length() | x.is_integer() | n.real | y.imag
d | string | mixed | [1.0, 2e50, no, t, 'a', "it's", 'say "x"', 'both \'"'] | (1,) | () | {} | [] | {1: 2, (1, 2): [3]} | odd | [odd] | [blank] | [u] | ['é', '\u200b', '\U0001F600'] | nothing | [nothing]
'%d|%5d|%-5d|%05d|%+d|% d' % (n, n, n, n, n, n) | '%x %X %#x %o' % (255, 255, 255, 8) | '%e %E %.3e' % (x, x, y) | '%g %.3g %#g' % (x, wide, x) | '%f %.2f %08.3f' % (x, y, y) | '%s %r %a' % (u, u, u) | '%.3s|%10s|%-10s|' % (s, empty, 'x') | '%c%c' % (65, 'é') | '%(a)s' % d | '%%' % () | '%d' % 'x' | '%d %d' % (1,) | 'x' % 1 | 'x' % [] | '%*d' % (5, n) | '%5%' % ()
'{} {}'.format(1, 'a') | '{0}{1}{0}'.format('x', 'y') | '{a.n} {b[0]}'.format(a=rows[0], b=l) | '{:>8}|{:<8}|{:^8}|{:*^9}'.format('a', 'b', 'c', 'd') | '{:d} {:x} {:#b} {:o} {:c}'.format(n, 255, 5, 8, 65) | '{:,} {:_} {:,.2f}'.format(big, big, wide) | '{:+} {: } {:08.3f} {:.1e}'.format(n, n, y, y) | '{:%} {:.1%} {:g} {:.3g} {:.2}'.format(0.5, 0.5, wide, y, 12.0) | '{!r} {!s} {!a}'.format(u, u, u) | '{:{}}'.format('a', 5) | '{{}}'.format() | '{}'.format() | '{' .format(1) | '{:q}'.format(1) | '{:5}'.format(no) | '{:010,}'.format(n) | '{:=+9}'.format(n) | '{} {1}'.format(1, 2) | '{0.__class__}'.format(1) | '{0.__class__.__mro__}'.format(1)
s | upper | s | lower | s | title | s.title() | u | upper | u | lower | u | title | u.title() | u | capitalize | u.swapcase() | u.casefold() | 'ΑΣ ΑΣ.' | lower | 'ǆ' | capitalize | 'ß' | title | s | capitalize | no | upper | n | string | upper
blank | trim | [blank | trim] | s | trim('Hqu[]') | [blank.strip()] | [blank.lstrip()] | [blank.rstrip()] | 'xxaxx'.strip('x') | s.split() | s.split(' ', 1) | csv.split(',') | csv.rsplit(',', 1) | csv.split('') | blank.split() | blank.split(maxsplit=1) | blank.rsplit(none, 1) | lines.splitlines() | lines.splitlines(true) | ', '.join(names) | ','.join(l) | s.partition(' ') | s.rpartition(' ') | s.partition('zz') | s.replace('o', '0') | s.replace('o', '0', 1) | s.replace('', '-') | s | replace('o', '0') | n | replace(7, 8)
s.startswith('Hello') | s.startswith(('x', 'H')) | s.startswith('W', 6) | s.endswith(']') | s.find('o') | s.find('o', 5) | s.rfind('o') | s.index('zz') | cjk.find('😀') | s.count('o') | s.count('') | 'a'.center(6, '*') | 'ab'.center(5) | 'a'.ljust(4) ~ '|' | 'a'.rjust(4) | '-7'.zfill(5) | '7'.zfill(3) | 'a\tb'.expandtabs(4) | s.removeprefix('Hello ') | s.removesuffix('[qux]') | s.isdigit() | digits.isdigit() | '½'.isnumeric() | u.isalpha() | 'aB'.islower() | 'A1'.isupper() | 'Ab Cd'.istitle() | empty.isascii() | 'x_1'.isidentifier() | odd.isprintable()
s | length | cjk | length | n | length | l | first | l | last | empty | first is defined | l | list | s | list | length | d | first | l | reverse | list | s | reverse | (l | map('string')) | reverse | l | join('-') | mixed | join('|') | l | join | rows | join(',', attribute='n') | l | sum | rows | sum(attribute='v') | l | sum(start=10) | [[1], [2]] | sum(start=[]) | names | sum
names | sort | names | sort(reverse=true) | names | sort(case_sensitive=true) | rows | sort(attribute='v') | map(attribute='n') | list | rows | sort(attribute='n,v') | map(attribute='v') | list | mixed | sort | d | dictsort | d | dictsort(true) | d | dictsort(by='value', reverse=true) | names | unique | list | names | unique(true) | list | l | min | l | max | names | min | rows | max(attribute='v') | [] | min is defined | rows | groupby('n') | map('first') | list | rows | groupby('d.e', default=0) | list | length | l | sort(reverse='x')
l | batch(2) | list | l | batch(2, 0) | list | l | slice(2) | list | l | slice(2, 0) | list | l | map('string') | list | names | map('upper') | join | rows | map(attribute='d.e', default='-') | join(',') | names | map('shout') | list | l | select('odd') | list | l | reject('gt', 1) | list | mixed | select | list | mixed | select('string') | list | rows | selectattr('d') | list | length | rows | selectattr('v', 'gt', 1) | map(attribute='n') | list | rows | rejectattr('d', 'defined') | list | length | no | select | list | nothing | map('upper') | list | l | map('upper') is iterable | l | map('string') | length | (l | map('string')) | first
2.5 | round | 3.5 | round | 2.675 | round(2) | -2.5 | round | 2.567 | round(1, 'floor') | 2.511 | round(2, 'ceil') | 7 | round | 1250 | round(-2) | 1234.5 | round(-2) | 2.5 | round(none) | 'x' | round | '42' | int | '4x' | int(7) | '3.9' | int | ' 8 ' | int | '0x1A' | int(0, 16) | '0b11' | int(0, 0) | '１２' | int | '1_000' | int | 1e300 | int | no | int(5) | nothing | int | '1e3' | float | 'inf' | float | 'x' | float(1.5) | y | abs | no | abs | big | int | 3.99 | int | -3.99 | int
nothing | default('d') | no | default('d') | no | default('d', true) | empty | default('d', boolean=true) | d.zz | default(1) | nothing.x | default(1) | s | truncate(9) | s | truncate(9, true) | s | truncate(12, false, '!', 0) | s | truncate(2) | s | indent | lines | indent(2) | lines | indent(2, true) | lines | indent(2, first=true, blank=true) | lines | indent('> ') | s | center(40) | s | wordcount | u | wordcount | '%s-%s' | format(1, 2) | '%(a)s' | format(a=3) | s | string | n | string | 1500000 | filesizeformat | 1500000 | filesizeformat(true) | d | items | list | nothing | items | list | l | items
html | e | html | escape | string | (html | e) + '<' | ('<' | safe) + '<' | ('<' | e) | replace('&', '+') | html | striptags | s | urlencode | {'a b': '1/2'} | urlencode | {'a': 1, 'b': no} | xmlattr | ('a' | e) is escaped | rows[0] | attr('n') is defined | s | attr('upper') is callable | s | attr('__class__') is defined
mixed | tojson | d | tojson(indent=2) | [[1, [2]], {}, []] | tojson(indent=1) | u | tojson | u | tojson(ensure_ascii=true) | odd | tojson | html | tojson | {'b': 1, 'a': [1.0, 1e22, 1e-7]} | tojson(sort_keys=true) | d | tojson(separators=(',', ':')) | nothing | tojson | (1, 2) | tojson | {1: 2, no: 3, t: 4, 1.5: 5} | tojson | {(1, 2): 3} | tojson | d | tojson(indent='\t') | [1e999] | tojson | l | map('string') | tojson
n is odd | n is even | n is divisibleby 7 | n is divisibleby(2) | s is odd | no is none | nothing is undefined | nothing is none | t is boolean | t is number | t is integer | x is float | n is number | s is string | d is mapping | l is sequence | s is sequence | d is sequence | n is iterable | nothing is iterable | range is callable | s is callable | 'a' is lower | 'A' is upper | 'a' is eq 'a' | 1 is lt 2 | 2 is ge(2) | 'a' is in 'abc' | 1 is not in l | no is sameas none | 1 is sameas 1 | 'trim' is filter | 'shout' is filter | 'odd' is test | n is not string | t is true | n is true | n is shout
dict(a=1, b=2) | dict([('a', 1)]) | dict(d, a=9) | dict(1) | namespace(a=1).a | namespace(a=1) | namespace(_a=1) | namespace(d).B | dict.fromkeys(l) | raise_exception('no, thanks') | raise_exception() | nothing() | s() | {'a': 1, 'a': 2} | {[1]: 2} | [1, 2,] | (1, 2,) | 'a' 'b' | "\x41\u00e9\101\q\n" | 'a\
b' | 'é\é' | s.upper | l | map('upper') | joiner('|')() | cycler('a', 'b').next() | cycler('a', 'b').current
"""
BLOCKS = r"""
{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}
{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }} {{ loop }}{% endfor %}
{% for i in l if i != 1 %}{{ i }}/{{ loop.length }}{{ ',' if not loop.last }}{% else %}none{% endfor %}
{% for i in [] %}{% else %}none{% endfor %}{% for i in l %}{% continue %}{% else %}else after continue{% endfor %}{% for i in l %}{% break %}{% else %}else after break{% endfor %}
{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for a, b in l %}{% endfor %}
{% for a, b in [[1]] %}{{ a }}{% endfor %}
{% for x in l|map('string') %}{{ loop.length }}{{ x }}{{ loop.last }}{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for c in 'aé' %}[{{ c }}]{% endfor %}
{% for n in [{'v': 1, 'c': [{'v': 2, 'c': []}]}] recursive %}{{ n.v }}@{{ loop.depth }}{{ loop.depth0 }}({{ loop(n.c) }}){% endfor %}
{% for i in l %}{% set x = i %}{% endfor %}{{ x }}{% set x = 1 %}{% for i in l %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% if true %}{% set a = 1 %}{% endif %}{{ a }}{% if false %}{% set b = 1 %}{% endif %}{{ b is defined }}{% for i in l %}{% if i == 1 %}{% set c = 1 %}{% endif %}{{ c is defined }}{% endfor %}
{{ n }}{% for i in [1] %}{{ n }}{% endfor %}{% set n = 'set later' %}{% for i in [1] %}{{ n }}{% endfor %}{{ n }}
{% for i in [1] %}{{ n }}{% endfor %}{% set n = 'later' %}{{ n }}
{% set ns = namespace(n=0, l=[]) %}{% for i in l %}{% set ns.n = ns.n + i %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.n }}{{ ns.l }}{{ ns }}{{ ns.zz is defined }}
{% set d.a = 1 %}
{% set a, b = 1, 2 %}{% set b, a = a, b %}{{ a }}{{ b }}{% set (c, e) = 'xy' %}{{ c }}{{ e }}{% set t = 1, %}{{ t }}
{% set x %}  kept {{ n }} {% endset %}[{{ x }}]{% set y | trim | upper %} loud {% endset %}[{{ y }}]{% set ns = namespace() %}{% set ns.x %}in{% endset %}{{ ns.x }}
{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c=3) }} {{ f() }} {{ f(b=1, a=0) }} {{ f.name }} {{ f.arguments }} {{ f }}
{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, k=4) }}{{ f(*l, **{'z': 1}) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, z=2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, a=2) }}
{% macro f(a, b=c, c=1) %}{{ b }}{{ c }}{% endmacro %}{{ f(1) }}
{% macro f(x) %}{{ caller(x) }}{{ caller is defined }}{% endmacro %}{% call(y) f(3) %}got {{ y }}{% endcall %}
{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}
{% macro f() %}{{ x }}{{ outer is defined }}{% endmacro %}{% set x = 1 %}{{ f() }}{% set x = 2 %}{{ f() }}{% for outer in l %}{{ f() }}{% endfor %}
{% for i in l %}{% macro g() %}{{ i }}{% endmacro %}{{ g() }}{% endfor %}{{ g is defined }}
{% filter upper | replace('A', '4') %}banana {{ n }}{% endfilter %}{% filter length %}x{% endfilter %}
{% with a = 1, b = n %}{{ a }}{{ b }}{% set c = 3 %}{% endwith %}{{ a is defined }}{{ c is defined }}{% with %}{% set n = 0 %}{% endwith %}{{ n }}{% with n = 1, z = n %}{{ n }}{{ z }}{% endwith %}
{% block a %}[{{ n }}{{ loop is defined }}]{% endblock a %}{% set q = 5 %}{% block b %}{{ q }}{% endblock %}
{% print n, l %}{% autoescape false %}{{ html }}{% endautoescape %}{% raw %}{{ x }}{% if %}{% endraw %}
a{# c #}b{#- c -#} d {#+ c #}
  {% if t %}
x
  {% endif %}
y  {%- if t -%}  z  {%- endif -%}  w
  {%+ if t %}plus{% endif +%}
next
  {{ n }}  
 {{- n -}} 
x
{% generation %}a{% set q = 1 %}{{ q }}{% endgeneration %}{{ q is defined }}{% for i in l %}x{% generation %}é{{ i }}{% endgeneration %}{% endfor %}{% generation %}{% endgeneration %}
{% set x = 1 %}{% if x is shout %}{% endif %}
{% if false %}{{ 1 | shout }}{% endif %}ok
{{ 1 | shout }}
{% include 'x' %}
{% if false %}{% include 'x' %}{% import 'x' as y %}{% from 'x' import y %}{% endif %}ok
{% for loop in l %}{% endfor %}
{% set loop = 1 %}{{ loop }}
{% break %}
{% macro f() %}{% break %}{% endmacro %}
{% if t %}
{% for i in l %}{{ i }
{{ 'a }}
{{ (1 }}
{{ 1 2 }}
{{ }}
{% %}
{% set 1 = 2 %}
{% set true = 2 %}
{{ f(a=1, a=2) }}
{{ f(a=1, 2) }}
{% macro f(a=1, b) %}{% endmacro %}
{% endfor %}
{{ 1 is is defined }}
{# never
{% raw %}never
"""


def render(template):
    try:
        values = copy.deepcopy(VALUES)
        compiled = reference._cached_compile_jinja_template(template)
        text, spans = reference._render_with_assistant_indices(compiled, None, None, None, False,
                                                               **values)
        text.encode()
        if " at 0x" in text or "<class" in text:
            return {"error": "the reference prints an address"}
        row = {"text": text}
        if spans:
            row["assistant_spans_bytes"] = [[len(text[:first].encode()),
                                             len(text[:end].encode())] for first, end in spans]
        return row
    except Exception as error:  # whatever it is, the template is refused
        return {"error": f"{type(error).__name__}: {error}".split(" at 0x")[0]}


def split(line):
    """Expressions of a line, between ' | ' that are not filters: a filter's name follows those."""
    filters = set(reference._cached_compile_jinja_template("").environment.filters) - {"d"} | {
        "shout"
    }
    parts = []
    for part in line.split(" | "):
        word = part.split("(")[0].split(" ")[0].split(".")[0]
        if parts and word in filters:
            parts[-1] += " | " + part
        else:
            parts.append(part)
    return parts


def main():
    json.dump({"case": "values", "variables": VALUES}, sys.stdout, ensure_ascii=False)
    print()
    lines = EXPRESSIONS.strip().replace("\\\n", "\\\0").split("\n")
    for line in lines:
        for expression in split(line.replace("\0", "\n")):
            template = "{{ " + expression + " }}"
            print(json.dumps({"template": template, **render(template)}, ensure_ascii=False))
    blocks = BLOCKS.strip("\n")
    start = blocks.index("  {% if t %}\nx")
    end = blocks.index("{% generation %}a")
    for template in [
            *blocks[:start].strip("\n").split("\n"), blocks[start:end], *blocks[end:].split("\n")
    ]:
        print(json.dumps({"template": template, **render(template)}, ensure_ascii=False))


if __name__ == "__main__":
    main()
