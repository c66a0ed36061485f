"""A training stops with the remedy while some memory is left, and an interrupt of the user stays one."""

from __future__ import annotations

import _thread
import hashlib
import threading
import time

import pytest
from forks import Fork

from agentgym.errors import PolicyError
from agentgym.sandbox.pool.headroom import Headroom
from agentgym.training.model.model_failures import stopped_before_memory_runs_out


def work(seconds: float) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        time.sleep(0.01)


def test_a_stage_that_leaves_no_memory_is_stopped_with_the_remedy():
    left = iter([4000.0, 2000.0, 1000.0, 200.0])
    with (
        pytest.raises(
            PolicyError, match=r"run out in the training: 200 MiB are left, .* Lower train\.microbatch_tokens"
        ),
        stopped_before_memory_runs_out(
            "the training", "Lower train.microbatch_tokens.", measure=lambda: Headroom(next(left), 512.0)
        ),
    ):
        work(20)


def test_a_backward_pass_that_hears_no_interrupt_ends_the_process_with_the_remedy(tmp_path):
    """The main thread computes outside of Python while the memory falls on."""

    def compute() -> None:
        left = iter([4000.0, 200.0, 150.0, 100.0])
        with stopped_before_memory_runs_out("the training", "Lower x.", measure=lambda: Headroom(next(left), 512.0)):
            hashlib.pbkdf2_hmac("sha256", b"", b"", 200_000_000)  # minutes, without the lock of the interpreter

    log = tmp_path / "log.txt"
    assert Fork(compute, log).wait(60) == 1
    assert (
        log.read_text()
        .strip()
        .splitlines()[-1]
        .endswith("100 MiB are left, so it was stopped before the kernel would have ended it. Lower x.")
    )


def test_with_memory_left_nothing_is_interrupted_and_the_user_may_interrupt():
    def enough() -> Headroom:
        return Headroom(4000.0, 512.0)

    with stopped_before_memory_runs_out("x", "y", measure=enough):
        work(0.3)
    with pytest.raises(KeyboardInterrupt), stopped_before_memory_runs_out("x", "y", measure=enough):
        interrupted()


def interrupted() -> None:
    _thread.interrupt_main()
    work(5)


def test_a_block_that_ends_while_memory_is_measured_has_ended():
    """The interrupt would hit what comes after it."""
    leaving = threading.Event()

    def measure() -> Headroom:
        leaving.wait(20)
        time.sleep(0.05)  # until the block has been left
        return Headroom(1.0, 512.0)

    with stopped_before_memory_runs_out("x", "y", measure=measure):
        work(0.2)
        leaving.set()
    work(0.1)
