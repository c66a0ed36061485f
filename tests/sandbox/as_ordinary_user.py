"""Run a Python file as an ordinary user, for tests started by root: python as_ordinary_user.py FILE.

The interpreter, its packages and this checkout may lie below root's home, which nobody else can enter. In a
private mount namespace, each closed folder on the way is replaced by an empty open one with just them in it.
"""

from __future__ import annotations

import os
import sys

from agentgym.sandbox.guest import kernel

NOBODY = 65534
STASH = "/mnt"


def closed_folder(path: str) -> str | None:
    """The first folder on the way to a path that an ordinary user cannot enter."""
    parts = path.strip("/").split("/")
    for count in range(1, len(parts) + 1):
        folder = "/" + "/".join(parts[:count])
        if not os.stat(folder).st_mode & 0o001:
            return folder
    return None


def main() -> None:
    checkout = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folders = [sys.base_prefix, sys.prefix, checkout]
    folders += [path for path in sys.path if os.path.isdir(path) and not path.startswith(tuple(folders))]
    needed = {path: closed_folder(path) for path in dict.fromkeys(folders)}
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", STASH, "tmpfs", 0, "mode=0755")
    shut = [path for path, closed in needed.items() if closed]
    for number, path in enumerate(shut):
        os.mkdir(f"{STASH}/{number}")
        kernel.mount(path, f"{STASH}/{number}", None, kernel.MS_BIND | kernel.MS_REC)
    for folder in {closed for closed in needed.values() if closed}:
        kernel.mount("tmpfs", folder, "tmpfs", 0, "mode=0755")
    for number, path in enumerate(shut):
        os.makedirs(path, exist_ok=True)
        kernel.mount(f"{STASH}/{number}", path, None, kernel.MS_BIND | kernel.MS_REC)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], {**os.environ, "HOME": "/nonexistent"})


if __name__ == "__main__":
    main()
