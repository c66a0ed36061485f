"""Checks that a language's compiler and interpreter work in a sandbox, by trying a correct program.

An installed toolchain may still fail on every program, for lack of configuration or memory. In that case a failing
program does not prove that its author was wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from agentgym.sandbox.contract import Sandbox

TRY_S = 60.0
_SHELLS = ("sh", "bash", "python3", "python")  # with these, code follows `-c`; to a compiler, `-c` means something else
HARMLESS = {
    ".awk": "BEGIN { }\n",
    ".c": "int main(void) { return 0; }\n",
    ".cc": "int main() { return 0; }\n",
    ".cpp": "int main() { return 0; }\n",
    ".cxx": "int main() { return 0; }\n",
    ".go": "package main\n\nfunc main() {}\n",
    ".hs": "main :: IO ()\nmain = return ()\n",
    ".java": "class NAME { public static void main(String[] arguments) { } }\n",
    ".js": ";\n",
    ".lua": "local x = 0\n",
    ".mjs": ";\n",
    ".pl": "1;\n",
    ".php": "<?php\n",
    ".py": "pass\n",
    ".r": "invisible(0)\n",
    ".rb": "nil\n",
    ".rs": "fn main() {}\n",
    ".sh": ":\n",
    ".ts": ";\n",
}
"""A program that does nothing, by file suffix; NAME means the file's name without the suffix."""


async def toolchain_fault(
    sandbox: Sandbox, file: str, build: Sequence[str], run: Sequence[str] = (), *, harmless: str | None = None
) -> str | None:
    """Return why the commands that build and run a language's programs fail on a harmless one; None if they work.

    Args:
        sandbox: a fresh one, in which nothing has run; the harmless program is written to `file` in it.
        build, run: the commands, each tried if given. A command that contains code (`sh -c`, `python3 -c`) may demand
            more than a program that runs, so it is tried only if `harmless` is given.
        harmless: the program to try; by default the one for the file's suffix. Without either, nothing is tried.
    Raises: SandboxError if the sandbox breaks.
    """
    path = PurePosixPath(file)
    program = harmless if harmless is not None else HARMLESS.get(path.suffix.lower())
    if program is None:
        return None
    await sandbox.write(file, program.replace("NAME", path.stem).encode())
    for argv in (build, run):
        if not argv or ("-c" in argv[1:] and argv[0] in _SHELLS and harmless is None):
            continue
        result = await sandbox.exec(list(argv), timeout_s=TRY_S)
        if not result.ok:
            lines = (result.stderr + result.stdout).decode("utf-8", "replace").strip().splitlines()
            reason = lines[0][:200] if lines else f"exit code {result.exit_code}"
            return f"{' '.join(argv)!r:.120} fails on a program that does nothing: {reason}"
    return None
