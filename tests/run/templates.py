"""templates.py: conversations in a run. The start shows where the template is from, and the first conversation with what is learned of it;
the time that a template tells is that of the run's first day, also when it goes on on another; another template is other data; columns
have the file's names."""
import json
import os
import subprocess

import runs

DAY = "{{ strftime_now('%d.%m.%Y') }}"
TURNS = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"

SAVES = "checkpoint.every=2"


def write(text, name):
    folder = runs.fresh("files")
    folder.mkdir()
    path = folder / name
    path.write_text(text)
    return path


talks = [{
    "id": i, "messages": [{"role": "user", "content": f"question {i}"},
                          {"role": "assistant", "content": "an answer " * (1 + i % 3)}]
} for i in range(40)]
rows = write("".join(json.dumps(row) + "\n" for row in [{"text": "no talk"}, *talks]),
             "talks.jsonl")
plain, dated = write(TURNS, "plain.jinja"), write(DAY + TURNS, "dated.jinja")


def config(template, source=rows, more=""):
    return runs.write_yaml(
        "model: {architecture: llama, layers: 1, hidden: 16, heads: 2, ffn: 32, max_positions: 64}\n"
        f"data: {{train: [{source}], tokenizer: bytes, sequence_length: 64, chat_template: {template}{more}}}\n"
        "train: {steps: 4, batch_size: 2, micro_batch_size: 1}\nshard: {ranks: 1}\n"
        "optimizer: {schedule: constant, learning_rate: 1e-3, warmup_steps: 0}\ncheckpoint: {path: run}\nlog: {every: 1}\n"
    )


def the_start_shows_what_is_learned():
    run = runs.train_well(config(plain), "train.steps=1")
    for words in (
            f"chat template: {plain}",
            f"line 2 of {rows}",
            "| <user>question 0</user>",
            "| <assistant>⟦an answer </assistant>⟧",
            "keys of rows without effect: id (40)",
    ):
        runs.expect(words in run.output, f"the start lacks '{words}': {run.output}")
    runs.expect("chat_now: null" in (run.folder / "run.yaml").read_text(),
                "a time is kept that nobody asks for")


def the_day_stays_that_of_the_first_start():
    east, west = ({**os.environ, "TZ": zone} for zone in ("UTC-14", "UTC+12"))  # never the same day
    first = runs.train_well(config(dated), SAVES, "train.steps=2", env=east)
    day = [
        line for line in (first.folder / "run.yaml").read_text().split("\n") if "chat_now" in line
    ][0].split('"')[1]
    runs.expect(f"which stays {day} for this run (data.chat_now)" in first.output,
                f"{day}: {first.output}")
    again = runs.train_well(config(dated), SAVES, folder=first.folder, env=west)
    runs.expect(again.metrics[-1]["step"] == 4 and f"which stays {day}" in again.output,
                f"another day: {again.output}")
    straight = runs.train_well(config(dated), f"data.chat_now={day}")
    runs.expect(straight.metrics[-1]["loss"] == again.metrics[-1]["loss"],
                "the text has changed with the day")
    other = runs.train(config(dated), SAVES, "train.steps=8", "data.chat_now=2020-01-01",
                       folder=first.folder)
    runs.expect(other.code == 2 and "data.train has changed" in other.message,
                f"another time: {other.message}")
    other = runs.train(config(plain), SAVES, "train.steps=8", folder=first.folder)
    runs.expect(other.code == 2 and "data.train has changed" in other.message,
                f"another template: {other.message}")


def evaluate(*arguments, zone="UTC-14"):
    """Scores, and what is said beside them."""
    done = subprocess.run([runs.COMMAND, "eval", *arguments, "--json"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, env={**os.environ, "TZ": zone})
    runs.expect(done.returncode == 0, f"{arguments}: {done.returncode} {done.stderr}")
    return done.stdout, done.stderr


def a_run_is_evaluated_with_its_own_day():
    run_yaml = config(dated, more=f", validation: [{rows}]")
    text = run_yaml.read_text()
    for more, day in ((", chat_now: 2001-02-03", "2001-02-03"), ("", None)):
        folder = runs.fresh()
        run_yaml.write_text(
            text.replace(f"{dated}", f"{dated}{more}").replace("path: run", f"path: {folder}"))
        runs.train_well(run_yaml, folder=folder, env={**os.environ, "TZ": "UTC-14"})
        day = day or [
            line for line in (folder / "run.yaml").read_text().split("\n") if "chat_now" in line
        ][0].split('"')[1]
        east, west = (evaluate(run_yaml, zone=zone) for zone in ("UTC-14", "UTC+12"))
        runs.expect(east == west and not east[1], f"of the run of {day}: {east} {west}")
        runs.expect(
            evaluate(run_yaml, "--now", day)[0] == east[0], f"not scored with the run's day, {day}")
        runs.expect(evaluate(run_yaml, "--now", "1999-12-31")[0] != east[0], "--now has no effect")
    runs.expect(
        "chat template writes the date" in evaluate(folder / "model", "--data", rows,
                                                    "--chat-template", dated)[1],
        "nobody says that scores change with the day")
    quiet = evaluate(folder / "model", "--data", rows, "--chat-template", plain)
    runs.expect(not quiet[1], f"of a template without a time: {quiet[1]}")
    runs.expect(
        evaluate(run_yaml, "--chat-template", plain, "--data", rows) == quiet,
        "--chat-template has no effect beside RUN.yaml")
    runs.expect(
        evaluate(run_yaml, "--chat-format", "chatml") == evaluate(run_yaml, "--chat-format",
                                                                  "chatml", "--now", "2001-01-01"),
        "--chat-format has no effect beside RUN.yaml's template")


def wrong_settings_are_refused():
    for more, code, *words in (
        (", chat_now: noon", 2, "data.chat_now", "noon"),
        (", chat_format: chatml", 2, "chatml", "keep one"),
        (", columns: {mesages: x}", 2, "mesages", "did you mean messages?"),
        (", columns: {messages: dialog}", 3, "line 2", "`messages`"),
    ):
        run = runs.train(config(plain, more=more))
        runs.expect(run.code == code and all(word in run.message for word in words),
                    f"{more}: {run.code} {run.message}")
    run = runs.train(config(write("{% if x %}", "open.jinja")))
    runs.expect(run.code == 3 and "open.jinja" in run.message and "line 1" in run.message,
                run.message)


def columns_have_the_files_names():
    other = write(
        "".join(
            json.dumps(
                {"dialog": [{"speaker": m["role"], "says": m["content"]}
                            for m in row["messages"]]}) + "\n" for row in talks), "dialog.jsonl")
    same = write("".join(json.dumps({"messages": row["messages"]}) + "\n" for row in talks),
                 "same.jsonl")
    a = runs.train_well(
        config(plain, other, ", columns: {messages: dialog, role: speaker, content: says}"))
    b = runs.train_well(config(plain, same))
    runs.expect([line["loss"] for line in a.metrics] == [line["loss"] for line in b.metrics],
                "columns: other losses")


runs.both(lambda test: test(), [(the_start_shows_what_is_learned, ),
                                (the_day_stays_that_of_the_first_start, ),
                                (a_run_is_evaluated_with_its_own_day, ),
                                (wrong_settings_are_refused, ), (columns_have_the_files_names, )])
runs.finish()
