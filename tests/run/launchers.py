"""launchers.py: the command started several times on one host by a launcher: as many ranks as processes, the same bits, one voice, one end.

The launchers' variables are set by the test itself, which needs no launcher; mpirun of Open MPI and mpiexec of MPICH are tried too where they are installed.
"""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.environ["SW_SOURCE"], "tests", "golden"))
import check
import runs

runs.will_strike_processes()

FOREIGN = ("OMPI_", "PMI", "MPI_", "SLURM_", "SHARDWISE_")
_quiet = threading.Lock()  # standard output is the process's
CASES = ["llama-tied", "llama-bf16"]


def clean(**variables):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
    return {**kept, **variables}


def of_open_mpi(rank, n):
    return {
        "OMPI_COMM_WORLD_RANK": rank,
        "OMPI_COMM_WORLD_SIZE": n,
        "OMPI_COMM_WORLD_LOCAL_RANK": rank,
        "OMPI_COMM_WORLD_LOCAL_SIZE": n,
        "PMIX_NAMESPACE": f"test.{os.getpid()}.{n}",
        "PMIX_RANK": rank
    }


def of_hydra(rank, n):
    return {"PMI_RANK": rank, "PMI_SIZE": n, "MPI_LOCALRANKID": rank, "MPI_LOCALNRANKS": n}


def of_pals(rank, n):
    return {"PMI_RANK": rank, "PMI_SIZE": n, "PMI_LOCAL_RANK": rank, "PMI_LOCAL_SIZE": n}


def of_slurm(rank, n):
    return {
        "SLURM_PROCID": rank,
        "SLURM_STEP_NUM_TASKS": n,
        "SLURM_LOCALID": rank,
        "SLURM_NODEID": 0,
        "SLURM_STEP_TASKS_PER_NODE": f"{n}(x1)",
        "SLURM_JOB_ID": os.getpid(),
        "SLURM_STEP_ID": n
    }


def of_srun_with_pmi(rank, n):
    return {**of_slurm(rank, n), "SLURM_STEP_ID": 100 + n, "PMI_RANK": rank, "PMI_SIZE": n}


def start(dialect, n, arguments, **others):
    """n processes of one start, in an order that is not that of ranks."""
    processes = {}
    for rank in reversed(range(n)):
        variables = {key: str(value) for key, value in {**dialect(rank, n), **others}.items()}
        processes[rank] = subprocess.Popen(arguments, env=clean(**variables), text=True,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE)
    return [processes[rank] for rank in range(n)]


def end(processes):
    """[(code, output, errors)] by rank."""
    found = []
    for process in processes:
        output, errors = process.communicate(timeout=120)
        found.append((process.returncode, output, errors))
    return found


def judge(case, folder, what):
    report = io.StringIO()
    with _quiet, contextlib.redirect_stderr(report), contextlib.redirect_stdout(report):
        verdict = check.main([str(case), str(folder / "metrics.jsonl"), str(folder / "model")])
    runs.expect(verdict == 0, f"{what}:\n{report.getvalue()}")


reference = {}


def reference_of(name):
    if name not in reference:
        run = runs.train_well(runs.GOLDEN / name / "run.yaml", "shard.ranks=2", env=clean())
        reference[name] = (run.weights(), runs.told(run))
    return reference[name]


def expect_same(name, folder, what):
    run = runs.Run(folder, 0, "", "")
    runs.expect((run.weights(), runs.told(run)) == reference_of(name), f"{what}: other bits")
    judge(runs.GOLDEN / name, folder, what)
    run.forget()


# ---- launchers that the test stands for ----


