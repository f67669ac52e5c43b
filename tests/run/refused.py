"""refused.py [--all]: each system call of the command fails with each errno that its manual page lists: in a new run, one that goes on, generate,
tokenize, eval and the actions of checkpoints. For the whole of it, from a place on, and once.

Whatever is refused: no crash, no assertion, no hang; an exit code of the contract; one message that says what and why, with what to try; and
nothing is damaged: the same command without the fault goes on, and comes to the same bits. Without --all: some, by chance.
"""

import errno
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time

import runs

if re.search(r"^SW_SANITIZE:STRING=.", (runs.COMMAND.parent / "CMakeCache.txt").read_text(),
             re.MULTILINE):
    print("left out: a sanitizer's own calls would be refused too, and it gives up")
    sys.exit(77)

REFUSE = runs.COMMAND.parent / "tests" / "helper_refuse"
ALL = "--all" in sys.argv
SEED = int(os.environ.get("SW_SEED", "1"))
SECONDS = float(os.environ.get("SW_SECONDS", "0")) or (300 if ALL else 30)
LONGEST = 60  # seconds of one command, on a busy machine
PATH = "EACCES EFAULT ELOOP ENAMETOOLONG ENOENT ENOMEM ENOTDIR"
# As the manual pages have them (Linux man-pages 6), and what file systems and sandboxes give
# besides. brk and futex are left out: glibc itself ends a process in which they fail.
ERRORS = {
    "access": f"{PATH} EBADF EINVAL EIO EPERM EROFS ETXTBSY",
    "clone": "EAGAIN EINVAL ENOMEM ENOSPC EPERM EUSERS",
    "clone3": "EACCES EAGAIN EBUSY EEXIST EINVAL ENOMEM ENOSPC EOPNOTSUPP EPERM EUSERS ENOSYS",
    "close": "EBADF EINTR EIO ENOSPC EDQUOT",
    "faccessat2": f"{PATH} EBADF EINVAL EIO EPERM EROFS ETXTBSY ENOSYS",
    "fallocate": "EBADF EFBIG EINTR EINVAL EIO ENODEV ENOSPC ENOSYS EOPNOTSUPP EPERM ESPIPE ETXTBSY EDQUOT",
    "fcntl": "EACCES EAGAIN EBADF EBUSY EDEADLK EFAULT EINTR EINVAL EMFILE ENOLCK ENOTDIR EPERM",
    "flock": "EBADF EINTR EINVAL ENOLCK EWOULDBLOCK ENOSYS EOPNOTSUPP EIO",
    "fsync": "EBADF EINTR EIO ENOSPC EROFS EINVAL EDQUOT ENOSYS",
    "ftruncate": "EBADF EACCES EFBIG EINTR EINVAL EIO EISDIR EPERM EROFS ETXTBSY ENOSPC EDQUOT",
    "getcwd": "EACCES EFAULT EINVAL ENAMETOOLONG ENOENT ENOMEM ERANGE",
    "getdents64": "EBADF EFAULT EINVAL ENOENT ENOTDIR EIO",
    "getrandom": "EAGAIN EFAULT EINTR EINVAL ENOSYS",
    "ioctl": "EBADF EFAULT EINVAL ENOTTY",
    "io_uring_enter": "EAGAIN EBADF EBADFD EBADR EBUSY EINVAL EFAULT ENXIO EOPNOTSUPP EINTR ENOMEM EPERM ENOSYS",
    "io_uring_setup": "EFAULT EINVAL EMFILE ENFILE ENOMEM EPERM ENOSYS",
    "lseek": "EBADF EINVAL ENXIO EOVERFLOW ESPIPE",
    "madvise": "EACCES EAGAIN EBADF EBUSY EFAULT EINVAL EIO ENOMEM EPERM",
    "memfd_create": "EFAULT EINVAL EMFILE ENFILE ENOMEM ENOSYS EACCES",
    "mkdir": f"{PATH} EBADF EDQUOT EEXIST EINVAL EMLINK ENOSPC EPERM EROFS",
    "mmap": "EACCES EAGAIN EBADF EEXIST EINVAL ENFILE ENODEV ENOMEM EOVERFLOW EPERM ETXTBSY",
    "mprotect": "EACCES EINVAL ENOMEM",
    "munmap": "EINVAL ENOMEM",
    "newfstatat": f"{PATH} EBADF EINVAL EOVERFLOW EIO",
    "openat": f"{PATH} EBADF EBUSY EDQUOT EEXIST EFBIG EINTR EINVAL EISDIR EMFILE ENFILE ENODEV ENOSPC ENXIO EOPNOTSUPP EOVERFLOW EPERM EROFS ETXTBSY EWOULDBLOCK EIO ESTALE",
    "pidfd_open": "EINVAL EMFILE ENFILE ENODEV ENOMEM ESRCH ENOSYS",
    "poll": "EFAULT EINTR EINVAL ENOMEM",
    "prctl": "EACCES EBADF EBUSY EFAULT EINVAL ENODEV ENXIO EOPNOTSUPP EPERM ERANGE",
    "pread64": "EAGAIN EBADF EFAULT EINTR EINVAL EIO EISDIR ENXIO EOVERFLOW ESPIPE ESTALE",
    "prlimit64": "EFAULT EINVAL EPERM ESRCH",
    "pwrite64": "EAGAIN EBADF EDQUOT EFAULT EFBIG EINTR EINVAL EIO ENOSPC EPERM ESPIPE ESTALE",
    "read": "EAGAIN EBADF EFAULT EINTR EINVAL EIO EISDIR",
    "readlink": f"{PATH} EBADF EINVAL EIO",
    "recvfrom": "EAGAIN EBADF ECONNREFUSED EFAULT EINTR EINVAL ENOMEM ENOTCONN ENOTSOCK",
    "recvmsg": "EAGAIN EBADF ECONNREFUSED EFAULT EINTR EINVAL ENOMEM ENOTCONN ENOTSOCK EMFILE",
    "rename": f"{PATH} EBUSY EDQUOT EINVAL EISDIR EMLINK ENOSPC ENOTEMPTY EEXIST EPERM EROFS EXDEV EIO",
    "renameat2": f"{PATH} EBUSY EDQUOT EINVAL EISDIR EMLINK ENOSPC ENOTEMPTY EEXIST EPERM EROFS EXDEV EIO ENOSYS",
    "rmdir": f"{PATH} EBUSY EINVAL ENOTEMPTY EPERM EROFS EIO",
    "rt_sigaction": "EFAULT EINVAL",
    "rt_sigpending": "EFAULT",
    "sched_getaffinity": "EFAULT EINVAL EPERM ESRCH",
    "sched_setaffinity": "EFAULT EINVAL EPERM ESRCH",
    "sendmsg": "EACCES EAGAIN EBADF ECONNRESET EFAULT EINTR EINVAL ENOBUFS ENOMEM ENOTCONN ENOTSOCK EOPNOTSUPP EPIPE",
    "sendto": "EACCES EAGAIN EBADF ECONNRESET EFAULT EINTR EINVAL ENOBUFS ENOMEM ENOTCONN ENOTSOCK EOPNOTSUPP EPIPE",
    "socketpair": "EAFNOSUPPORT EFAULT EMFILE ENFILE EOPNOTSUPP EPROTONOSUPPORT",
    "statfs": f"{PATH} EBADF EINTR EIO ENOSYS EOVERFLOW",
    "symlink": f"{PATH} EBADF EDQUOT EEXIST EIO ENOSPC EPERM EROFS",
    "sysinfo": "EFAULT",
    "uname": "EFAULT",
    "unlink": f"{PATH} EBUSY EIO EISDIR EPERM EROFS EBADF EINVAL",
    "unlinkat": f"{PATH} EBUSY EIO EISDIR EPERM EROFS EBADF EINVAL",
    "wait4": "EAGAIN ECHILD EINTR EINVAL ESRCH",
    "write": "EAGAIN EBADF EDESTADDRREQ EDQUOT EFAULT EFBIG EINTR EINVAL EIO ENOSPC EPERM EPIPE",
}

