"""control_group.py: a control group that limits the memory of what is run in it, where this user may make one; of either version."""

import os
import pathlib
import subprocess

MOUNT = pathlib.Path("/sys/fs/cgroup")


class Group:
    """A group below the one that this process is in. `limit` in bytes."""
    def __init__(self, folder, is_version_1):
        self.folder, self.is_version_1 = folder, is_version_1

    def read(self, name):
        return (self.folder / name).read_text()

    def write(self, name, value):
        (self.folder / name).write_text(f"{value}\n")

    @property
    def limit_file(self):
        return self.folder / ("memory.limit_in_bytes" if self.is_version_1 else "memory.max")

    def limit(self, size):
        self.limit_file.write_text(f"{size}\n")

    def killed(self):
        """How many processes the kernel has killed in it for want of memory."""
        words = self.read("memory.oom_control" if self.is_version_1 else "memory.events").split()
        return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else 0

    def run(self, arguments, **options):
        enter = 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"'
        return subprocess.run(["sh", "-c", enter, "sh",
                               str(self.folder), *map(str, arguments)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120, **options)

    def close(self):
        for attempt in range(100):  # a process that has ended leaves it a moment later
            try:
                self.folder.rmdir()
                return
            except OSError:
                subprocess.run(["sleep", "0.05"])


def own_folders():
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, within = line.split(":", 2)
        if "memory" in controllers.split(","):
            yield MOUNT / "memory" / within.lstrip("/"), True
            yield MOUNT / "memory", True
        elif not controllers:
            yield MOUNT / within.lstrip("/"), False
            yield MOUNT, False


def make():
    """A new group, or None."""
    for parent, is_version_1 in own_folders():
        group = Group(parent / f"shardwise-test-{os.getpid()}", is_version_1)
        try:
            group.folder.mkdir()
        except OSError:
            continue
        try:
            group.limit(1 << 40)
            if group.run(["true"]).returncode == 0:
                return group
        except OSError:
            pass
        group.close()
    return None
