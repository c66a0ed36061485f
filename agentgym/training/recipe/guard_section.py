"""The recipe's [guard]: when training counts as collapsing, and what happens then."""

from __future__ import annotations

from typing import Literal

from agentgym.options import Count, Rate, Section, Share


class GuardSection(Section):
    """When the guard raises an alarm, and what happens then.

    `on_alarm`: `go_on` prints the alarm, keeps the last healthy checkpoint and continues; `stop` ends the training;
    `off` switches the guard off.
    `patience`: steps in a row. `baseline_steps`: how many of the first steps make the baseline.
    `zero_gradient`: share of groups without any advantage, while tasks are unsolved. `no_tool`: share of episodes
    without a call that ran. `ended_on_tool`: share of episodes that a budget ended while they still called tools.
    `drift`: mean distance of a token's sampled and recomputed log-probabilities, in nats. `success_drop`: success of
    the last steps, as a share of the best so far. `solved`: from this success on a run without gradient counts as
    solved, not as collapsed.
    `length_growth`: of a message's tokens, as a multiple of the baseline. `entropy_floor`, `entropy_ceiling`: of the
    policy's entropy, likewise. `diversity_floor`: of the messages of a group, likewise. `gradient_growth`: of the norm
    before clipping, likewise.
    """

    on_alarm: Literal["go_on", "stop", "off"] = "go_on"
    patience: Count = 3
    baseline_steps: Count = 10
    zero_gradient: Share = 0.95
    no_tool: Share = 0.5
    ended_on_tool: Share = 0.5
    length_growth: Rate = 4.0
    entropy_floor: Share = 0.02
    entropy_ceiling: Rate = 4.0
    diversity_floor: Share = 0.05
    gradient_growth: Rate = 50.0
    drift: Rate = 0.2
    success_drop: Share = 0.4
    solved: Share = 0.9
