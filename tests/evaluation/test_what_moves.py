"""The sentence about what moved a policy in the last steps of its training."""

from __future__ import annotations

from agentgym.evaluation.report.what_moves import LAST_STEPS, what_moves


def step(success: float, form: float, varies: float) -> dict[str, float]:
    return {"step": 1.0, "moved_by/success": success, "moved_by/form": form, "guard/success_varies": varies}


def test_the_last_steps_with_an_advantage_are_averaged():
    without_advantage = {"step": 1.0, "guard/success_varies": 0.0}
    rows = [step(1.0, 0.0, 1.0)] * 20 + [step(0.2, 0.8, 0.5)] * (LAST_STEPS - 1) + [step(0.4, 0.6, 0.5)]
    assert what_moves(rows) == "form 78%, success 22%; success varies in 50% of groups"
    assert (
        what_moves([step(0.2, 0.8, 0.5), without_advantage]) == "form 80%, success 20%; success varies in 25% of groups"
    )


def test_the_last_distance_from_the_start_is_said():
    rows = [step(1.0, 0.0, 1.0) | {"kl_from_start": distance} for distance in (0.1, 0.25)] + [step(1.0, 0.0, 1.0)]
    assert what_moves(rows).endswith("; 0.25 nats per token from its start")


def test_a_part_that_a_step_lacks_moved_nothing_there():
    assert what_moves([step(1.0, 0.0, 1.0), {"step": 2.0, "moved_by/success": 1.0}]).startswith("success 100%, form 0%")


def test_other_metrics_say_nothing():
    assert what_moves([]) == what_moves([{"step": 1.0, "loss": 0.5}]) == ""
