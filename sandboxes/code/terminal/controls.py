"""Controls of a task folder's reward: changed tests, and a submission without the files that could sway the tests."""

from __future__ import annotations

import posixpath
import random
import re
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

from .build_context import Files

STARTUP = ("sitecustomize.py", "usercustomize.py", "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", "tox.ini")
AT_THE_TOP = ("setup.cfg", "pyproject.toml")
"""Configuration files above /tests, where pytest reads them; elsewhere they belong to projects."""
RUNNERS = ("pytest", "_pytest", "pluggy", "iniconfig", "unittest")
PROGRAM_FOLDERS = ("bin", "sbin")
PRELOADED = "etc/ld.so.preload"


def sways_tests(path: str, programs: Collection[str], folders: Collection[str]) -> bool:
    """Return whether a file, by its path below /, could decide what tests say without being what they test.

    It configures pytest or is a part of it, is loaded at each start of Python or of any program, or is found in place
    of a program that the image has.

    Args:
        programs: the names of the image's programs.
        folders: the folders of PATH. Those named bin and sbin count too.
    """
    file = PurePosixPath(path)
    if file.name in STARTUP or file.suffix == ".pth" or path == PRELOADED or (path in AT_THE_TOP):
        return True
    if any(PurePosixPath(part).stem in RUNNERS for part in (*file.parts[:-1], file.name if file.suffix else "")):
        return True
    in_front = file.parent.name in PROGRAM_FOLDERS or f"/{file.parent}" in folders
    return in_front and file.name in programs


def paths_in(command: Sequence[str], workdir: str) -> set[str]:
    """Return the absolute paths that a command may name, also in the text of a shell's command."""
    words = (word for part in command for word in re.split(r"[\s;&|<>()'\"]+", part) if word)
    return {posixpath.normpath(posixpath.join(workdir, word)) for word in words}


def is_pytest(path: str) -> bool:
    return path.endswith(".py") and path.rpartition("/")[2].startswith("test_")


def with_failing(tests: Files, rng: random.Random) -> Files:
    """Return the tests with one that cannot pass at the end of each test file."""
    return {p: (data + _failing_test(rng), mode) if is_pytest(p) else (data, mode) for p, (data, mode) in tests.items()}


def always_passing(tests: Files) -> Files:
    """Return the tests with one that passes in place of those of each test file."""
    passing = b"def test_passes():\n    assert True\n"
    return {p: (passing if is_pytest(p) else data, mode) for p, (data, mode) in tests.items()}


def _failing_test(rng: random.Random) -> bytes:
    first, second = rng.sample(range(2, 99), 2)
    words = "_".join(rng.sample(("keeps", "reads", "first", "order", "values", "large", "file"), 3))
    return f"\n\n\ndef test_{words}():\n    assert {first} == {second}\n".encode()
