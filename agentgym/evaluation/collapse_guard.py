"""The collapse guard: detects from the logged metrics that a training run is collapsing.

Each rule reads one metric. A rule that is broken `patience` steps in a row raises an alarm. It can raise another only
after it was satisfied in between. Rules with a baseline compare with the median of the run's first `baseline_steps`
steps.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from agentgym.credit.reward_parts import MOVED_BY
from agentgym.evaluation.guard_section import GuardSection
from agentgym.reward import SUCCESS

VALIDATION_DROP = "validation_drop"


@dataclass(frozen=True, slots=True)
class Alarm:
    """The alarm of a rule that was broken for long enough.

    Attributes:
        step: the logged step. `rule`: the rule's name. `value`, `limit`: the metric's value and limit.
        reason: a sentence for the user.
    """

    step: int
    rule: str
    value: float
    limit: float
    reason: str


@dataclass(frozen=True, slots=True)
class _Rule:
    """One metric and an upper or lower limit; `relative` limits are multiples of the metric's baseline."""

    metric: str
    limit: float
    upper: bool
    relative: bool
    reason: str
    unless_solved: bool = False


class CollapseGuard:
    """Watches one run. Pass the metrics of every step to `observe` in order, including steps before a resume.

    Attributes:
        alarms: the alarms raised so far.
    """

    def __init__(self, settings: GuardSection | None = None) -> None:
        self.settings = settings or GuardSection()
        self.alarms: list[Alarm] = []
        self._rules = _rules(self.settings)
        self._baselines: dict[str, list[float]] = {}
        self._broken: dict[str, int] = {}
        self._recent: deque[float] = deque(maxlen=max(5, self.settings.patience))
        self._best = self._best_validation = 0.0

    @property
    def healthy(self) -> bool:
        """Return whether no rule is currently broken, so that a checkpoint saved now is healthy."""
        return not any(self._broken.values())

    def observe(self, step: int, metrics: Mapping[str, Any]) -> list[Alarm]:
        """Check one step. Returns: the alarms raised, usually none."""
        if self.settings.on_alarm == "off":
            return []
        numbers = {name: float(v) for name, v in metrics.items() if isinstance(v, (int, float))}
        raised = []
        for name, broken, value, limit, reason in self._judgements(numbers):
            count = self._broken.get(name, 0) + 1 if broken else 0
            self._broken[name] = count
            at_once = not math.isfinite(value)
            if count == (1 if at_once else self.settings.patience):
                raised.append(Alarm(step, name, value, limit, reason))
        for rule in self._rules.values():
            if rule.relative and math.isfinite(value := numbers.get(rule.metric, math.nan)):
                baseline = self._baselines.setdefault(rule.metric, [])
                if len(baseline) < self.settings.baseline_steps:
                    baseline.append(value)
        self.alarms += raised
        return raised

    def observe_validation(self, step: int, success: float) -> list[Alarm]:
        """Check the success on the validation tasks. Returns: the alarms raised, usually none."""
        if self.settings.on_alarm == "off" or not math.isfinite(success):
            return []
        self._best_validation = max(self._best_validation, success)
        limit = self.settings.validation_drop * self._best_validation
        was_broken, self._broken[VALIDATION_DROP] = self._broken.get(VALIDATION_DROP, 0), int(success < limit)
        if success >= limit or was_broken:
            return []
        reason = (
            f"The agent becomes worse on tasks that it does not train on: success on the validation tasks is "
            f"{success:.3g}, and was {self._best_validation:.3g} at best"
        )
        self.alarms.append(Alarm(step, VALIDATION_DROP, success, limit, reason))
        return self.alarms[-1:]

    def _judgements(self, numbers: Mapping[str, float]) -> list[tuple[str, bool, float, float, str]]:
        """Return, for each rule whose metric was logged: its name, whether it is broken, value, limit and reason."""
        success = numbers.get("success", math.nan)
        judgements = []
        for name, rule in self._rules.items():
            if rule.metric not in numbers:
                continue
            value, limit = numbers[rule.metric], rule.limit
            if rule.relative:
                baseline = self._baselines.get(rule.metric, [])
                if len(baseline) < self.settings.baseline_steps and math.isfinite(value):
                    continue
                limit = rule.limit * median(baseline) if baseline else math.nan
            beyond = value > limit if rule.upper else value < limit
            excused = rule.unless_solved and success >= self.settings.solved
            reason = f"{rule.reason}: {rule.metric} is {value:.3g}, and the limit {limit:.3g}"
            judgements.append((name, not math.isfinite(value) or (beyond and not excused), value, limit, reason))
        if math.isfinite(success):
            judgements.append(self._judge_success(success))
        return judgements

    def _judge_success(self, success: float) -> tuple[str, bool, float, float, str]:
        self._recent.append(success)
        mean = sum(self._recent) / len(self._recent)
        if len(self._recent) == self._recent.maxlen:
            self._best = max(self._best, mean)
        limit = self.settings.success_drop * self._best
        reason = f"What was learnt is being lost: success is {mean:.3g}, and was {self._best:.3g} at best"
        return "success_drop", mean < limit, mean, limit, reason


def _rules(s: GuardSection) -> dict[str, _Rule]:
    return {
        "zero_gradient": _Rule(
            "guard/zero_gradient",
            s.zero_gradient,
            True,
            False,
            "In almost every group all episodes have the same return, so there is nothing to learn from",
            True,
        ),
        "success_share": _Rule(
            f"{MOVED_BY}{SUCCESS}",
            s.success_share,
            False,
            False,
            "Other rewards than success move the policy",
            True,
        ),
        "no_tool": _Rule("guard/no_tool", s.no_tool, True, False, "The agent no longer uses its tools"),
        "ended_on_tool": _Rule(
            "guard/ended_on_tool", s.ended_on_tool, True, False, "Budgets end most episodes in the middle of a call"
        ),
        "length": _Rule("guard/turn_tokens", s.length_growth, True, True, "Messages grow without end"),
        "entropy_low": _Rule("entropy", s.entropy_floor, False, True, "The policy has become certain", True),
        "entropy_high": _Rule("entropy", s.entropy_ceiling, True, True, "The policy falls apart into noise"),
        "diversity": _Rule(
            "guard/diversity", s.diversity_floor, False, True, "All episodes of a group say the same", True
        ),
        "gradient": _Rule("grad_norm", s.gradient_growth, True, True, "The gradient explodes"),
        "drift": _Rule("guard/drift", s.drift, True, False, "Sampler and trainer no longer agree on what was sampled"),
    }
