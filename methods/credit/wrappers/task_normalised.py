"""Task normalisation: give the advantages of every environment in a batch the same standard deviation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.credit import Array, BiasClass, Group, arithmetic
from agentgym.credit.wrappers import Estimate, define_wrapper


def _bias(base: BiasClass, options: Mapping[str, Any]) -> BiasClass:
    return "heuristic" if base == "heuristic" else "biased"


@define_wrapper(
    source="arXiv:2510.04206 (AgentRL), over tokens; around any estimator: our own",
    requires=lambda options: ("lengths",) if options["weigh"] == "tokens" else (),
    bias=_bias,
    scope="batch",
)
def task_normalised(
    estimate: Estimate, groups: Sequence[Group], *, weigh: arithmetic.Weigh = "trajectories"
) -> list[Array]:
    """(A - mean) / (std + 1e-6) over all groups of the batch with the same environment.

    Biased, because it divides by the standard deviation of the same advantages; and, unless `weigh` is "trajectories",
    by a mean in which long trajectories have more weight. Around `grpo` it equals `agentrl`.

    Args:
        weigh: weights in mean and std, by trajectory, turn, or token (the paper).
    Returns: in standard deviations. Degenerate: an environment with equal advantages gets exactly 0.
    """
    advantages = estimate(groups)
    for environment in {group.environment for group in groups}:
        members = [i for i, group in enumerate(groups) if group.environment == environment]
        for i, scores in zip(
            members,
            arithmetic.whitened([advantages[i] for i in members], [groups[i] for i in members], weigh=weigh),
            strict=True,
        ):
            advantages[i] = scores
    return advantages
