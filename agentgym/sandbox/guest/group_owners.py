"""Find the owner of a control group: the spawner that holds a lock on the group's directory.

The process id in a group's name means something only in the pid namespace of its spawner, while the tree of groups is
shared by all namespaces. The kernel holds the lock: every process sees it, and it ends with the processes that hold it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

PREFIX = "agentgym-"
_ATTEMPTS = 1000


def claim(home: int, name: str) -> tuple[str, int]:
    """Create a group in the directory `home` and lock it for this process and its forks.

    If another pid namespace already uses the name, the group is named `NAME-2` or the next free number.
    Returns: the group's name and a descriptor of it, which holds the lock. Raises: OSError.
    """
    for number in range(1, _ATTEMPTS):
        candidate = name if number == 1 else f"{name}-{number}"
        try:
            os.mkdir(candidate, 0o755, dir_fd=home)
        except FileExistsError:
            continue
        # before we lock the group, another process may remove it as abandoned
        with contextlib.suppress(FileNotFoundError):
            group = os.open(candidate, os.O_RDONLY | os.O_DIRECTORY, dir_fd=home)
            fcntl.flock(group, fcntl.LOCK_EX)
            if is_named(home, candidate, group):
                return candidate, group
            os.close(group)
    raise FileExistsError(f"{_ATTEMPTS} control groups already have names like this one", name)


def is_named(home: int, name: str, group: int) -> bool:
    """Return whether an open group still exists in the directory `home` under this name."""
    try:
        return os.path.samestat(os.stat(name, dir_fd=home, follow_symlinks=False), os.fstat(group))
    except FileNotFoundError:
        return False


def is_spawners(name: str) -> bool:
    """Return whether a group's name is one that `claim` gives to spawners."""
    return _pid_in(name) is not None


def remove_if_abandoned(home: int, name: str) -> bool:
    """Remove a spawner's group and all groups below it, if no living process owns it and it holds no process.

    A group without a lock is spared if its name holds the id of a living process: a spawner of an earlier
    version may be at work.
    Returns: whether it was removed.
    """
    try:
        group = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=home)
    except OSError:
        return False
    try:
        fcntl.flock(group, fcntl.LOCK_EX | fcntl.LOCK_NB)
        pid = _pid_in(name)
        if pid is None or is_alive(pid):
            return False
        for child in os.listdir(group):
            # the file exists, or the group still has processes; these keep its parent, too
            with contextlib.suppress(OSError):
                os.rmdir(child, dir_fd=group)
        os.rmdir(name, dir_fd=home)
    except OSError:
        return False
    finally:
        os.close(group)
    return True


def is_alive(pid: int) -> bool:
    """Return whether a process is alive, as far as /proc tells.

    A zombie has ended: it holds nothing, but may never be waited for. A process about which /proc cannot be read
    counts as alive.
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return _exists(pid)  # a /proc that hides other users' processes cannot answer this
    except OSError:
        return True
    return not fields or fields[0] not in "ZX"


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # another user's
    return True


def _pid_in(name: str) -> int | None:
    """Return the process id in the name of a spawner's group; None for any other name."""
    parts = name.removeprefix(PREFIX).split("-")
    is_theirs = name.startswith(PREFIX) and len(parts) <= 2 and all(part.isdecimal() for part in parts)
    return int(parts[0]) if is_theirs else None
