"""token_cache.py: the cache of tokenized text never changes what is trained and never holds a run up: damage is noticed and mended, and where
there is no place for it tokens are kept in the run's folder."""

import os
import resource
import signal
import subprocess

import runs

MODEL = "architecture: llama, layers: 1, hidden: 8, heads: 2, ffn: 9, max_positions: 32"
ROWS = "".join(
    f'{{"prompt": "{i}", "completion": " is what {"abcdefgh"[i % 8] * (i % 13)} follows"}}\n'
    for i in range(40))


def config(rows=ROWS):
    data = runs.fresh("rows").with_suffix(".jsonl")
    data.write_text(rows)
    return runs.write_yaml(
        f"model: {{{MODEL}}}\ndata: {{train: [{data}], tokenizer: bytes, sequence_length: 32}}\n"
        "train: {steps: 3, batch_size: 4, micro_batch_size: 1}\noptimizer: {schedule: constant}\nshard: {ranks: 1, param_dtype: fp32}\ncheckpoint: {path: run}\nlog: {every: 1}\n"
    )


def environment(**changes):
    """That of the test without a place for caches, and with these."""
    kept = {
        key: value
        for key, value in os.environ.items() if key not in ("HOME", "XDG_CACHE_HOME", "TMPDIR")
    }
    return kept | {key: str(value) for key, value in changes.items()}


CONFIG = config()
straight = runs.train_well(CONFIG, env=environment(XDG_CACHE_HOME=runs.fresh("cache")))


def same(run, what):
    losses = [line["loss"] for line in run.metrics]
    runs.expect(run.code == 0 and losses == [line["loss"] for line in straight.metrics],
                f"{what}: {run.code} {losses} {run.errors}")


def damage_is_mended_with_a_word():
    cache = runs.fresh("cache")
    where = environment(XDG_CACHE_HOME=cache)
    same(runs.train(CONFIG, env=where), "a new cache")
    (tokens, ) = cache.glob("shardwise/tokens/*/tokens.npy")
    raw = bytearray(tokens.read_bytes())
    raw[200:400:2] = bytes(byte ^ 7 for byte in raw[200:400:2])
    for what, damaged in (("bits", bytes(raw)), ("cut", bytes(raw[:300])), ("empty", b"")):
        tokens.write_bytes(damaged)
        run = runs.train(CONFIG, env=where)
        same(run, what)
        runs.expect(run.output.count("in the cache are damaged") == 1, f"{what}: {run.output}")
        run = runs.train(CONFIG, env=where)
        same(run, f"after {what}")
        runs.expect("damaged" not in run.output, f"after {what}: {run.output}")
    runs.expect(len(list(cache.glob("shardwise/tokens/*"))) == 1, "damaged entries are left")


def evaluation_says_so_too():
    cache, text = runs.fresh("cache"), runs.fresh("held").with_suffix(".jsonl")
    text.write_text(ROWS)

    def evaluate():
        command = [runs.COMMAND, "eval", straight.folder / "model", "--data", text, "--json"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=environment(XDG_CACHE_HOME=cache))
        runs.expect(done.returncode == 0, f"eval: {done.returncode} {done.stderr}")
        return done

    first = evaluate()
    (tokens, ) = cache.glob("shardwise/tokens/*/tokens.npy")
    tokens.write_bytes(tokens.read_bytes()[:300])
    mended, again = evaluate(), evaluate()
    runs.expect(first.stdout == mended.stdout == again.stdout,
                f"eval: other scores: {first.stdout} {mended.stdout} {again.stdout}")
    told = f"shardwise: warning: the tokens of {text} in the cache are damaged"
    runs.expect(
        mended.stderr.count(told) == 1 and "made anew" in mended.stderr,
        f"eval does not tell of damage: {mended.stderr}")
    runs.expect("damaged" not in first.stderr + again.stderr,
                f"eval: {first.stderr} {again.stderr}")


def no_place_is_no_hindrance(what, changes):
    where = environment(**changes)
    run = runs.train(CONFIG, "train.steps=2", "checkpoint.every=1", env=where)
    cache = run.folder / "token-cache"
    runs.expect(run.code == 0 and len(list(cache.glob("*/tokens.npy"))) == 1,
                f"{what}: {run.code} {run.errors}")
    runs.expect(
        run.output.count(f"tokens are kept in {cache}") == 1, f"{what}: not told: {run.output}")
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    again = runs.train(CONFIG, "checkpoint.every=1", folder=run.folder, env=where)
    same(again, f"{what}, going on")
    runs.expect(before == {path: path.stat().st_mtime_ns
                           for path in cache.rglob("*")}, f"{what}: the text is tokenized again")


