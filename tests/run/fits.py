"""fits.py: a run that fits into a control group's memory runs, one that does not is refused with what it needs, of what that consists, and other
settings that are true: with them it fits. Nothing that was accepted is killed for want of memory. The same of generate and eval, in their own words."""

import re
import sys

import control_group
import runs

LENGTH = 64
MIB = 1 << 20
group = control_group.make()
if not group:
    print("no control group can be made here: what fits is not looked at")
    sys.exit(0)


def config(hidden=64, layers=2, more=""):
    tokens = runs.write_npy(runs.some_tokens(LENGTH * 64 + 1, 256))
    return runs.write_yaml(
        f"model: {{architecture: llama, layers: {layers}, hidden: {hidden}, heads: 4, ffn: {2 * hidden}, vocab: 256, max_positions: 64}}\n"
        f"data: {{train: [{tokens}], sequence_length: {LENGTH}}}\ntrain: {{steps: 4, batch_size: 8, micro_batch_size: 2, threads: 1, restarts: 0{more}}}\n"
        "checkpoint: {path: run, every: 2}\nlog: {every: 2}\n")


def train(yaml, limit, *settings):
    """In a group with room for so many bytes beside what the command itself takes, which it finds taken already."""
    group.limit(limit)
    killed = group.killed()
    folder = runs.fresh()
    done = group.run(
        [runs.COMMAND, "train", yaml, f"checkpoint.path={folder}", "--quiet", *settings])
    runs.expect(done.returncode in (0, 4),
                f"{limit / MIB:.1f} MiB, {settings}: exit code {done.returncode}: {done.stderr}")
    runs.expect(
        group.killed() == killed,
        f"{limit / MIB:.1f} MiB, {settings}: a process was killed for want of memory: {done.stderr}"
    )
    return runs.Run(folder, done.returncode, done.stdout, done.stderr)


def plan(yaml, *settings):
    return runs.train_well(yaml, "checkpoint.every=2", *settings).plan


def need_of(plan):
    return plan["ranks"] * (sum(plan["memory"].values()) + plan["process_bytes"])


def advice_in(message, pattern=r"(?:[a-z_]+\.[a-z_]+=\S+ )+"):
    found = re.search(rf"({pattern})would fit", message)
    return found.group(1).split() if found else []


