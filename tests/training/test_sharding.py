"""Weights in parts (FSDP) are trained as whole ones are, gathered for whoever needs them, and resumed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import sharded_imitation
import torch
from forks import train_in_processes
from safetensors.torch import load_file


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """What two processes left that imitated with weights in parts."""
    path = tmp_path_factory.mktemp("sharded")
    train_in_processes(2, partial(sharded_imitation.imitate_in_parts, path), path)
    return path


def test_two_processes_with_parts_of_the_weights_end_with_those_of_one(folder, tmp_path):
    sharded = load_file(folder / "unbroken.safetensors")
    expected = sharded_imitation.imitated(tmp_path).state_dict()
    assert max(float((value - expected[name]).abs().max()) for name, value in sharded.items()) < 1e-6


def test_a_run_with_parts_of_the_weights_resumes_from_its_checkpoint_and_ends_bit_equal(folder):
    unbroken, resumed = (load_file(folder / f"{name}.safetensors") for name in ("unbroken", "resumed"))
    assert all(torch.equal(resumed[name], value) for name, value in unbroken.items())
    checkpoint = load_file(folder / "broken" / "checkpoint-4" / "model.safetensors")
    assert all(torch.equal(checkpoint[name], value) for name, value in unbroken.items())