def a_start_that_fails_leaves_nothing():
    run = runs.train(CONFIG, "model.heads=3", env=environment())
    runs.expect(run.code == 2 and not run.folder.exists(),
                f"bad settings: {run.code} {list(run.folder.glob('*'))}")
    run = runs.train(CONFIG, "data.long=error", "data.sequence_length=8", env=environment())
    runs.expect(run.code == 3 and "line 1" in run.message and not run.folder.exists(),
                f"bad data: {run.code} {run.errors}")
    run = runs.train(config(ROWS + "{"), env=environment())
    runs.expect(run.code == 3 and "line 41" in run.message and not run.folder.exists(),
                f"bad row: {run.code} {run.errors}")
    run = runs.train(CONFIG, "--dry-run", env=environment(TMPDIR=runs.fresh("temporary")))
    runs.expect(run.code == 4 and not run.folder.exists(),
                f"no place at all: {run.code} {run.errors}")
    temporary = runs.fresh("temporary")
    temporary.mkdir()
    run = runs.train(CONFIG, "--dry-run", env=environment(TMPDIR=temporary))
    runs.expect(
        run.code == 0 and f"tokens are kept in {temporary}/shardwise-" in run.output
        and not run.folder.exists(), f"dry run: {run.errors}")


def a_start_that_was_killed_is_made_again():
    folder = runs.fresh()
    entry = folder / "token-cache" / f"{'0' * 32}-123.0"
    entry.mkdir(parents=True)
    (entry / "tokens.npy").write_bytes(b"half")
    (folder / ".lock").write_bytes(b"")
    same(runs.train(CONFIG, folder=folder, env=environment()), "a start that was killed")


def a_full_disk_is_named():
    """No file may have more than 4 KiB: neither place takes the tokens."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    cache = runs.fresh("cache")
    large = config(ROWS * 40)
    run = runs.train(large, env=environment(XDG_CACHE_HOME=cache), preexec_fn=limit)
    runs.expect(run.code == 4 and str(cache) in run.message and "token-cache" in run.message,
                f"full disks: {run.code} {run.errors}")
    runs.expect(not run.folder.exists() and not list(cache.glob("shardwise/tokens/*")),
                "full disks: something is left")


def a_cache_of_others_is_read_where_it_cannot_be_written():
    if os.geteuid():
        return
    os.chmod(runs.scratch, 0o755)
    cache, folder = runs.fresh("cache"), runs.fresh("writable")
    runs.train_well(CONFIG, env=environment(XDG_CACHE_HOME=cache))
    folder.mkdir()
    os.chown(folder, 65534, 65534)

    def train(what, name):
        run = folder / name
        done = subprocess.run(runs.arguments(CONFIG, (), run), capture_output=True, text=True,
                              env=environment(XDG_CACHE_HOME=cache), user=65534, group=65534,
                              extra_groups=[])
        if done.returncode in (126, 127) or "Permission denied: '" in done.stderr:
            return None
        same(runs.Run(run, done.returncode, done.stdout, done.stderr), what)
        return run

    try:
        run = train("another's cache", "a")
    except PermissionError:  # the build folder is root's alone
        return
    runs.expect(run is None or not (run / "token-cache").exists(), "another's cache is not used")
    (tokens, ) = cache.glob("shardwise/tokens/*/tokens.npy")
    tokens.write_bytes(b"")
    run = train("another's damaged cache", "b")
    runs.expect(run is None or (run / "token-cache").exists(),
                "another's damaged cache: no other place is taken")
    runs.expect(tokens.read_bytes() == b"", "another's cache is changed")


damage_is_mended_with_a_word()
evaluation_says_so_too()
runs.both(
    no_place_is_no_hindrance,
    [
        ("neither variable", {}),
        ("HOME is a file", {"HOME": CONFIG}),
        ("HOME is a device", {"HOME": "/dev/null"}),
        ("HOME is relative", {"HOME": "home"}),
        ("HOME is empty", {"HOME": "", "XDG_CACHE_HOME": ""}),
        ("XDG_CACHE_HOME is a file", {"XDG_CACHE_HOME": CONFIG, "HOME": runs.fresh("home")}),
        ("XDG_CACHE_HOME is long", {"XDG_CACHE_HOME": "/tmp/" + "long/" * 900}),
    ],
)
a_start_that_fails_leaves_nothing()
a_start_that_was_killed_is_made_again()
a_full_disk_is_named()
a_cache_of_others_is_read_where_it_cannot_be_written()
runs.finish()