# ---- what is run ----

LENGTH = 16
tokens = runs.fresh("text").with_suffix(".txt")
tokens.write_text("".join(f"line {i} of a plain text\n" for i in range(60)))
yaml = runs.write_yaml(
    "model: {architecture: llama, layers: 2, hidden: 32, heads: 2, ffn: 48, max_positions: 32}\n"
    f"data: {{train: [{tokens}], validation: [{tokens}], validation_rows: 2, tokenizer: bytes, sequence_length: {LENGTH}}}\n"
    "train: {steps: 6, batch_size: 4, micro_batch_size: 1, threads: 2, restarts: 0}\nshard: {ranks: 2, deadline: 10}\n"
    "checkpoint: {path: run, every: 2, keep: 1}\nlog: {every: 1}\n")


def train_in(folder, *settings):
    return [
        str(runs.COMMAND), "train",
        str(yaml), f"checkpoint.path={folder}/run", "--quiet", *settings
    ]


class Place:
    """A folder for one command, with a cache of its own."""
    def __init__(self, start=None):
        self.folder = runs.fresh("place")
        if start:
            shutil.copytree(start.folder, self.folder, symlinks=True)
        else:
            self.folder.mkdir()

    def run(self, arguments, rules=(), counts=None):
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        if counts:
            environment["REFUSE_COUNTS"] = str(counts)
        before = [str(REFUSE), *rules, "--"] if rules else []
        process = subprocess.Popen([*before, *arguments], cwd=self.folder, env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors="replace",
                                   start_new_session=True)
        try:
            output, errors = process.communicate(timeout=LONGEST)
            return process.returncode, output, errors
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                output, errors = process.communicate(timeout=20)
                return "hung", output, f"{errors}(ended by SIGTERM: {process.returncode})"
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                return "hung", "", "and not ended by SIGTERM"

    def result(self):
        """What must not differ in the end: weights and losses of the run, and files that were written."""
        found = {}
        for path in [
                *self.folder.glob("run/model/*"), *self.folder.glob("out*"),
                *self.folder.glob("out*/*")
        ]:
            if path.is_file():
                found[str(path.relative_to(self.folder))] = hashlib.md5(
                    path.read_bytes()).hexdigest()
        metrics = self.folder / "run" / "metrics.jsonl"
        if metrics.exists():
            found["losses"] = re.findall(r'"step": (\d+), "loss": ([^,]+)', metrics.read_text())
        return found

    def forget(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Case:
    """A command, where it begins, and what comes of it when nothing is refused."""
    def __init__(self, name, start, arguments):
        self.name, self.start, self.arguments = name, start, arguments
        place = self.begin()
        counts = runs.fresh("counts")
        code, self.output, errors = place.run(arguments(place.folder),
                                              [f"{call}:0:1:0" for call in ERRORS], counts)
        if code == 77:
            print(f"{errors.strip()}; what is refused is not tried")
            sys.exit(77)
        assert code == 0, f"{name}: {code} {errors}"
        self.result = place.result()
        self.counts = {
            call: int(n)
            for call, n in (line.split() for line in counts.read_text().splitlines())
        }
        place.forget()

    def begin(self):
        return Place(self.start)


def what_cannot_be_looked_at_is_left_out():
    """The kernel gives a process one listener: a second one is refused, as all are in a container without seccomp."""
    place = Place()
    rule = ["read:0:1:0", "--"]
    code, _, errors = place.run([str(REFUSE), *rule, str(runs.COMMAND), "--version"], rule[:1])
    runs.expect(code == 77 and "cannot be looked at here" in errors,
                f"a listener that is refused: {code} {errors}")
    place.forget()


def counts_of_a_start():
    """What every command does before it does anything: the loader, libraries, the command itself."""
    place, counts = Place(), runs.fresh("counts")
    place.run([str(runs.COMMAND), "--version"], [f"{call}:0:1:0" for call in ERRORS], counts)
    place.forget()
    return {call: int(n)
            for call, n in (line.split() for line in counts.read_text().splitlines())
            } if counts.exists() else {}


# ---- what is refused ----

START = counts_of_a_start()
# Other words for the reason than strerror's.
SAID = [
    (r"mmap|brk|mprotect|munmap|madvise|clone3?", r".*",
     r"no memory|no address space|could not be started|Resource temporarily unavailable|cannot be had|Cannot allocate memory|does not fit"
     ),
    (r".*", r"EEXIST", r"exists|File exists|No such file"),
    (r".*", r"ENOENT", r"is not there|No such file|shows no entries"),
    (r".*", r"EWOULDBLOCK|EAGAIN", r"a run is using it|Resource temporarily unavailable"),
    (r"openat", r"ENOENT", r"is neither"),
    (r"getcwd", r".*", r"Cannot allocate memory"),  # of realpath, by glibc
    (r"wait4", r"ECHILD", r"SIGCHLD is ignored"),
    (r"sendto|sendmsg|recvfrom|recvmsg", r"EPIPE|ECONNRESET", r"ended before all ranks"),
]
LEADS_ELSEWHERE = {"newfstatat", "access", "faccessat2",
                   "readlink"}  # to the answer that something is not there, whatever the reason
HARD = re.compile(
    r"Assertion|This is a bug|SIGSEGV|SIGABRT|SIGBUS|terminate called|double free|corrupt|AddressSanitizer|runtime error"
)


def is_said(call, name, error, message):
    return os.strerror(error) in message or any(
        re.fullmatch(c, call) and re.fullmatch(n, name) and re.search(said, message)
        for c, n, said in SAID)


def judge(what, call, name, mode, code, output, errors):
    """Is it an end of the contract, in words that fit?"""
    if not runs.expect(code in (0, 2, 3, 4, 5), f"{what}: {code}: {errors[-700:]}"):
        return
    if not runs.expect(not HARD.search(errors), f"{what}: {code}: {errors[-700:]}"):
        return
    if code == 0:
        return
    if call == "write" and mode != "once":  # messages are written too
        return
    told = [line for line in errors.splitlines() if line.startswith("shardwise: error: ")]
    if not runs.expect(len(told) == 1, f"{what}: {code}, not one error: {errors[-700:]}"):
        return
    if call in LEADS_ELSEWHERE:
        return
    runs.expect(is_said(call, name, getattr(errno, name), errors + output),
                f"{what}: {code}, and the reason is not told: {told[0][:400]}")


def difference(found, wanted):
    return {
        key: (found.get(key), wanted.get(key))
        for key in {*found, *wanted} if found.get(key) != wanted.get(key)
    }


def try_one(case, call, name, mode, chance):
    error = getattr(errno, name)
    before, n = START.get(call, 0), case.counts[call]
    if n <= before or (call == "sched_getaffinity"
                       and mode == "from"):  # hwloc asks for ever once it has begun to
        return
    first = before + 1 if mode == "always" else chance.randint(before + 1, n)
    rule = f"{call}:{error}:{first}:{1 if mode == 'once' else 0}"
    what = f"{case.name}, {rule} {name}"
    place = case.begin()
    code, output, errors = place.run(case.arguments(place.folder), [rule])
    judge(what, call, name, mode, code, output, errors)
    # Lines of metrics that cannot be written are left out; of writes, neither may the word be there.
    may_lack_lines = "goes on, without the lines" in errors or call == "write"
    again, output, errors = place.run(case.arguments(place.folder))
    if case.name == "export" and again == 2 and "exists already" in errors:
        again = 0
    if again == 2 and "is finished and has no checkpoint" in errors:  # it could save none, and left its model
        again = 0 if place.result() == case.result else again
    if runs.expect(again == 0, f"{what}: afterwards: {again} {errors[-500:]}"):
        found = place.result()
        if may_lack_lines and {*found.get("losses", [])} < {*case.result.get("losses", [])}:
            found["losses"] = case.result["losses"]
        same = found == case.result and (output == case.output or case.name
                                                  in ("tokenize", "export", "train", "train on"))
        runs.expect(
            same,
            f"{what}: afterwards it is not the same: {difference(found, case.result)} {output[-300:]}"
        )
    place.forget()


def main():
    begun = Place()
    assert begun.run(train_in(begun.folder, "train.steps=4"))[0] == 0
    done = Place()
    assert done.run(train_in(done.folder))[0] == 0
    shutil.rmtree(begun.folder / "run" / "model")
    command = str(runs.COMMAND)
    what_cannot_be_looked_at_is_left_out()
    cases = [
        Case("train", None, train_in),
        Case("train on", begun, train_in),
        Case(
            "generate", done, lambda folder: [
                command, "generate", "run/model", "--prompt", "line", "--max-tokens", "6",
                "--greedy", "--ranks", "2"
            ]),
        Case(
            "eval", done, lambda folder: [
                command, "eval", "run/model", "--data",
                str(tokens), "--sequence-length", "16", "--rows", "4", "--json"
            ]),
        Case(
            "tokenize", done, lambda folder:
            [command, "tokenize", "--tokenizer", "run/model",
             str(tokens), "-o", "out.npy"]),
        Case("verify", done, lambda folder: [command, "checkpoint", "verify", "run"]),
        Case("export", done, lambda folder: [command, "checkpoint", "export", "run", "out"]),
    ]
    chance = random.Random(SEED)
    wanted = [(case, call, name, mode) for case in cases for call, names in ERRORS.items()
              for name in names.split() for mode in ("always", "once", "from")]
    wanted = [item for item in wanted if item[0].counts[item[1]] > START.get(item[1], 0)]
    if not ALL:
        chance.shuffle(wanted)
    else:  # each call with each errno in a new run first
        chance.shuffle(wanted)
        wanted.sort(
            key=lambda item: (item[0].name != "train" or item[3] == "from", item[3] == "from"))
    only = os.environ.get("SW_ONLY")
    wanted = [
        item for item in wanted
        if not only or re.search(only, f"{item[0].name} {item[1]} {item[2]} {item[3]}")
    ]
    until, tried = time.monotonic() + SECONDS, []

    def turn(index, item):
        if time.monotonic() < until:
            try_one(*item, random.Random(f"{SEED} {index} {item[0].name} {item[1:]}"))
            tried.append(item)

    runs.both(turn, list(enumerate(wanted)))
    print(f"{len(tried)} of {len(wanted)} refusals tried, seed {SEED} (SW_SEED)")
    runs.finish()


main()
