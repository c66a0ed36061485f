"""The tables of system calls, against the headers of Linux."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from agentgym.sandbox.guest.architecture import _CALLS

HEADERS = [  # an architecture's column, its folder of headers, and what its compiler defines
    (0, "/usr/include/x86_64-linux-gnu", "__x86_64__"),
    (1, "/usr/aarch64-linux-gnu/include", "__aarch64__"),  # Debian: linux-libc-dev-arm64-cross
    (1, "/usr/include/aarch64-linux-gnu", "__aarch64__"),
]


@pytest.mark.parametrize(("column", "folder", "macro"), HEADERS, ids=[folder for _, folder, _ in HEADERS])
def test_every_number_is_that_of_the_headers(column, folder, macro):
    if not Path(folder, "asm/unistd.h").exists():
        pytest.skip(f"no headers in {folder}")
    options = ["-undef", f"-D{macro}=1", "-D__BITS_PER_LONG=64", "-nostdinc", "-I", folder, "-I", "/usr/include"]
    names = "".join(f"{name}=__NR_{name}\n" for name in _CALLS)
    text = subprocess.run(
        ["cpp", "-P", *options, "-"],
        input=f"#include <asm/unistd.h>\n{names}",
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    known = {name: int(number) for name, number in re.findall(r"^(\w+) ?= ?(\d+)$", text, re.MULTILINE)}
    newer = [name for name, row in _CALLS.items() if name not in known and row[column] is not None]
    assert {name: row[column] for name, row in _CALLS.items() if name in known} == known
    assert all(_CALLS[name][column] > 424 for name in newer), f"not in the headers: {newer}"
