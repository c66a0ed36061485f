"""The recipe's [guard]: when training counts as collapsing, and the reaction."""

from __future__ import annotations

from typing import Literal

from agentgym.number_types import Positive
from agentgym.options import Count, Section, Share


class GuardSection(Section):
    """When the guard raises an alarm, and the reaction."""

    on_alarm: Literal["go_on", "stop", "off"] = "go_on"
    """`go_on` prints the alarm, keeps the last healthy checkpoint and continues. `stop` ends the training. `off`
    switches the guard off."""
    patience: Count = 3
    """How many steps in a row a rule must be broken for an alarm."""
    baseline_steps: Count = 10
    """How many of the first steps make the baseline."""
    zero_gradient: Share = 0.95
    """Alarm above this share of groups without any advantage, while tasks are unsolved."""
    no_tool: Share = 0.5
    """Alarm above this share of episodes without a call that ran."""
    ended_on_tool: Share = 0.5
    """Alarm above this share of episodes that a budget ended while they still called tools."""
    length_growth: Positive = 4.0
    """Alarm if messages have more tokens than this multiple of the baseline."""
    entropy_floor: Share = 0.02
    """Alarm if the policy's entropy falls below this multiple of the baseline."""
    entropy_ceiling: Positive = 4.0
    """Alarm if the policy's entropy rises above this multiple of the baseline."""
    diversity_floor: Share = 0.05
    """Alarm if the diversity of the messages of a group falls below this multiple of the baseline."""
    gradient_growth: Positive = 50.0
    """Alarm if the gradient's norm before clipping rises above this multiple of the baseline."""
    drift: Positive = 0.2
    """Alarm above this mean distance, in nats, of a token's sampled and recomputed log-probabilities."""
    success_drop: Share = 0.4
    """Alarm if success of the last steps falls below this share of the best so far."""
    success_share: Share = 0.25
    """Alarm if success causes less than this share of the advantages, and other rewards cause the rest."""
    validation_drop: Share = 0.85
    """Alarm at once if success on the validation tasks falls below this share of the best validation so far."""
    solved: Share = 0.9
    """At or above this success, a run without gradient counts as solved, not as collapsed."""
