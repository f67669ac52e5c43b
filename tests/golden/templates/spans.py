"""Spans of the assistant for templates without generation marks: writes spans.jsonl. Needs jinja2 3.1.

Each template is edited by hand: the characters U+0001 and U+0002 stand around what the assistant says, in a rendering that is otherwise
the same. So the spans are those of somebody who read the template, not of a comparison of renderings. The conversations are those of
cases.jsonl, and further ones drawn from a seed: texts that look like control tokens, that are empty or begin with line ends, calls with
and without words, thoughts.
"""
import datetime
import json
import os
import random

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

FOLDER = os.path.dirname(os.path.abspath(__file__))


def environment(now):
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                         extensions=[loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    made.filters['tojson'] = tojson
    made.globals['raise_exception'] = raise_exception
    made.globals['strftime_now'] = now.strftime
    return made


# For each template pairs of its text and of what stands there with the two characters.
EDITS = {
    'chatml-default': [(
        "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}",
        "{{- '<|im_start|>' + message['role'] + '\\n' + ('\\x01' if message.role=='assistant' else '') + message['content'] + '<|im_end|>' + ('\\x02' if message.role=='assistant' else '') + '\\n' }}"
    )],
    'chatml-oneline': [(
        "message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'",
        "message['role'] + '\\n' + ('\\x01' if message.role=='assistant' else '') + message['content'] + '<|im_end|>' + ('\\x02' if message.role=='assistant' else '') + '\\n'"
    )],
    'im-sep': [("'<|im_start|>assistant<|im_sep|>' + message['content'] + '<|im_end|>'",
                "'<|im_start|>assistant<|im_sep|>\\x01' + message['content'] + '<|im_end|>\\x02'")],
    'gemma': [(
        "{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}",
        "{{ '<start_of_turn>' + role + '\\n' + ('\\x01' if role=='model' else '')+ message['content'] | trim + '<end_of_turn>' + ('\\x02' if role=='model' else '') + '\\n' }}"
    )],
    'llama2-sys': [("{{ ' '  + content.strip() + ' ' + eos_token }}",
                    "{{ '\\x01 '  + content.strip() + ' ' + eos_token + '\\x02' }}")],
    'mistral-v1': [("{{ message['content'] + eos_token}}",
                    "{{ '\\x01' + message['content'] + eos_token + '\\x02'}}")],
    'mistral-v3-tools': [('{{- "[TOOL_CALLS] [" }}', '{{- "\\x01[TOOL_CALLS] [" }}'),
                         ('{{- "]" + eos_token }}', '{{- "]" + eos_token + "\\x02"}}'),
                         ('{{- " " + message["content"]|trim + eos_token}}',
                          '{{- "\\x01 " + message["content"]|trim + eos_token + "\\x02"}}')],
    'mistral-v7': [(
        "{%- if message['tool_calls'] is defined and message['tool_calls'] | length > 0 %}",
        "{{- '\\x01' }}{%- if message['tool_calls'] is defined and message['tool_calls'] | length > 0 %}"
    ), ("            {{- eos_token }}", "            {{- eos_token + '\\x02' }}"),
                   ("{{- message['content'] + eos_token }}",
                    "{{- message['content'] + eos_token + '\\x02' }}"),
                   ("{{- message['content'][0]['text'] + eos_token }}",
                    "{{- message['content'][0]['text'] + eos_token + '\\x02' }}")],
    'phi3': [("{{message['content'] + '<|end|>' + '\\n'}}",
              "{{'\\x01' + message['content'] + '<|end|>\\x02' + '\\n'}}")],
    'tulu': [("'<|assistant|>\\n'  + message['content'] + eos_token + '\\n'",
              "'<|assistant|>\\n\\x01'  + message['content'] + eos_token + '\\x02\\n'"),
             ("'<|assistant|>\\n'  + message['content'] + eos_token }}",
              "'<|assistant|>\\n\\x01'  + message['content'] + eos_token + '\\x02' }}")],
    'zephyr': [("{{ '<|assistant|>\\n'  + message['content'] + eos_token }}",
                "{{ '<|assistant|>\\n\\x01'  + message['content'] + eos_token + '\\x02' }}")],
    'vicuna-like': [(
        "{{ {'user': 'USER', 'assistant': 'ASSISTANT'}[m.role] + ': ' + m.content.strip() + sep[ns.n % 2] }}",
        "{{ {'user': 'USER', 'assistant': 'ASSISTANT'}[m.role] + ':' + ('\\x01' if m.role=='assistant' else '') + ' ' + m.content.strip() + sep[ns.n % 2] + ('\\x02' if m.role=='assistant' else '') }}"
    )],
    'alpaca-like': [("{{ m.content | trim }}{{ eos_token if not loop.last else '' }}",
                     "\x01{{ m.content | trim }}{{ eos_token if not loop.last else '' }}\x02")],
    'qwen2-tools': [
        ("""    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}""",
         """    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + ('\\x01' if message.role=='assistant' else '') + message.content + '<|im_end|>' + ('\\x02' if message.role=='assistant' else '') + '\\n' }}"""
         ), ("{{- '\\n' + message.content }}", "{{- '\\n\\x01' + message.content }}"),
        ("{{- '\\n<tool_call>\\n{\"name\": \"' }}",
         "{{- '\\n' + ('\\x01' if loop.first and not message.content else '') + '<tool_call>\\n{\"name\": \"' }}"
         ),
        ("        {%- endfor %}\n        {{- '<|im_end|>\\n' }}",
         "        {%- endfor %}\n        {{- '<|im_end|>\\x02\\n' }}")
    ],
    'hermes-tools': [(
        "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}",
        "{{- '<|im_start|>' + message.role + '\\n' + ('\\x01' if message.role=='assistant' else '') + message.content + '<|im_end|>' + ('\\x02' if message.role=='assistant' else '') + '\\n' }}"
    ),
                     ("{{- '\\n<tool_call>\\n' }}",
                      "{{- '\\n' + ('\\x01' if loop.first else '') + '<tool_call>\\n' }}"),
                     ("    {%- endfor %}\n        {{- '<|im_end|>\\n' }}",
                      "    {%- endfor %}\n        {{- '<|im_end|>\\x02\\n' }}")],
    'qwen3-think': [
        ("'<|im_start|>' + message.role + '\\n<think>\\n'",
         "'<|im_start|>' + message.role + '\\n\\x01<think>\\n'"),
        ("{{- '<|im_start|>' + message.role + '\\n' + content }}\n            {%- endif %}\n        {%- else %}\n            {{- '<|im_start|>' + message.role + '\\n' + content }}",
         "{{- '<|im_start|>' + message.role + '\\n\\x01' + content }}\n            {%- endif %}\n        {%- else %}\n            {{- '<|im_start|>' + message.role + '\\n\\x01' + content }}"
         ),
        ("        {%- endif %}\n        {{- '<|im_end|>\\n' }}\n    {%- elif message.role == \"tool\" %}",
         "        {%- endif %}\n        {{- '<|im_end|>\\x02\\n' }}\n    {%- elif message.role == \"tool\" %}"
         )
    ],
    'olmo': [("{{ '<|im_start|>assistant\\n' }}\n{%- if message.get('content'",
              "{{ '<|im_start|>assistant\\n\\x01' }}\n{%- if message.get('content'"),
             ("{%- if loop.last -%}{{ eos_token }}{%- else -%}{{ '<|im_end|>\\n' }}",
              "{%- if loop.last -%}{{ eos_token + '\\x02' }}{%- else -%}{{ '<|im_end|>\\x02\\n' }}")
             ],
    'llama3-tools': [(
        "'<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}",
        "'<|end_header_id|>\\n\\n'+ ('\\x01' if message.role=='assistant' else '')+ message['content'] | trim + '<|eot_id|>' + ('\\x02' if message.role=='assistant' else '') }}"
    ),
                     ("{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}",
                      "{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n\\x01' -}}"),
                     ('{{- "<|eom_id|>" }}', '{{- "<|eom_id|>\\x02" }}'),
                     ('        {%- else %}\n            {{- "<|eot_id|>" }}',
                      '        {%- else %}\n            {{- "<|eot_id|>\\x02" }}')],
    'llama4-like': [(
        "        {{- '<|header_start|>' + message['role'] + '<|header_end|>\\n\\n' }}",
        "        {{- '<|header_start|>' + message['role'] + '<|header_end|>\\n\\n' + ('\\x01' if message.role=='assistant' else '') }}"
    ),
                    ("""            {%- endfor %}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- elif message.tool_calls is""", """            {%- endfor %}
        {%- endif %}
        {{- "<|eot|>" + ('\\x02' if message.role=='assistant' else '') }}
    {%- elif message.tool_calls is"""),
                    ("{{- '<|header_start|>assistant<|header_end|>\\n\\n' -}}",
                     "{{- '<|header_start|>assistant<|header_end|>\\n\\n\\x01' -}}"),
                    ("""        {%- endfor %}
        {{- "<|eot|>" }}
    {%- elif message.role == "tool\"""", """        {%- endfor %}
        {{- "<|eot|>\\x02" }}
    {%- elif message.role == "tool\"""")],
    'deepseek': [
        ("'<|Assistant|><|tool▁calls▁begin|>", "'<|Assistant|>\\x01<|tool▁calls▁begin|>"),
        ("{{'<|Assistant|>' + message['content'] + '<|tool▁calls▁begin|>",
         "{{'<|Assistant|>\\x01' + message['content'] + '<|tool▁calls▁begin|>"),
        ("{{'<|tool▁calls▁end|><|end▁of▁sentence|>'}}",
         "{{'<|tool▁calls▁end|><|end▁of▁sentence|>\\x02'}}"),
        ("{{'<|tool▁outputs▁end|>' + message['content'] + '<|end▁of▁sentence|>'}}",
         "{{'<|tool▁outputs▁end|>\\x01' + message['content'] + '<|end▁of▁sentence|>\\x02'}}"),
        ("{{'<|Assistant|>' + content + '<|end▁of▁sentence|>'}}",
         "{{'<|Assistant|>\\x01' + content + '<|end▁of▁sentence|>\\x02'}}")
    ],
    'harmony': [],
    'command-r': [("<|CHATBOT_TOKEN|>{% if message.tool_calls",
                   "<|CHATBOT_TOKEN|>\x01{% if message.tool_calls"),
                  ("{% else %}{{ message.content|trim }}{% endif %}<|END_OF_TURN_TOKEN|>",
                   "{% else %}{{ message.content|trim }}{% endif %}<|END_OF_TURN_TOKEN|>\x02")],
    'functionary-ts': [
        ("        {{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n",
         "        {{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n        {%- if message.content or message.tool_calls -%}{{ '>>>\\x01' }}{%- else -%}{{ '\\x01' }}{%- endif -%}{%- set mk = namespace(n=0) -%}"
         ),
        ("{{ '>>>all\\n' + message.content }}",
         "{{ 'all\\n' + message.content }}{%- set mk.n = 1 -%}"),
        ("{{ '>>>' + call.function.name + '\\n' }}",
         "{{ ('>>>' if mk.n else '') + call.function.name + '\\n' }}{%- set mk.n = 1 -%}"),
        ("        {{ '<|eot_id|>' }}\n    {%- endif -%}\n{%- endfor -%}",
         "        {{ '<|eot_id|>\\x02' }}\n    {%- endif -%}\n{%- endfor -%}")
    ],
    'granite-docs': [(
        "{{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + (message['content'] or '') + '<|end_of_text|>\\n' }}",
        "{{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + ('\\x01' if message.role=='assistant' else '')+ (message['content'] or '') + '<|end_of_text|>' + ('\\x02' if message.role=='assistant' else '') + '\\n' }}"
    )],
    'xml-calls': [
        ("{{- '<|im_start|>' + message.role }}\n        {%- if message.content is defined",
         "{{- '<|im_start|>' + message.role }}{%- set mk = namespace(n=0) %}\n        {%- if message.content is defined"
         ),
        ("{{- '\\n' + message.content | trim + '\\n' }}",
         "{{- '\\n\\x01' + message.content | trim + '\\n' }}{%- set mk.n = 1 %}"),
        ("{{- '\\n<tool_call>\\n<function='",
         "{{- '\\n' + ('' if mk.n else '\\x01') + '<tool_call>\\n<function='"),
        ("            {{- '</function>\\n</tool_call>' }}\n        {%- endfor %}\n        {{- '<|im_end|>\\n' }}",
         "            {{- '</function>\\n</tool_call>' }}{%- set mk.n = 1 %}\n        {%- endfor %}\n        {{- '<|im_end|>\\x02\\n' }}"
         ),
        ("{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}",
         "{{- '<|im_start|>' + message.role + '\\n' + ('\\x01' if message.role=='assistant' else '') + message.content + '<|im_end|>' + ('\\x02' if message.role=='assistant' else '') + '\\n' }}"
         )
    ],
    'vision-parts': [
        ("<|im_start|>{{ message['role'] }}\n",
         "<|im_start|>{{ message['role'] }}\n{{ '\\x01' if message.role=='assistant' }}"),
        ("{{ message['content'] }}<|im_end|>\n",
         "{{ message['content'] }}<|im_end|>{{ '\\x02' if message.role=='assistant' }}\n"),
        ("{% endif %}{% endfor %}<|im_end|>\n",
         "{% endif %}{% endfor %}<|im_end|>{{ '\\x02' if message.role=='assistant' }}\n")
    ],
    'crlf-file': [(
        "{{ message.content }}",
        "{{ '\\x01' if message.role=='assistant' }}{{ message.content }}{{ '\\x02' if message.role=='assistant' }}"
    )],
}


def harmony(t):
    t = t.replace(
        '{{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }}\n            {%- endif %}\n            {{- "<|start|>assistant to=" }}',
        '{{- "<|start|>assistant\\x01<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }}{%- set mk = 1 %}\n            {%- endif %}\n            {{- "<|start|>assistant" + ("" if mk is defined else "\\x01") + " to=" }}'
    )
    t = t.replace('{{- "<|call|>" }}', '{{- "<|call|>\\x02" }}')
    t = t.replace(
        '{%- if "thinking" in message %}{{- "<|start|>assistant<|channel|>analysis',
        '{%- if "thinking" in message %}{%- set mk = 1 %}{{- "<|start|>assistant\\x01<|channel|>analysis'
    )
    t = t.replace(
        '{{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|return|>" }}',
        '{{- "<|start|>assistant" + ("" if mk is defined else "\\x01") + "<|channel|>final<|message|>" + message.content + "<|return|>\\x02" }}'
    )
    t = t.replace(
        '{{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}',
        '{{- "<|start|>assistant\\x01<|channel|>final<|message|>" + message.content + "<|end|>\\x02" }}'
    )
    return t


def edited(name):
    with open(os.path.join(FOLDER, name + '.jinja'), encoding='utf-8', newline='') as file:
        text = file.read().replace('\r\n', '\n')
    if name == 'harmony':
        return harmony(text)
    for there, instead in EDITS[name]:
        assert there in text, (name, there)
        text = text.replace(there, instead)
    return text


def settled(messages):
    for message in messages:
        message = {key: value for key, value in message.items() if value is not None}
        content, thinking, reasoning = (message.get(key)
                                        for key in ('reasoning_content', 'thinking', 'reasoning'))
        if content is None and (thinking or reasoning):
            message['reasoning_content'] = thinking or reasoning
        if thinking is None and (content or reasoning):
            message['thinking'] = content or reasoning
        yield message


def spans(case):
    """The text, and its spans that are not empty."""
    now = datetime.datetime.fromisoformat(case.get('now') or '2026-11-30T12:00:00')
    seen = dict(case['special_tokens'], **case.get('variables') or {})
    marked = environment(now).from_string(edited(case['template'])).render(
        messages=list(settled(case['messages'])), tools=case.get('tools'),
        documents=case.get('documents'), add_generation_prompt=case['add_generation_prompt'],
        **seen)
    text, found = b'', []
    for byte in marked.encode():
        if byte == 1:
            found.append([len(text), None])
        elif byte == 2:
            found[-1][1] = len(text)
        else:
            text += bytes([byte])
    return text.decode(), [span for span in found if span[0] != span[1]]


TEXTS = [
    'Hello.', '\nstarts with a line', 'ends\n', ' blank ', '<b>', '<', '[x]', 'a</s>b',
    '<|im_end|>', '<think>\nreason\n</think>\n\nanswer', '', ' ', '\n', '\u00e9 \u00c5 \u2603',
    'assistant', '{"a": 1}', 'one\ntwo\n\nthree', '<|im_start|>assistant\nfake<|im_end|>', '>>>all',
    '[/INST] sneaky', 'A', 'hello</think>bye', '.'
]
TOOLS = [{
    'type': 'function', 'function': {
        'name': 'get_weather', 'description': 'd',
        'parameters': {'type': 'object', 'properties': {'city': {'type': 'string'}}}
    }
}]


def draw_conversation(draw):
    with_tools, with_thoughts = draw.random() < .4, draw.random() < .3
    messages = [{'role': 'system', 'content': draw.choice(TEXTS)}] if draw.random() < .4 else []
    for _ in range(draw.choice([1, 1, 2, 2, 3])):
        messages.append({'role': 'user', 'content': draw.choice(TEXTS)})
        if with_tools and draw.random() < .5:
            arguments = draw.choice([{'city': 'Brae', 'n': 3}, {'x': draw.choice(TEXTS)}, {}])
            call = {
                'id': 'abcd0000%d' % draw.randint(1, 9), 'type': 'function',
                'function': {'name': 'get_weather', 'arguments': arguments}
            }
            said = {
                'role': 'assistant', 'content': draw.choice(['', 'Wait.']), 'tool_calls': [call]
            }
            if with_thoughts and draw.random() < .5:
                said['reasoning_content'] = 'Think ' + draw.choice(TEXTS)
            messages += [
                said, {
                    'role': 'tool', 'tool_call_id': call['id'], 'name': 'get_weather',
                    'content': draw.choice(TEXTS)
                }
            ]
        said = {'role': 'assistant', 'content': draw.choice(TEXTS)}
        if with_thoughts and draw.random() < .5:
            said['reasoning_content'] = 'Because ' + draw.choice(TEXTS)
        messages.append(said)
    return messages


def main():
    with open(os.path.join(FOLDER, 'cases.jsonl'), encoding='utf-8', newline='') as file:
        cases = [json.loads(line) for line in file.read().split('\n') if line]
    draw = random.Random(11)
    with open(os.path.join(FOLDER, 'spans.jsonl'), 'w', encoding='utf-8', newline='') as out:
        for case in cases:
            if case['template'] not in EDITS or 'text' not in case:
                continue
            text, found = spans(case)
            assert text == case['text'], (case['template'], case['case'])
            out.write(
                json.dumps({'template': case['template'], 'case': case['case'], 'spans': found}) +
                '\n')
        for name in EDITS:
            tokens = next(case['special_tokens'] for case in cases if case['template'] == name)
            n = 0
            while n < 8:
                case = {
                    'template': name, 'messages': draw_conversation(draw), 'special_tokens': tokens,
                    'add_generation_prompt': draw.random() < .15, 'now': '2026-11-30T12:00:00'
                }
                if any('tool_calls' in message
                       for message in case['messages']) and draw.random() < .7:
                    case['tools'] = TOOLS
                try:
                    text, found = spans(case)
                except (jinja2.exceptions.TemplateError, TypeError):
                    continue
                if any(end is None for _, end in found):
                    continue
                out.write(
                    json.dumps({**case, 'case': 'drawn-%d' % n, 'text': text, 'spans': found}) +
                    '\n')
                n += 1


main()
