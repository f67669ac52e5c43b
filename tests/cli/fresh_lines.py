"""fresh_lines.py: messages begin at the start of a line, whatever stands there: a live line, an echoed ^C, half a line of text. The
command runs on a terminal of its own, whose screen is kept here as a terminal would show it.
"""

import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(os.environ["SW_SOURCE"]) / "tests" / "run"))
import runs

runs.will_strike_processes()
SETTINGS = (
    "model: {architecture: llama, layers: 2, hidden: 32, heads: 2, ffn: 48, vocab: 257, max_positions: 16}\n"
    f"data: {{train: [{runs.write_npy(runs.some_tokens(801, 257))}], sequence_length: 16}}\n"
    "train: {steps: 1000000, batch_size: 8, micro_batch_size: 1, restarts: 0}\n"
    "optimizer: {learning_rate: 1e-4, schedule: constant}\ncheckpoint: {path: run, every: 0}\n")


class Screen:
    """What a terminal shows of the bytes that it was sent: lines, wide enough to hold any of them."""
    def __init__(self):
        self.lines, self.at = [""], 0

    def put(self, text):
        for piece in re.findall(r"\033\[[0-9;]*[A-Za-z]|.", text, re.DOTALL):
            line = self.lines[-1]
            if piece == "\r":
                self.at = 0
            elif piece == "\n":
                self.lines.append(
                    ""
                )  # in the same column: what begins the next line is the \r that the terminal adds
            elif piece == "\033[K":
                self.lines[-1] = line[:self.at]
            elif piece[0] != "\033":
                self.lines[-1] = line[:self.at].ljust(self.at) + piece + line[self.at + 1:]
                self.at += 1


class Terminal:
    """A command on a terminal of its own, as a person has it."""
    def __init__(self, *arguments, folder=None):
        self.screen, self.bytes = Screen(), b""
        self.pid, self.end = pty.fork(
        )  # what is left of it when a test fails ends with the terminal (SIGHUP)
        if self.pid == 0:
            if folder:
                os.chdir(folder)
            os.execv(str(runs.COMMAND), [str(runs.COMMAND), *map(str, arguments)])

    def read(self, seconds):
        ready, _, _ = select.select([self.end], [], [], seconds)
        try:
            got = os.read(self.end, 65536) if ready else b""
        except OSError:  # nobody holds the other end any more
            return False
        self.bytes += got
        self.screen.put(got.decode(errors="replace"))
        return bool(got) or not ready

    def wait_for(self, text, seconds=60):
        until = time.monotonic() + seconds
        while text.encode() not in self.bytes:
            if time.monotonic() > until or not self.read(0.1):
                raise AssertionError(f"no {text!r} came: {self.bytes[-800:]!r}")

    def let_run(self):
        """Until its live line has been drawn several times."""
        self.wait_for("step 1/")
        until = time.monotonic() + 0.7
        while time.monotonic() < until:
            self.read(0.1)

    def type(self, keys):
        os.write(self.end, keys.encode())

    def finish(self, what, *expected):
        while self.read(30):
            pass
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.end)
        for text in expected:
            found = [line for line in self.screen.lines if text in line]
            runs.expect(found, f"{what}: {text!r} is not on the screen: {self.screen.lines[-8:]}")
            runs.expect(all(line.startswith(text) for line in found),
                        f"{what}: {text!r} is not at the start of its line: {found}")
        return code


def train(*settings):
    return Terminal("train", runs.write_yaml(SETTINGS), f"checkpoint.path={runs.fresh()}",
                    "shard.ranks=2", *settings)


def a_rank_is_lost():
    for quiet in ((), ("--quiet", )):
        terminal = train(*quiet)
        if quiet:
            time.sleep(1)
        else:
            terminal.let_run()
        os.kill(runs.children(terminal.pid)[1], signal.SIGKILL)
        code = terminal.finish(f"a rank is lost, {quiet}", "shardwise: error: rank 1 was killed")
        runs.expect(code == 5, f"a rank is lost: {code}")


def a_rank_is_started_again():
    terminal = train("train.restarts=1", "train.steps=60", "checkpoint.every=20", "--inject",
                     "kill:rank=1,step=50")
    code = terminal.finish("a restart", "restart 1 of 1 in 1 s", "resume: from", "model: ")
    runs.expect(code == 0, f"a restart: {code}")


def asked_to_end():
    """Ctrl-C, which the terminal echoes, once and twice."""
    for quiet in ((), ("--quiet", )):
        terminal = train(*quiet)
        time.sleep(1) if quiet else terminal.let_run()
        terminal.type("\x03")
        code = terminal.finish(f"Ctrl-C, {quiet}", "shardwise: stopped by Ctrl-C after step")
        runs.expect(code == 130, f"Ctrl-C: {code}")
    terminal = train("--inject", "delay:rank=0,instruction=decide,step=2,seconds=20")
    terminal.let_run()
    terminal.type("\x03")
    time.sleep(0.3)
    terminal.type("\x03")
    code = terminal.finish("Ctrl-C twice", "shardwise: stopped at once by a second signal")
    runs.expect(code == 130, f"Ctrl-C twice: {code}")


def asked_what_ranks_do():
    terminal = train()
    terminal.let_run()
    terminal.type("\x1c")  # Ctrl-\
    terminal.wait_for("rank 1: ")
    os.kill(terminal.pid, signal.SIGUSR1)
    terminal.wait_for("nothing is saved")
    terminal.type("\x03")
    terminal.finish("Ctrl-\\", "rank 0: in ", "rank 1: in ")


def half_a_line_of_text():
    """Generated text is not cleared away: the message comes on the next line, also where both go into one file."""
    text = runs.fresh("text").with_suffix(".txt")
    text.write_text(
        "a small text that is long enough to be trained on for a step or two, and then some more of it. "
        * 20)
    yaml = runs.write_yaml(
        "model: {architecture: llama, layers: 4, hidden: 64, heads: 2, ffn: 128, max_positions: 4096}\n"
        f"data: {{train: [{text}], tokenizer: bytes, sequence_length: 16}}\ntrain: {{steps: 1, batch_size: 2, micro_batch_size: 1}}\n"
    )
    model = runs.train_well(yaml).folder / "model"
    arguments = [
        "generate",
        str(model), "--prompt", "Once upon a time", "--max-tokens", "1000000", "--ranks", "2",
        "--ignore-end", "--top-k", "1"
    ]
    terminal = Terminal(*arguments)
    terminal.wait_for("Once upon a time")
    time.sleep(0.5)
    os.kill(runs.children(terminal.pid)[1], signal.SIGKILL)
    terminal.finish("half a line of text", "shardwise: error: rank 1 was killed",
                    "Once upon a time")
    both = runs.fresh("both")
    with both.open("w") as file:
        process = subprocess.Popen([str(runs.COMMAND), *arguments], stdout=file,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        while not both.stat().st_size:
            time.sleep(0.01)
        os.kill(runs.children(process.pid)[1], signal.SIGKILL)
        process.wait(60)
    lines = both.read_bytes().decode(errors="replace").split("\n")
    found = [line for line in lines if "shardwise: " in line]
    runs.expect(found and all(line.startswith("shardwise: ") for line in found),
                f"text and messages in one file: {lines[-4:]}")
    runs.expect("\033" not in both.read_text(errors="replace"),
                "a file is given what moves a terminal's cursor")


runs.both(lambda test: test(), [(test, )
                                for test in (a_rank_is_lost, a_rank_is_started_again, asked_to_end,
                                             asked_what_ranks_do, half_a_line_of_text)])
runs.finish()
