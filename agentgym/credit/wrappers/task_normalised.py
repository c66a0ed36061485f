"""Task normalisation: one spread for every environment of a batch, so that none drowns the others."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.credit.contract import BiasClass
from agentgym.credit.group import Group
from agentgym.credit.signals import Array
from agentgym.credit.whitening import Weigh, whitened
from agentgym.credit.wrappers.contract import Estimate, Options, define_wrapper


def _bias(base: BiasClass, options: Options) -> BiasClass:
    return "heuristic" if base == "heuristic" else "biased"


@define_wrapper(
    source="arXiv:2510.04206 (AgentRL), over tokens; around any estimator: our own",
    requires=lambda options: ("lengths",) if options["weigh"] == "tokens" else (),
    bias=_bias,
    scope="batch",
)
def task_normalised(estimate: Estimate, groups: Sequence[Group], *, weigh: Weigh = "trajectories") -> list[Array]:
    """(A - mean) / (spread + 1e-6) over all groups of the batch that were played in the same environment.

    Biased as dividing by a spread of the own advantages is, and, where `weigh` is not "trajectories", by a
    mean in which long trajectories count more. Around `grpo` it is `agentrl`.

    Args:
        weigh: what counts once in mean and spread: a trajectory, a turn, or a token (the paper).
    Returns: in standard deviations. Degenerate: an environment whose advantages do not differ gets exactly 0.
    """
    found = estimate(groups)
    for environment in {group.environment for group in groups}:
        own = [i for i, group in enumerate(groups) if group.environment == environment]
        for i, one in zip(own, whitened([found[i] for i in own], [groups[i] for i in own], weigh=weigh), strict=True):
            found[i] = one
    return found
