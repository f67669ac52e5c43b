"""kept_template.py: a model's folder has the chat template that the model was trained with, for every reader of such folders, and the tokenizer's
other files and templates as they were."""

import json
import subprocess

import runs

OWN, CHOSEN, TOOLS = "OWN{% for m in messages %}{{ m.content }}{% endfor %}", 'CHOSEN "é" {% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}', "TOOLS"
# What a reader through 64-bit numbers would not write back, and keys that only look like the one.
CONFIG = '{"chat_template_of": "x, \\"chat_template\\": 1", "nested": {"chat_template": "inner"},\n "model_max_length": 1000000000000000019884624838656,\n "chat_template" : %s, "x": 1.50}\n'
rows = runs.fresh("talks").with_suffix(".jsonl")
rows.write_text("".join(
    json.dumps({
        "messages": [{"role": "user", "content": f"question {i}"},
                     {"role": "assistant", "content": "an answer"}]
    }) + "\n" for i in range(20)))
chosen = runs.fresh("chosen").with_suffix(".jinja")
chosen.write_text(CHOSEN)


def shell(*arguments):
    done = subprocess.run([str(runs.COMMAND), *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    runs.expect(done.returncode == 0, f"{arguments}: {done.returncode} {done.stderr}")
    return done.stdout


def render(tokenizer, *arguments):
    return shell("tokenize", "--tokenizer", tokenizer, "--jsonl", rows, "--render", *arguments)


def config(
        data,
        model="architecture: llama, layers: 1, hidden: 16, heads: 2, ffn: 32, max_positions: 64"):
    return runs.write_yaml(
        f"model: {{{model}}}\ndata: {{train: [{rows}], sequence_length: 64, {data}}}\ntrain: {{steps: 2, batch_size: 2, micro_batch_size: 1}}\n"
        "optimizer: {learning_rate: 1e-3, warmup_steps: 0}\nshard: {ranks: 1}\ncheckpoint: {path: run, every: 1}\nlog: {every: 1}\n"
    )


bytes_run = runs.train_well(config("tokenizer: bytes, chat_format: chatml"))


def tokenizer(templates, **files):
    """A folder with a tokenizer of bytes, and with these templates."""
    folder = runs.fresh("tokenizer")
    (folder / "additional_chat_templates").mkdir(parents=True)
    (folder / "tokenizer.json").write_bytes(
        (bytes_run.folder / "model" / "tokenizer.json").read_bytes())
    (folder / "tokenizer_config.json").write_text(CONFIG % json.dumps(templates))
    for name, text in files.items():
        (folder / "additional_chat_templates" / f"{name}.jinja").write_text(text)
    if not files:
        (folder / "additional_chat_templates").rmdir()
    return folder


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*") if path.is_file()
    }


def template_files(folder):
    return {name: text.decode() for name, text in files(folder).items() if name.endswith(".jinja")}


def is_exported(run, what):
    out = runs.fresh("out")
    shell("checkpoint", "export", run.folder, out, "--type", "F32")
    runs.expect(
        files(out) == files(run.folder / "model"),
        f"{what}: an export has other files than model/: {[*files(out)]}")


def a_format_is_written_out():
    for name in ("chatml", "llama2", "llama3", "mistral", "mistral-v1", "zephyr", "gemma"):
        run = runs.train_well(config(f"tokenizer: bytes, chat_format: {name}"),
                              "checkpoint.every=1")
        model = run.folder / "model"
        runs.expect(
            render(model) == render("bytes", "--chat-format", name),
            f"{name}: the model's own template renders otherwise")
        is_exported(run, name)
    named = tokenizer(None)
    raw = (named / "tokenizer_config.json").read_text().replace("{", '{"bos_token": "<<", ', 1)
    (named / "tokenizer_config.json").write_text(raw)
    model = runs.train_well(config(f"tokenizer: {named}, chat_format: llama2")).folder / "model"
    runs.expect(
        "<<[INST] question 0 [/INST] an answer </s>" in render(model)
        and render(model) == render(named, "--chat-format", "llama2"),
        f"a token of its own: {render(model)[:300]}")


def a_text_is_replaced_everywhere():
    for own, more in ((OWN, {}), (OWN, {"rag": "RAG", "tool_use": TOOLS,
                                        "default": OWN}), ([{"name": "default",
                                                             "template": OWN}], {"rag": "RAG"})):
        folder = tokenizer(own, **more)
        run = runs.train_well(config(f"tokenizer: {folder}, chat_template: {chosen}"),
                              "checkpoint.every=1")
        model = run.folder / "model"
        expected = {"chat_template.jinja": CHOSEN
                    } | ({"additional_chat_templates/rag.jinja": "RAG"} if more else {})
        runs.expect(template_files(model) == expected, f"{own} {more}: {template_files(model)}")
        written = (model / "tokenizer_config.json").read_text()
        before, after = (part.strip() for part in (CONFIG % "|").split("|"))
        runs.expect(
            written.startswith(before) and written.strip().endswith(after),
            f"other keys are changed: {written}")
        runs.expect(
            json.loads(written)["chat_template"] == CHOSEN, f"tokenizer_config.json: {written}")
        runs.expect(
            render(model) == render("bytes", "--chat-template", chosen),
            f"{own} {more}: rendered otherwise")
        is_exported(run, f"{own} {more}")
        # made anew, the old folder goes away whole
        again = runs.train_well(config(f"tokenizer: {folder}, chat_template: {chosen}"),
                                "checkpoint.every=1", "train.steps=3", folder=run.folder)
        left = [path.name for path in run.folder.iterdir() if path.name.startswith("model")]
        runs.expect(again.code == 0 and left == ["model"], f"the model that was replaced: {left}")


def names_in_a_list_stay():
    folder = tokenizer([{"name": "tool_use", "template": TOOLS}, {"name": "rag", "template": "RAG"},
                        {"name": "default", "template": OWN}])
    model = runs.train_well(
        config(f"tokenizer: {folder}, chat_template: {chosen}")).folder / "model"
    written = {
        one["name"]: one["template"]
        for one in json.loads((model / "tokenizer_config.json").read_text())["chat_template"]
    }
    runs.expect(written == {"default": CHOSEN, "rag": "RAG"} and not template_files(model),
                f"{written} {template_files(model)}")
    runs.expect(
        render(model) == render("bytes", "--chat-template", chosen), "a list: rendered otherwise")


def without_a_choice_all_is_as_it_was():
    folder = tokenizer(OWN, rag="RAG", tool_use=TOOLS, default=OWN)
    (folder / "additional_chat_templates" / "notes.txt").write_text("of somebody")
    run = runs.train_well(config(f"tokenizer: {folder}"), "checkpoint.every=1")
    kept = {
        name: text
        for name, text in files(folder).items() if name.split("/")[-1] != "notes.txt"
    }
    found = files(run.folder / "model")
    runs.expect({name: found.get(name)
                 for name in kept} == kept and "additional_chat_templates/notes.txt" not in found,
                f"{[*found]}")
    is_exported(run, "no choice")


def adapters_take_it_along():
    base = bytes_run.folder / "model"
    run = runs.train_well(
        config(f"tokenizer: bytes, chat_template: {chosen}",
               f"path: {base}, train: lora, lora: {{rank: 2, alpha: 4}}"), "checkpoint.every=1")
    runs.expect(
        template_files(run.folder / "model") == {"chat_template.jinja": CHOSEN},
        f"{template_files(run.folder / 'model')}")
    scores = [
        shell("eval", *arguments, "--data", rows, "--json")
        for arguments in ((base, "--adapter", run.folder / "model"),
                          (base, "--adapter", run.folder / "model", "--chat-template", chosen))
    ]
    runs.expect(
        scores[0] == scores[1] != shell("eval", base, "--adapter", run.folder / "model",
                                        "--chat-format", "chatml", "--data", rows, "--json"),
        f"with the adapter: {scores}")
    greedy = (base, "--adapter", run.folder / "model", "--chat", "--prompt", "question 1",
              "--greedy", "--max-tokens", "4")
    runs.expect(
        shell("generate", *greedy) == shell("generate", *greedy, "--chat-template", chosen),
        "generate with the adapter: another template")
    out = runs.fresh("merged")
    shell("checkpoint", "merge", base, run.folder / "model", out)
    runs.expect(
        template_files(out) == {"chat_template.jinja": CHOSEN}, f"merged: {template_files(out)}")
    runs.expect(
        json.loads((out / "tokenizer_config.json").read_text()).get("chat_template",
                                                                    CHOSEN) == CHOSEN,
        "merged: tokenizer_config.json")


def a_template_that_is_gone_is_named():
    gone = runs.fresh("gone").with_suffix(".jinja")
    gone.write_text(CHOSEN)
    run = runs.train_well(config(f"tokenizer: bytes, chat_template: {gone}"), "checkpoint.every=1")
    gone.unlink()
    done = subprocess.run([runs.COMMAND, "checkpoint", "export", run.folder,
                           runs.fresh("out")], capture_output=True, text=True)
    runs.expect(
        done.returncode == 3 and str(gone) in done.stderr and "--no-tokenizer" in done.stderr,
        f"gone: {done.returncode} {done.stderr}")
    shell("checkpoint", "export", run.folder, runs.fresh("out"), "--no-tokenizer")


runs.both(lambda test: test(),
          [(test, ) for test in (a_format_is_written_out, a_text_is_replaced_everywhere,
                                 names_in_a_list_stay, without_a_choice_all_is_as_it_was,
                                 adapters_take_it_along, a_template_that_is_gone_is_named)])
runs.finish()