def as_started_by(dialect, n):
    folder, what = runs.fresh(), f"{dialect.__name__} {n}"
    ended = end(
        start(dialect, n,
              runs.arguments(runs.GOLDEN / "llama-tied" / "run.yaml", ["shard.ranks=auto"],
                             folder)))
    runs.expect(all(code == 0 for code, _, _ in ended), f"{what}: {ended}")
    runs.expect(all(not output and not errors for _, output, errors in ended[1:]),
                f"{what}: not one voice: {ended[1:]}")
    told = ended[0][1]
    runs.expect(f"{n} process" in told and ("mesh:  shard" in told) == (n > 1), f"{what}: {told}")
    expect_same("llama-tied", folder, what)


def refused(dialect, n, words, *settings, **others):
    folder, what = runs.fresh(), f"{dialect.__name__} {n} {settings} {others}"
    ended = end(
        start(dialect, n, runs.arguments(runs.GOLDEN / "llama-tied" / "run.yaml", settings, folder),
              **others))
    runs.expect(all(code == 2 for code, _, _ in ended), f"{what}: {ended}")
    runs.expect(all(word in ended[0][2] for word in words), f"{what}: {ended[0][2]}")
    runs.expect(not folder.exists(), f"{what}: leaves a folder")


def alone_again(**variables):
    """What tells of no launcher: a batch script of Slurm, a single process."""
    run = runs.train(runs.GOLDEN / "llama-tied" / "run.yaml", "shard.ranks=2",
                     env=clean(**variables))
    runs.expect(run.code == 0 and "started by" not in run.output,
                f"{variables}: {run.code} {run.errors}")
    run.forget()


# ---- failures ----

LONG = """\
model: {{architecture: llama, layers: 2, hidden: 32, heads: 2, ffn: 48, vocab: 257, max_positions: 16}}
data: {{train: [{}], sequence_length: 16}}
train: {{steps: 1000000, batch_size: 8, micro_batch_size: 1}}
checkpoint: {{path: run}}
"""


def begin_long(n):
    config = runs.write_yaml(LONG.format(runs.write_npy(runs.some_tokens(801, 257))))
    folder = runs.fresh()
    processes = start(of_open_mpi, n,
                      runs.arguments(config, ["checkpoint.every=100"], folder),
                      PMIX_NAMESPACE=f"long.{os.getpid()}.{folder.name}")
    until = time.monotonic() + 60
    while not (folder / "metrics.jsonl").exists() or not (folder /
                                                         "metrics.jsonl").read_text().count("\n"):
        if time.monotonic() > until or processes[0].poll() is not None:
            raise AssertionError(f"no step: {end(processes)}")
        time.sleep(0.01)
    return processes, runs.children(processes[0].pid)


def gone(pid):
    return not os.path.exists(f"/proc/{pid}") or "\nState:\tZ" in open(f"/proc/{pid}/status").read()


def expect_over(processes, ranks, code, words, what):
    begin = time.monotonic()
    ended = end(processes)
    runs.expect(time.monotonic() - begin < 10, f"{what}: took {time.monotonic() - begin:.1f} s")
    runs.expect([c for c, _, _ in ended if c >= 0] == [code] * sum(c >= 0 for c, _, _ in ended),
                f"{what}: {ended}")
    said = " ".join(errors for _, _, errors in ended)
    runs.expect(all(word in said for word in words), f"{what}: {said}")
    until = time.monotonic() + 10
    while not all(map(gone, ranks)) and time.monotonic() < until:
        time.sleep(0.02)
    runs.expect(all(map(gone, ranks)), f"{what}: ranks are left")


def a_rank_dies():
    processes, ranks = begin_long(3)
    os.kill(ranks[1], signal.SIGKILL)
    expect_over(processes, ranks, 5, ["rank 1 was killed by SIGKILL"], "a rank dies")


def the_leader_dies():
    processes, ranks = begin_long(3)
    processes[0].kill()
    expect_over(processes, ranks, 5, ["the first process", "has died"], "the leader dies")


def all_are_asked_to_end():
    """As launchers hand a signal on: to every process."""
    processes, ranks = begin_long(3)
    for process in reversed(processes):
        process.send_signal(signal.SIGTERM)
    expect_over(processes, ranks, 143, ["stopped by SIGTERM after step"], "asked to end")


