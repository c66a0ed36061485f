"""A disk that is full and a place that cannot be written are one message, not a traceback."""

from __future__ import annotations

import errno
import os

import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.cli.termination import not_writable

NOWHERE = "/proc/nowhere"


@pytest.mark.parametrize(
    "words",
    [
        ["eval", "sql/store-v1:held_out", "--policy", "oracle", "--limit", "1", "--out", NOWHERE],
        ["rollout", "sql/store-v1:train", "--policy", "oracle", "--limit", "1", "--out", NOWHERE],
        ["train", "quickstart", "--out", NOWHERE],
    ],
)
def test_a_run_folder_that_cannot_be_made_is_named(words):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert f"Error: Cannot make the run folder {NOWHERE}: " in done.stderr
    assert "Traceback" not in done.output


def test_a_full_disk_is_told_from_other_errors_wherever_it_shows():
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/x/model.safetensors")
    assert not_writable(full).startswith("Cannot write runs/x/model.safetensors: no space is left on the disk.")
    later = RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")
    assert "no space is left" in not_writable(later)
    wrapped = ValueError("the checkpoint")
    wrapped.__cause__ = full
    assert "runs/x/model.safetensors" in not_writable(wrapped)
    torch_says = RuntimeError("[enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0")
    assert "Cannot write a checkpoint completely" in not_writable(torch_says)
    assert "Permission denied" in not_writable(PermissionError(errno.EACCES, "Permission denied", "/etc/x"))
    assert not_writable(FileNotFoundError(errno.ENOENT, "No such file", "x")) is None
    assert not_writable(KeyError("x")) is None
