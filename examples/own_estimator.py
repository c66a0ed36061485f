"""A credit estimator of your own: from the rewards of a group to one advantage per turn, on plain arrays.

python examples/own_estimator.py
"""

from __future__ import annotations

import numpy as np

from agentgym.credit import Group, define_estimator, estimator
from agentgym.testing import check_estimator


@define_estimator(requires=(), bias="heuristic", source="our own: an example")
def last_turn_only(group: Group) -> np.ndarray:
    """The outcome minus the group's mean outcome, for the last turn alone; 0 for every other turn.

    Returns: [N, T] float, reward units. A group of one, or of equal outcomes, gets 0 everywhere.
    """
    centred = np.where(group.valid, group.outcomes - group.outcomes[group.valid].mean(), 0.0)
    advantages = np.zeros(group.turn_rewards.shape)
    advantages[np.arange(len(centred)), np.maximum(group.turns - 1, 0)] = centred
    return advantages


def main() -> None:
    group = Group.from_arrays(outcomes=[1, 0, 0], turn_rewards=[[0, 0, 0], [0, 0], [0]])
    for name, estimate in {"last_turn_only": last_turn_only, "grpo": estimator("grpo")}.items():
        print(f"{name:>15}:", *(np.round(turns, 2).tolist() for turns in estimate(group)))
    check_estimator(last_turn_only)
    print("check_estimator found nothing to object to.")


if __name__ == "__main__":
    main()
