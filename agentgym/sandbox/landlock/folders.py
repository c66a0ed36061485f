"""The folders of sandboxes: where their files are, which user they belong to, and who made them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from agentgym.errors import SandboxUnavailable
from agentgym.sandbox.contract import Running
from agentgym.sandbox.guest import surroundings
from agentgym.sandbox.guest.root import ETC, ETC_OF_HOST
from agentgym.sandbox.owner import Owner

_BACKEND = "landlock"
_FACTS = "sandbox.json"
_GUEST = Path(surroundings.__file__).parent
_TRIES_S = 5.0


class SandboxFolder:
    """The folder of one sandbox. It holds work, tmp and shm, which agent code sees as /work, /tmp and /dev/shm.

    `user`: the only user who may write there; as root a user that nothing else uses, otherwise this process's own.
    """

    def __init__(self, parent: Path) -> None:
        """Make it in `parent`. Raises: SandboxUnavailable if the sandbox's user could not get there."""
        if os.geteuid() == 0 and not is_open_to_all(parent):
            raise SandboxUnavailable(
                f"{parent} is, or is in, a folder that only some users may enter, so a sandbox, which has a user of "
                "its own, cannot have its files there. Name another one in the variable TMPDIR."
            )
        self.path = Path(tempfile.mkdtemp(prefix=Owner.this_process().folder_prefix(_BACKEND), dir=parent))
        self.user = _unused_user() if os.geteuid() == 0 else os.geteuid()
        (self.path / _FACTS).write_text(json.dumps({"user": self.user, "created": time.time()}))
        self._make_etc()
        (self.path / "var").mkdir()
        (self.path / "var/tmp").symlink_to(self.path / "tmp")
        areas = {area: Path(f"{self.path}{area}") for area in surroundings.AREAS}
        for folder in areas.values():
            folder.mkdir(parents=True)
        for entry in self.path.rglob("*"):
            if not entry.is_symlink():
                entry.chmod(0o755 if entry.is_dir() else 0o644)  # whatever this process's umask is
        for area, folder in areas.items():
            if os.geteuid() == 0:
                os.chown(folder, self.user, self.user)
            folder.chmod(0o755 if area == "/work" else 0o1777)
        if os.geteuid() == 0:  # the group is the sandbox's alone: no other user sees into it
            os.chown(self.path, 0, self.user)
            self.path.chmod(0o750)

    def _make_etc(self) -> None:
        """Make what agent code sees as /etc: what every sandbox has there, and links to the machine's own."""
        for name, content in ETC.items():
            file = self.path / "etc" / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(content.replace("1000:", f"{self.user}:"))
        for name in ETC_OF_HOST:
            link = self.path / "etc" / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(f"/etc/{name}")

    def show(self, packages: Iterable[tuple[str, str]]) -> str:
        """Make a folder of links, from which the modules to preload are imported. `packages`: paths and names."""
        folder = self.path / "packages"
        folder.mkdir()
        folder.chmod(0o755)
        for path, name in packages:
            (folder / name).symlink_to(path)
        return str(folder)

    def remove(self) -> None:
        """Remove everything in it, whatever modes the agent gave it. Processes that still end may write meanwhile."""
        remove_folder(self.path)


def remove_folder(path: Path) -> None:
    """Remove a folder that agent code may have filled with anything: closed folders, and more levels than a path has.

    Its processes have ended, or end at this moment. Links are removed, not followed.
    """
    deadline = time.monotonic() + _TRIES_S
    while path.exists() and time.monotonic() < deadline:
        if subprocess.run(["rm", "-rf", "--", path], stderr=subprocess.DEVNULL, check=False).returncode:
            subprocess.run(["chmod", "-R", "u+rwx", "--", path], stderr=subprocess.DEVNULL, check=False)


def is_open_to_all(path: Path) -> bool:
    """Return whether every user may enter a folder, or reach a file, and all folders above."""
    return all(folder.stat().st_mode & 1 for folder in (path, *path.resolve().parents))


def _unused_user() -> int:
    """Return a user id with no process and no sandbox. Raises: SandboxUnavailable if this container maps too few."""
    lowest, count = _mapped_users()
    taken = {os.stat(entry).st_uid for entry in Path("/proc").iterdir() if entry.name.isdecimal() and entry.exists()}
    for _ in range(100):
        user = lowest + random.randrange(count)
        if user not in taken:
            return user
    raise SandboxUnavailable("No user id is free for a sandbox. Run fewer sandboxes at once.")


def _mapped_users() -> tuple[int, int]:
    """Return a range of user ids that exist in this process's user namespace and that no account has."""
    ranges = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    first, _, count = max((tuple(map(int, fields)) for fields in ranges), key=lambda fields: fields[2])
    if count > 2**31:
        return 2**30, 2**29
    if count < 4096:
        raise SandboxUnavailable(
            f"This process is root in a container that maps {count} user ids, too few to give each sandbox its own. "
            "Run as an ordinary user."
        )
    return first + count // 2, count // 4


def code_folder(parent: Path) -> Path:
    """Make a copy of the guest's code that any user can read, and return the folder that holds it."""
    folder = Path(tempfile.mkdtemp(prefix=Owner.this_process().folder_prefix(_BACKEND), dir=parent))
    folder.chmod(0o755)
    package = folder / _GUEST.name
    package.mkdir()
    for source in _GUEST.glob("*.py"):
        shutil.copyfile(source, package / source.name)
        (package / source.name).chmod(0o644)
    package.chmod(0o755)
    return folder


def running(parent: Path, backend: str) -> list[Running]:
    """Return the sandboxes whose folders are in `parent`."""
    sandboxes = []
    for path, owner in _folders(parent):
        with contextlib.suppress(OSError, ValueError):
            created = json.loads((path / _FACTS).read_text())["created"]
            pid = owner.pid if owner.alive else 0
            age_s = max(time.time() - created, 0.0)
            sandboxes.append(Running(path.name, backend, owner=pid, orphaned=not pid, age_s=age_s))
    return sandboxes


def clean(parent: Path) -> list[str]:
    """Remove the folders whose owners have ended. Returns: a line for each."""
    lines = []
    for path, owner in _folders(parent):
        if not owner.alive:
            remove_folder(path)
            lines.append(f"{path.name}: removed, its process {owner.pid} has ended")
    return lines


def _folders(parent: Path) -> Iterator[tuple[Path, Owner]]:
    for path in sorted(parent.glob(f"agentgym-{_BACKEND}-*")):
        owner = Owner.from_folder(path.name)
        if owner is not None:
            yield path, owner


def remove_own(path: Path, owner: int) -> None:
    """Remove a folder, unless this process is a fork of its owner."""
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
