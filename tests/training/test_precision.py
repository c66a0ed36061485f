"""bfloat16 with float32 weights on a processor: chosen by measurement, said, and forced or forbidden by a key."""

from __future__ import annotations

import io
import json

import pytest
import torch
from lookup_runs import RECIPE, SMALL
from rich.console import Console
from safetensors.torch import load_file

from agentgym.policy import device
from agentgym.training import Recipe, train
from agentgym.training.recipe.train_section import TrainSection


@pytest.mark.parametrize(("trl", "dtype"), [({}, "bfloat16"), ({"bf16": False}, None), ({"fp16": True}, "float16")])
def test_a_fast_processor_computes_in_bfloat16_unless_told_otherwise(monkeypatch, trl, dtype):
    monkeypatch.setattr(device, "has_matrix_tiles", lambda: True)
    monkeypatch.setattr(device, "bfloat16_speed_up", lambda: 6.0)
    section = TrainSection(trl=trl)
    assert section.autocast("cpu") == dtype
    note = section.precision_note("cpu")
    assert (note is not None) == (dtype == "bfloat16")
    assert note is None or "6.0 times as fast. [train.trl] bf16 = false turns it off" in note
    assert section.precision_note("cuda") is None


def test_a_run_that_is_told_to_trains_and_samples_in_bfloat16_and_says_so(tmp_path):
    data = json.loads(json.dumps(RECIPE | SMALL))
    data["train"]["trl"] = {"bf16": True}
    output = io.StringIO()
    run = train(Recipe.parse(data), folder=tmp_path / "run", console=Console(file=output, width=200))
    assert "Training and sampling compute in bfloat16" in output.getvalue()
    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    [drift] = [row["guard/drift"] for row in rows if "guard/drift" in row]
    assert 0 < drift < 0.05
    weights = load_file(run.checkpoints / "final" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
