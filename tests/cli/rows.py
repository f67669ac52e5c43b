"""Rows through the command: rows.py SHARDWISE DATA_FOLDER. Prints what is wrong; exit 1 if anything is."""
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile

SHARDWISE, DATA = sys.argv[1:]
SCRATCH = tempfile.mkdtemp()
failures = []


def check(holds, *what):
    if not holds:
        failures.append(' '.join(str(w) for w in what))


def run(*arguments, code=0):
    done = subprocess.run([SHARDWISE, *arguments], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    check(done.returncode == code, arguments, 'ends with', done.returncode, 'not', code,
          done.stderr)
    return done


def read_npy(path):
    with open(path, 'rb') as file:
        data = file.read()
    n = int.from_bytes(data[8:10], 'little')
    kind = ast.literal_eval(data[10:10 + n].decode())['descr']
    width = int(kind[2:])
    body = data[10 + n:]
    return [int.from_bytes(body[i:i + width], 'little') for i in range(0, len(body), width)]


def write(name, text):
    path = os.path.join(SCRATCH, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8', newline='') as file:
        file.write(text)
    return path


def rows_file(*rows, name='rows.jsonl'):
    return write(name, ''.join(json.dumps(row) + '\n' for row in rows))


def tokenizer(name, template=None):
    """A folder with the tokenizer of lookalikes/NAME, perhaps with another template."""
    folder = os.path.join(SCRATCH, 'tokenizer-' + name)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(os.path.join(DATA, 'lookalikes', name), folder)
    shutil.copy(os.path.join(DATA, 'lookalikes', 'tokenizer.json'), folder)
    if template is not None:
        with open(os.path.join(folder, 'chat_template.jinja'), 'w', encoding='utf-8') as file:
            file.write(template)
    return folder


def tokenize(folder, path, *more, code=0):
    """Ids and marks of the rows; the error where one is wanted."""
    out, mask = os.path.join(SCRATCH, 'o.npy'), os.path.join(SCRATCH, 'k.npy')
    done = run('tokenize', '--tokenizer', folder, path, '-o', out, '--mask', mask, *more, code=code)
    return done if code else (read_npy(out), read_npy(mask), done)


def render(path, *more, code=0):
    done = run('tokenize', '--jsonl', path, '--render', *more, code=code)
    return [json.loads(line) for line in done.stdout.split('\n') if line], done


# ---- templates that look like a known one and are not: each is run ----

EXPECTED = json.load(open(os.path.join(DATA, 'lookalikes', 'expected.json'), encoding='utf-8'))
TALK = os.path.join(DATA, 'lookalikes', 'talk.jsonl')
ANSWERS = {
    'sep-instead-of-newline': ['The third.\n<|im_end|>', 'Silence.<|im_end|>'],
    'begins-with-bos': ['The third.\n<|im_end|>', 'Silence.<|im_end|>'],
    'no-newline-after-turn': ['The third.\n<|im_end|>', 'Silence.<|im_end|>'],
    'user-turn-without-eos': ['The third.\n<|endoftext|>', 'Silence.<|endoftext|>'],
    'llama3-without-bos': ['The third.<|eot_id|>', 'Silence.<|eot_id|>'],
    'llama3-no-trim': ['The third.\n<|eot_id|>', 'Silence.<|eot_id|>'],
    'control-plain-chatml': ['The third.\n<|im_end|>', 'Silence.<|im_end|>'],
}
for name, wanted in EXPECTED.items():
    folder = tokenizer(name)
    ids, marks, done = tokenize(folder, TALK)
    check(ids == wanted['ids'], name, 'gives other ids:', ids)
    [row], _ = render(TALK, '--tokenizer', folder)
    check(row['text'] == wanted['text'], name, 'renders', row)
    said = [row['text'].encode()[a:b].decode() for a, b in row['assistant_spans_bytes']]
    check(said == ANSWERS[name], name, 'has the spans', said)
    n = len(
        run('tokenize', '--tokenizer', folder, '--jsonl', rows_file({'text': ''.join(said)}),
            '--print-ids').stdout.split(','))
    check(sum(marks) == n, name, 'marks', sum(marks), 'ids, not', n)

# A control token in a message is plain text, whatever its template does with the message.
folder = tokenizer('begins-with-bos')
ids, _, _ = tokenize(
    folder,
    rows_file({
        'messages': [{'role': 'user', 'content': 'a<|im_end|>\n<|im_start|>system'},
                     {'role': 'assistant', 'content': '<|begin_of_text|>b'}]
    }))
check([ids.count(i) for i in (336, 333, 334)] == [1, 2, 2],
      'spelled control tokens are taken for control tokens:', ids)

# ---- keys of messages and rows ----

CHATML = tokenizer('control-plain-chatml')
USER, SAYS = {'role': 'user',
              'content': 'What is the tide?'}, {'role': 'assistant', 'content': 'Ebbing.'}
CALL = [{
    'id': 'k1', 'type': 'function', 'function': {'name': 'tide', 'arguments': '{"port": "Brae"}'}
}]
TOOLS = [{'type': 'function', 'function': {'name': 'tide', 'parameters': {'type': 'object'}}}]

_, all_marks, _ = tokenize(CHATML, rows_file({'messages': [USER, SAYS]}))
check(sum(all_marks) > 0, 'nothing is learned')
for without in ({'weight': 0}, {'train': False}, {'weight': 0.0, 'train': False}):
    _, marks, done = tokenize(CHATML, rows_file({'messages': [USER, {**SAYS, **without}]}))
    check(sum(marks) == 0 and len(marks) == len(all_marks), without, 'is learned')
    _, marks, done = tokenize(CHATML, rows_file({'messages': [USER, SAYS], **without}))
    check(sum(marks) == 0, without, 'of a row is learned')
ids, marks, _ = tokenize(
    CHATML, rows_file({'messages': [USER, {**SAYS, 'weight': 0}, USER, {**SAYS, 'weight': 1}]}))
check(sum(marks) == sum(all_marks) and not any(marks[:len(marks) // 2]), 'weight 0 and 1:', marks)

for row, *words in [
    ({'messages': [USER, {**SAYS, 'tool_calls': CALL}]}, 'line 2', 'message 2', '`tool_calls`'),
    ({'messages': [USER, {**SAYS, 'content': '', 'tool_calls': CALL}]}, 'line 2', '`tool_calls`'),
    ({'messages': [USER, {'role': 'assistant',
                          'function_call': CALL[0]['function']}]}, 'line 2', '`function_call`'),
    ({'messages': [USER, {**SAYS, 'reasoning_content': 'Low water is near.'}]}, 'line 2',
     '`reasoning_content`'),
    ({'messages': [USER, {**SAYS, 'thinking': 'Low water is near.'}]}, 'line 2', 'would be lost'),
    ({'messages': [USER, {**SAYS, 'wieght': 0}]}, 'line 2', '`wieght`', '`weight`'),
    ({'messages': [USER, {**SAYS, 'contnet': 'Rising.'}]}, 'line 2', '`contnet`', '`content`'),
    ({'messages': [USER, {**SAYS, 'weight': 0.5}]}, 'line 2', '`weight`'),
    ({'messages': [{**USER, 'content': [{'type': 'image'}]}, SAYS]}, 'line 2', 'image'),
    ({'tools': TOOLS, 'messages': [USER, SAYS]}, 'line 2', '`tools`'),
    ({'documents': [{'title': 'Tides'}], 'messages': [USER, SAYS]}, 'line 2', '`documents`'),
    ({'system': 'One word.', 'prompt': 'What?', 'completion': ' Ebb.'}, 'line 2', '`system`'),
    ({'prompt': 'What?', 'completion': ' Ebb.', 'rejected': ' No.'}, 'line 2', '`rejected`'),
    ({'messages': [USER, {**SAYS, 'labels': 0}]}, 'line 2', '`labels`'),
        *[({'messages': [USER, {**SAYS, key: value}]}, 'line 2', f'`{key}`', '`train: false`')
          for key in ('loss', 'training', 'trainable', 'train_on_turn')
          for value in (False, 0, True)],
    ({'messages': [USER, SAYS], 'training': False}, 'line 2', '`training`', '`train: false`'),
    ({'messages': [USER, SAYS], 'loss_weight': 0}, 'line 2', '`loss_weight`', '`weight: 0`'),
    ({'messages': [USER, {**SAYS, 'role': ''}]}, 'line 2', 'message 2', '`role`'),
    ({'tools': {'name': 'tide'}, 'messages': [USER,
                                              SAYS]}, 'line 2', '`tools`', 'a list of objects'),
    ({'conversation': 'x', 'messages': [USER,
                                        SAYS]}, 'line 2', '`conversation`', '`conversations`'),
]:
    done = tokenize(CHATML, rows_file({'messages': [USER, SAYS]}, row), code=3)
    check(all(word in done.stderr for word in words), words, 'not all in', done.stderr)
for row in ({'tools': [], 'messages': [USER, {**SAYS, 'tool_calls': None}]
             }, {'messages': [USER, {**SAYS, 'tool_calls': [], 'refusal': None}]},
            {'messages': [USER, {**SAYS, 'loss': None, 'mask': False}]}):
    check(
        tokenize(CHATML, rows_file(row))[:2] == tokenize(CHATML,
                                                         rows_file({'messages': [USER, SAYS]}))[:2],
        row, 'is other ids')
*_, done = tokenize(
    CHATML,
    rows_file(*[{'id': i, 'messages': [{**USER, 'name': 'maren'}, SAYS]} for i in range(3)]))
check(
    'id (3)' in done.stderr and 'messages.name (3)' in done.stderr and done.stderr.count('\n') == 1,
    'unread keys:', done.stderr)

# The answers chosen of pairs are learned where they are asked for, as the refusal advises; the
# others are told of.
PAIR = {'prompt': 'What?', 'chosen': ' Ebb.', 'rejected': ' No.'}
TALKS = {'chosen': [USER, SAYS], 'rejected': [USER, {**SAYS, 'content': 'No.'}]}
for row, column, plain in ((PAIR, 'completion', {'prompt': 'What?', 'completion': ' Ebb.'}),
                           (TALKS, 'messages', {'messages': [USER, SAYS]})):
    done = tokenize(CHATML, rows_file(row), code=3)
    check('`chosen` would have no effect' in done.stderr, done.stderr)
    ids, marks, done = tokenize(CHATML, rows_file(row), '--column', f'{column}=chosen')
    check('rejected (1)' in done.stderr, done.stderr)
    check((ids, marks) == tokenize(CHATML, rows_file(plain))[:2], column, 'from chosen:', ids)

# An object over several lines is no row.
done = tokenize(CHATML, write('tall.jsonl', json.dumps({'text': 'The tide.'}, indent=2)), code=3)
check('line 1' in done.stderr and 'a row is one line' in done.stderr, done.stderr)

# A row's own weight is honoured where it is 0; others are told.
*_, done = tokenize(
    CHATML,
    rows_file({'weight': 0.5, 'text': 'The tide.'}, {'weight': 1, 'text': 'The tide.'},
              {'weight': 2.0, 'messages': [USER, SAYS]}))
check('weight (2)' in done.stderr, done.stderr)

# No output takes the place of an input, or of another output.
text, ids = write('in.txt', 'The tide.'), os.path.join(SCRATCH, 'ids.npy')
for outputs in (['-o', ids, '--mask',
                 ids], ['-o', ids, '--documents',
                        os.path.join(SCRATCH, '.', 'ids.npy')], ['-o', ids, '--mask', text]):
    run('tokenize', '--tokenizer', 'bytes', text, *outputs, code=2)
    check(open(text).read() == 'The tide.' and not os.path.exists(ids), outputs)
run('tokenize', '--tokenizer', 'bytes', text, '-o', ids)
before = open(ids, 'rb').read()
run('tokenize', '--tokenizer', 'bytes', '--decode', ids, '-o', ids, code=2)
check(open(ids, 'rb').read() == before, 'a token file is written over by its text')

# Rows under another name are not taken for text.
for name in ('rows.json', 'rows.ndjson', 'rows.JSONL', 'rows.jl'):
    done = tokenize(CHATML, rows_file({'messages': [USER, SAYS]}, name=name), code=3)
    check(name in done.stderr and '.jsonl' in done.stderr, done.stderr)

# A word made of two is no slip of one of them.
*_, done = tokenize(
    CHATML,
    rows_file({
        'prompt_id': 'p', 'conversation_id': 'c', 'message-id': 'm',
        'messages': [USER, {**SAYS, 'weight_id': 1}]
    }))
check(
    'prompt_id (1)' in done.stderr and 'conversation_id (1)' in done.stderr
    and 'messages.weight_id (1)' in done.stderr, done.stderr)

# What a template leaves out altogether is said.
tulu = tokenizer(
    'user-turn-without-eos',
    "{% for m in messages %}{% if m.role == 'user' %}U{{ m.content }}{% elif m.role == 'assistant' %}"
    "A{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %}A{% endif %}"
)
done = tokenize(tulu,
                rows_file({'messages': [{'role': 'system', 'content': 'Be brief.'}, USER, SAYS]}),
                code=3)
check(
    'message 1' in done.stderr and 'system' in done.stderr and 'chat_template.jinja' in done.stderr,
    done.stderr)

for content in ({'text': 'Ebbing.'}, {'value': 'Ebbing.'}, {'height': 3}, {'at': ['Brae']},
                [{'type': 'text', 'content': 'Ebbing.'}]):  # the format writes texts of parts
    done = tokenize(CHATML, rows_file({'messages': [USER, {**SAYS, 'content': content}]}),
                    '--chat-format', 'chatml', code=3)
    check('message 2' in done.stderr and 'would be lost' in done.stderr, content, done.stderr)

parts = tokenizer(
    'begins-with-bos',
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
done = tokenize(
    parts, rows_file({'messages': [{**USER, 'content': [{'type': 'text', 'text': 'What?'}]},
                                   SAYS]}), code=3)
check('message 1' in done.stderr and 'as a list' in done.stderr, done.stderr)

# ---- forms ----

same = tokenize(CHATML,
                rows_file({'messages': [{'role': 'system', 'content': 'Be brief.'}, USER,
                                        SAYS]}))[:2]
for row in (
    {
        'conversations': [{'from': 'system',
                           'value': 'Be brief.'}, {'from': 'human', 'value': USER['content']},
                          {'from': 'gpt', 'value': SAYS['content']}]
    },
    {
        'system': 'Be brief.', 'conversations': [{'from': 'human', 'value': USER['content']},
                                                 {'from': 'gpt', 'value': SAYS['content']}]
    },
    {'prompt': [{'role': 'system', 'content': 'Be brief.'}, USER], 'completion': [SAYS]},
):
    check(tokenize(CHATML, rows_file(row))[:2] == same, row, 'is other ids')
check(
    tokenize(
        CHATML,
        rows_file({
            'dialog': [{'speaker': 'system',
                        'says': 'Be brief.'}, {'speaker': 'user', 'says': USER['content']},
                       {'speaker': 'assistant', 'says': SAYS['content']}]
        }), '--column', 'messages=dialog', '--column', 'role=speaker', '--column',
        'content=says')[:2] == same, 'columns: other ids')
check(
    tokenize(CHATML, rows_file({'body': 'abc'}), '--column',
             'text=body')[0] == tokenize(CHATML, rows_file({'text': 'abc'}))[0], 'body')
check(
    'text and prompt cannot be the same key' in tokenize(CHATML, TALK, '--column', 'text=body',
                                                         '--column', 'prompt=body', code=2).stderr,
    '--column twice for one key')
check('did you mean messages' in tokenize(CHATML, TALK, '--column', 'mesages=x', code=2).stderr,
      '--column mesages')
[alpaca], _ = render(rows_file({'instruction': 'Add.', 'input': '1 2', 'output': '3'}))
check(
    alpaca['text'].endswith('### Instruction:\nAdd.\n\n### Input:\n1 2\n\n### Response:\n3')
    and alpaca['assistant_spans_bytes'] == [[len(alpaca['text']) - 1,
                                             len(alpaca['text'])]], alpaca)

# ---- --render ----

MARKED = write(
    'marked.jinja',
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}[{% generation %}"
    "{{ m.reasoning_content }}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}."
    "{% endgeneration %}]{% else %}<{{ m.content }}>{% endif %}{% endfor %}"
    "{{ tools | length if tools else '' }}{{ documents[0].title if documents else '' }}{{ mood }}"
    "{{ strftime_now('%Y-%m-%d') if dated else '' }}{% if add_generation_prompt %}[{% endif %}")
rows = rows_file({'messages': [USER, {**SAYS, 'reasoning_content': 'é'}]}, {
    'messages': [USER, {'role': 'assistant', 'content': None, 'tool_calls': CALL}], 'tools': TOOLS,
    'documents': [{'title': 'T'}], 'chat_template_kwargs': {'mood': '!'}
}, {'messages': [USER], 'add_generation_prompt': True, 'chat_template_kwargs': {'dated': True}})
shown, _ = render(rows, '--chat-template', MARKED, '--special-tokens', '{"bos_token": "<s>"}',
                  '--now', '2026-11-30', '--set', 'mood=~')
check([row['text'] for row in shown] == [
    '<s><What is the tide?>[éEbbing..]~',
    '<s><What is the tide?>[{"name": "tide", "arguments": "{\\"port\\": \\"Brae\\"}"}.]1T!',
    '<s><What is the tide?>~2026-11-30['
], shown)
check([[row['text'].encode()[a:b].decode() for a, b in row['assistant_spans_bytes']]
       for row in shown] == [['éEbbing..'],
                             ['{"name": "tide", "arguments": "{\\"port\\": \\"Brae\\"}"}.'], []],
      shown)

# Thoughts have all their names; the one that was not there stands first, as transformers puts it.
whole = write(
    'whole.jinja',
    "{% for m in messages %}{{ m.keys() | join(' ') }}|{% endfor %}{% generation %}x{% endgeneration %}"
)
shown, _ = render(
    rows_file(*({'messages': [USER, {**SAYS, key: 'é'}]}
                for key in ('reasoning_content', 'thinking', 'reasoning'))), '--chat-template',
    whole)
check([row['text'] for row in shown] == [
    'role content|thinking role content reasoning_content|x',
    'role content|role content thinking reasoning_content|x',
    'role content|thinking role content reasoning reasoning_content|x'
], shown)

for value, meant in (('False', 'mood=false'), ('True', 'mood=true'), ('None', 'mood=null')):
    _, done = render(rows, '--chat-template', MARKED, '--set', 'mood=' + value, code=2)
    check(meant in done.stderr, value, done.stderr)

refusing = write(
    'refusing.jinja',
    "{% if messages | length > 1 %}{{ raise_exception('Only one, please: ' ~ messages[1].role) }}{% endif %}x"
)
shown, done = render(rows_file({'messages': [USER]}, {'messages': [USER, SAYS]}), '--chat-template',
                     refusing, code=3)
check('Only one, please: assistant' in done.stderr and 'line 2' in done.stderr and len(shown) == 1,
      done)
for bad, word in (("{{ messages | shout }}", 'line 1'), ("a\n{% if x %}\nb\n", 'line 3'),
                  ("{% for i in range(10**9) %}{{ i }}{% endfor %}", 'range')):
    shown, done = render(rows_file({'messages': [USER]}), '--chat-template',
                         write('bad.jinja', bad), code=3)
    check(not shown and word in done.stderr and 'bad.jinja' in done.stderr, bad, done)

# Where the spans are not certain the text is shown, and tokens are refused with the way out.
doubtful = write(
    'doubtful.jinja',
    "{% for m in messages %}{{ '' if loop.last else 'x' }}{{ m.content }}{{ loop.length }}{% endfor %}"
)
[row], _ = render(TALK, '--chat-template', doubtful)
check(
    row['assistant_spans_bytes'] is None and 'generation' in row['uncertain']
    and row['text'].startswith('x Which bell?'), row)
done = tokenize(CHATML, TALK, '--chat-template', doubtful, code=3)
check('generation' in done.stderr and 'doubtful.jinja' in done.stderr and 'line 1' in done.stderr,
      done.stderr)

run('tokenize', '--render', code=2)
run('tokenize', '--jsonl', TALK, '--render', '--print-ids', code=2)
run('tokenize', '--jsonl', TALK, '--render', '--now', 'noon', code=2)
run('tokenize', '--jsonl', TALK, '--render', '--chat-format', 'chatml', '--chat-template', doubtful,
    code=2)
run('tokenize', '--jsonl', TALK, '--render', '--special-tokens', '{', code=2)

shutil.rmtree(SCRATCH)
for failure in failures:
    print('FAILED:', failure)
sys.exit(bool(failures))
