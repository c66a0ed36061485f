"""A sandbox with another file system than the host's: Python, a data file, and nothing else, not even a shell.

python examples/own_root_filesystem.py

The folder made here is an image like any other: `SandboxSpec(image=...)` takes as well what debootstrap makes, an OCI
layout, or the file of `docker save agentgym/base -o base.tar`.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from agentgym import Call, Environment, EpisodeManager, Message, SandboxSpec, ScriptedPolicy, Task, register, tool

UNUSED = ("test", "idlelib", "lib2to3", "tkinter", "ensurepip", "__pycache__", "*-packages", "config-*", "*.a")


class BarePython(Environment):
    """Commands on a file system of our own. Isolated: everything runs in a sandbox, on a read-only root."""

    def __init__(self, image: str) -> None:
        self.sandbox = SandboxSpec(image=image, memory_mib=128)

    @tool
    async def run(self, program: str, arguments: list[str] = []) -> str:  # noqa: B006  only read
        """Run a program and read what it prints."""
        result = await (await self.default_sandbox()).exec([program, *arguments])
        return result.text or f"[exit code {result.exit_code}] {result.stderr.decode('utf-8', 'replace')}"


def make_root(folder: Path) -> None:
    """Copy this Python with its libraries, and add what the task is about."""
    interpreter = os.path.realpath(sys.executable)
    library = Path(os.__file__).parent
    shutil.copytree(library, folder / library.relative_to("/"), ignore=shutil.ignore_patterns(*UNUSED))
    extensions = map(str, library.glob("lib-dynload/*.so"))
    needed = subprocess.run(["ldd", interpreter, *extensions], capture_output=True, text=True, check=True).stdout
    for path in {interpreter, *re.findall(r"(?:=> |^\s+)(/\S+) \(0x", needed, re.MULTILINE)}:
        (folder / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, folder / path[1:])
    (folder / "usr/bin").mkdir(parents=True, exist_ok=True)
    if not (folder / "usr/bin/python3").exists():
        (folder / "usr/bin/python3").symlink_to(interpreter)
    (folder / "data").mkdir()
    (folder / "data/stock.csv").write_text("lamp,3\ndesk,7\n")


async def main() -> None:
    count = "print(sum(int(line.split(',')[1]) for line in open('/data/stock.csv')))"
    programs = [("python3", ["-c", count]), ("python3", ["-c", "open('/data/stock.csv', 'w')"]), ("sh", ["-c", "id"])]
    calls = [Call("run", {"program": program, "arguments": arguments}) for program, arguments in programs]
    agent = ScriptedPolicy([*(Message("assistant", "", (call,)) for call in calls), Message("assistant", "10")])
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("AGENTGYM_CACHE", f"{folder}/cache")  # leave it out to keep the unpacked image
        make_root(Path(folder, "root"))
        register("acme/bare-python-v1", lambda: BarePython(f"{folder}/root"))
        task = Task("stock", "acme/bare-python-v1", "How many things are in stock?")
        [episode] = await EpisodeManager(agent).collect([task])
    for turn in episode.turns[:-1]:
        print(turn.calls[0].arguments["program"], "->", turn.results[0].content.strip().splitlines()[-1])
    print("image:", *episode.provenance.image_digests)  # recorded with the episode


if __name__ == "__main__":
    asyncio.run(main())