# ---- real ones ----


def commands():
    found = []
    for name, options in (("mpirun.openmpi", ["--oversubscribe"]), ("mpiexec.mpich", [])):
        if shutil.which(name):
            if name == "mpirun.openmpi" and os.geteuid() == 0:
                options = options + ["--allow-run-as-root"]
            found.append([name, *options])
    return found


def by(launcher, name, n):
    folder, what = runs.fresh(), f"{launcher[0]} -n {n} {name}"
    arguments = runs.arguments(runs.GOLDEN / name / "run.yaml", ["shard.ranks=auto"], folder)
    if n == 3:  # a shell in between
        arguments = ["sh", "-c", '"$@"; code=$?; exit $code', "sh", *arguments]
    done = subprocess.run([*launcher, "-n", str(n), *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=240, env=clean())
    runs.expect(done.returncode == 0, f"{what}: {done.returncode} {done.stderr}")
    runs.expect(done.stdout.count("started by") == 1, f"{what}: {done.stdout}")
    expect_same(name, folder, what)


def contradicts(launcher):
    done = subprocess.run(
        [*launcher, "-n", "2", *runs.arguments(runs.GOLDEN / CASES[0] / "run.yaml",
                                               ["shard.ranks=4"], runs.fresh())],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, env=clean())
    runs.expect(done.returncode == 2 and done.stderr.count("shard.ranks is 4, but") == 1,
                f"{launcher[0]}: {done.returncode} {done.stderr}")


reference_of(CASES[0])
reference_of(CASES[1])
# One after the other: starts of one process at once would be one start to those launchers that give it no name.
for dialect, n in ((of_open_mpi, 1), (of_open_mpi, 4), (of_hydra, 2), (of_pals, 3), (of_slurm, 2),
                   (of_srun_with_pmi, 3)):
    as_started_by(dialect, n)
refused(of_open_mpi, 2, ["shard.ranks is 4, but mpirun of Open MPI started 2 processes"],
        "shard.ranks=4")
refused(of_open_mpi, 1, ["shard.ranks is 2, but", "started 1 process "], "shard.ranks=2")
refused(of_open_mpi, 2, ["nosuch"], "nosuch.key=1")
refused(of_open_mpi, 1, ["OMPI_COMM_WORLD_SIZE=many", "whole number"], OMPI_COMM_WORLD_SIZE="many")
refused(of_open_mpi, 1, ["OMPI_COMM_WORLD_RANK=7"], OMPI_COMM_WORLD_RANK="7")
refused(of_open_mpi, 1, ["at most 256"], OMPI_COMM_WORLD_SIZE="257")
refused(of_hydra, 2, ["neither openmpi nor mpich"], "shard.ranks=2", SHARDWISE_MPI="x",
        SHARDWISE_TEST_RANKS_PER_HOST=1)
refused(of_slurm, 1, ["SLURM_STEP_TASKS_PER_NODE=2(x"], SLURM_STEP_TASKS_PER_NODE="2(x")
refused(lambda rank, n: {"PMIX_RANK": rank}, 1, ["PMIX_RANK=0", "a launcher"])
refused(lambda rank, n: {"PMI_RANK": rank, "PMI_SIZE": 8}, 1, ["PMI_SIZE=8", "a launcher"])
alone_again(SLURM_PROCID="0", SLURM_LOCALID="0", SLURM_NTASKS="4", SLURM_JOB_ID="7")
alone_again(PMI_SIZE="1", PMI_RANK="0")
a_rank_dies()
the_leader_dies()
all_are_asked_to_end()
runs.both(by, [(launcher, CASES[n % 2], n) for launcher in commands() for n in (1, 2, 3, 4)])
for launcher in commands():
    contradicts(launcher)
runs.finish()