def bounds(hidden, n_ranks, *settings):
    """Refused a MiB below what is needed, accepted with what the command takes besides, and never killed in between."""
    yaml = config(hidden)
    settings = (f"shard.ranks={n_ranks}", *settings)
    need = need_of(plan(yaml, *settings))
    refused = train(yaml, need - MIB, *settings)
    what = f"{hidden}, {settings}, {need / MIB:.1f} MiB"
    runs.expect(refused.code == 4 and not refused.folder.exists(),
                f"{what}: not refused: {refused.code}")
    words = [
        f"{n_ranks} rank", " planned and ", " beside it for each process", group.limit_file.name
    ]
    runs.expect(all(word in refused.message for word in words), f"{what}: {refused.message}")
    for extra in range(0, 6 * MIB, MIB // 2):
        run = train(yaml, need + extra, *settings)
        if run.code == 0:
            break
    runs.expect(run.code == 0, f"{what}: still refused with {extra / MIB} MiB more: {run.message}")


def advice_is_true(n_ranks, share):
    """Whatever is advised runs; where nothing is, one rank alone does not fit either."""
    yaml = config(96)
    limit = int(need_of(plan(yaml, f"shard.ranks={n_ranks}")) * share)
    run = train(yaml, limit, f"shard.ranks={n_ranks}")
    what = f"{n_ranks} ranks in {limit / MIB:.1f} MiB"
    if run.code == 0:
        return
    changes = advice_in(run.message)
    if changes:
        kept = [] if any(change.startswith("shard.ranks=")
                         for change in changes) else [f"shard.ranks={n_ranks}"]
        followed = train(yaml, limit, *kept, *changes)
        runs.expect(followed.code == 0, f"{what}: {changes} does not fit: {followed.errors}")
    else:
        runs.expect("no other stage, number of ranks" in run.message, f"{what}: {run.message}")
        alone = train(yaml, limit - 2 * MIB, "shard.ranks=1")
        runs.expect(alone.code == 4, f"{what}: nothing is advised, and one rank fits")


def two_small_ranks_run():
    """A run whose processes take some 10 MiB each is no matter of 100 MB."""
    run = train(config(), 100_000_000, "shard.ranks=2")
    runs.expect(run.code == 0, f"2 ranks in 100 MB: {run.message}")


def texts(verb, model, *flags):
    data = runs.fresh("text").with_suffix(".txt")
    data.write_text("some plain text of a few lines\n" * 40)
    arguments = {
        "generate": ["generate", model, "--prompt", "a", "--greedy"],
        "eval": ["eval", model, "--data", data]
    }[verb]
    return lambda limit, *more: (group.limit(limit),
                                 group.run([runs.COMMAND, *arguments, *flags, *more]))[1]


def verb_fits(verb, n_ranks):
    """Refused in small groups with flags that help, which the verb has; accepted in larger ones; never killed."""
    data = runs.fresh("data").with_suffix(".txt")
    data.write_text("more plain text\n" * 100)
    yaml = runs.write_yaml(
        "model: {architecture: llama, layers: 4, hidden: 256, heads: 4, ffn: 1024, max_positions: 512}\n"
        f"data: {{train: [{data}], tokenizer: bytes, sequence_length: 64}}\n"
        "train: {steps: 1, batch_size: 2, micro_batch_size: 1}\ncheckpoint: {path: run, every: 0}\n"
    )
    run = runs.train_well(yaml, "shard.ranks=1")
    start = texts(verb, run.folder / "model", "--ranks", str(n_ranks))
    n_advised = n_refused = 0
    for limit in range(4 * MIB, 120 * MIB, 4 * MIB):
        killed = group.killed()
        done = start(limit)
        what = f"{verb}, {n_ranks} ranks, {limit / MIB} MiB"
        runs.expect(done.returncode in (0, 4) and group.killed() == killed,
                    f"{what}: {done.returncode} {done.stderr}")
        if done.returncode == 0:
            break
        n_refused += 1
        runs.expect(
            "the model does not fit" in done.stderr
            and "shard." not in done.stderr.split("·", 1)[-1], f"{what}: {done.stderr}")
        advice = advice_in(done.stderr, r"(?:--[a-z-]+ \S+ )+")
        if advice:
            n_advised += 1
            kept = {} if "--ranks" in advice else {"--ranks": str(n_ranks)}
            flags = [word for pair in kept.items() for word in pair]
            followed = texts(verb, run.folder / "model", *flags)(limit, *advice)
            runs.expect(followed.returncode == 0 and group.killed() == killed,
                        f"{what}: {advice}: {followed.returncode} {followed.stderr}")
    runs.expect(done.returncode == 0 and n_refused and n_advised,
                f"{verb}, {n_ranks} ranks: {n_refused} refused, {n_advised} with advice")


def doctor_tells():
    group.limit(64 * MIB)
    done = group.run([runs.COMMAND, "doctor"])
    line = next((line for line in done.stdout.splitlines() if line.startswith("memory ")), "")
    runs.expect(group.limit_file.name in line and "runs can take" in line,
                f"doctor in 64 MiB: {line}")


try:
    for test, *arguments in [
        (two_small_ranks_run, ),
        (bounds, 64, 1),
        (bounds, 64, 4),
        (bounds, 256, 2),
        (bounds, 256, 2, "shard.mode=copy"),
        (bounds, 192, 3, "shard.stage=0"),
        (bounds, 192, 2, "train.kernels=baseline"),
            *((advice_is_true, n_ranks, share) for n_ranks in (1, 2, 4, 7)
              for share in (0.3, 0.55, 0.8, 0.95)),
        (verb_fits, "generate", 1),
        (verb_fits, "generate", 3),
        (verb_fits, "eval", 2),
        (doctor_tells, ),
    ]:
        runs.both(test, [tuple(arguments)])
finally:
    group.close()
runs.finish()
