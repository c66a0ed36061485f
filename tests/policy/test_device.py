"""A local model runs where it was asked to, or says why it cannot."""

from __future__ import annotations

import pytest
import torch

from agentgym.errors import PolicyError
from agentgym.policy import device
from agentgym.policy.device import bfloat16_speed_up, computes_in_bfloat16, device_of, dtype_of


def test_auto_is_a_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert device_of("auto") == "cpu"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert device_of("auto") == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device_of("auto") == "cuda"


@pytest.mark.parametrize("requested", ["cuda:99", "toaster"])
def test_a_device_that_is_not_here_is_named(requested):
    with pytest.raises(PolicyError, match=f"device = '{requested}' cannot be used: .* Write cpu, cuda"):
        device_of(requested)


def test_numbers_are_float32_on_a_cpu_and_the_checkpoints_own_elsewhere():
    assert dtype_of("auto", "cpu") is torch.float32
    assert dtype_of("auto", "cuda") == "auto"
    assert dtype_of("bfloat16", "cpu") is torch.bfloat16
    with pytest.raises(PolicyError, match="dtype = 'float31' is not a dtype of torch"):
        dtype_of("float31", "cpu")


@pytest.mark.parametrize(
    ("has_tiles", "speed_up", "chosen"), [(True, 6.0, True), (True, 1.9, False), (False, 6.0, False)]
)
def test_a_processor_computes_in_bfloat16_if_it_has_tiles_that_are_much_faster(
    monkeypatch, has_tiles, speed_up, chosen
):
    monkeypatch.setattr(device, "has_matrix_tiles", lambda: has_tiles)
    monkeypatch.setattr(device, "bfloat16_speed_up", lambda: speed_up)
    assert computes_in_bfloat16("cpu") is chosen
    assert computes_in_bfloat16("cuda:1")
    assert not computes_in_bfloat16("mps")


def test_the_speed_of_this_processor_is_measured():
    assert 0.01 < bfloat16_speed_up() < 100
