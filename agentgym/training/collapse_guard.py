"""The collapse guard: tells from the logged figures that a run is dying, before it is dead.

Each rule reads one figure. A rule that is broken `patience` steps in a row raises an alarm, once until it has been
kept again. Rules with a baseline compare with the median of the first `baseline_steps` steps of the run.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from agentgym.training.section import Count, Rate, Section, Share


class GuardSection(Section):
    """When the guard speaks, and what happens then.

    `on_alarm`: `go_on` says so, keeps the last healthy checkpoint and goes on; `stop` ends the training there; `off`
    does not look at all.
    `patience`: steps in a row. `baseline_steps`: how many first steps the run is later compared with.
    `zero_gradient`: share of groups without any advantage, while tasks are unsolved. `no_tool`: share of episodes
    without a call that ran. `ended_on_tool`: share that a budget ended at work. `drift`: mean distance of sampled and
    recomputed log-probabilities of a token, in nats. `success_drop`: success of the last steps, as a share of the best
    so far. `solved`: success from which a run without gradient has learnt what there is, and has not collapsed.
    Multiples of the baseline: `length_growth` of a message's tokens, `entropy_floor` and `entropy_ceiling`,
    `diversity_floor` of what a group's episodes say, `gradient_growth` of the norm before clipping.
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


@dataclass(frozen=True, slots=True)
class Alarm:
    """A rule that was broken long enough.

    Attributes:
        step: of the log. `rule`: its name. `value`, `limit`: of the figure. `reason`: in words.
    """

    step: int
    rule: str
    value: float
    limit: float
    reason: str


@dataclass(frozen=True, slots=True)
class _Rule:
    """One figure and the limit on one side of it; `relative` limits are multiples of the figure's baseline."""

    figure: str
    limit: float
    over: bool
    relative: bool
    reason: str
    unless_solved: bool = False


class CollapseGuard:
    """Watches one run. `observe` is given every step's figures in order, also those of a run that is resumed.

    Attributes:
        alarms: raised so far.
    """

    def __init__(self, settings: GuardSection | None = None) -> None:
        self.settings = settings or GuardSection()
        self.alarms: list[Alarm] = []
        self._rules = _rules(self.settings)
        self._first: dict[str, list[float]] = {}
        self._broken: dict[str, int] = {}
        self._recent: deque[float] = deque(maxlen=max(5, self.settings.patience))
        self._best = 0.0

    @property
    def calm(self) -> bool:
        """No rule is broken at the moment: what is saved now is healthy."""
        return not any(self._broken.values())

    def observe(self, step: int, figures: Mapping[str, Any]) -> list[Alarm]:
        """Look at one step. Returns: alarms that it raises, usually none."""
        if self.settings.on_alarm == "off":
            return []
        numbers = {name: float(v) for name, v in figures.items() if isinstance(v, (int, float))}
        raised = []
        for name, broken, value, limit, reason in self._judgements(numbers):
            count = self._broken.get(name, 0) + 1 if broken else 0
            self._broken[name] = count
            at_once = not math.isfinite(value)
            if count == (1 if at_once else self.settings.patience):
                raised.append(Alarm(step, name, value, limit, reason))
        for rule in self._rules.values():
            if rule.relative and math.isfinite(value := numbers.get(rule.figure, math.nan)):
                kept = self._first.setdefault(rule.figure, [])
                if len(kept) < self.settings.baseline_steps:
                    kept.append(value)
        self.alarms += raised
        return raised

    def _judgements(self, numbers: Mapping[str, float]) -> list[tuple[str, bool, float, float, str]]:
        """Of each rule whose figure is there: its name, whether it is broken, value, limit, and reason."""
        success = numbers.get("success", math.nan)
        found = []
        for name, rule in self._rules.items():
            if rule.figure not in numbers:
                continue
            value, limit = numbers[rule.figure], rule.limit
            if rule.relative:
                first = self._first.get(rule.figure, [])
                if len(first) < self.settings.baseline_steps and math.isfinite(value):
                    continue
                limit = rule.limit * median(first) if first else math.nan
            beyond = value > limit if rule.over else value < limit
            excused = rule.unless_solved and success >= self.settings.solved
            told = f"{rule.reason}: {rule.figure} is {value:.3g}, and the limit {limit:.3g}"
            found.append((name, not math.isfinite(value) or (beyond and not excused), value, limit, told))
        if math.isfinite(success):
            found.append(self._fallen(success))
        return found

    def _fallen(self, success: float) -> tuple[str, bool, float, float, str]:
        self._recent.append(success)
        mean = sum(self._recent) / len(self._recent)
        if len(self._recent) == self._recent.maxlen:
            self._best = max(self._best, mean)
        limit = self.settings.success_drop * self._best
        told = f"What was learnt is being lost: success is {mean:.3g}, and was {self._best:.3g} at best"
        return "success_drop", mean < limit, mean, limit, told


def _rules(s: GuardSection) -> dict[str, _Rule]:
    return {
        "zero_gradient": _Rule(
            "guard/zero_gradient",
            s.zero_gradient,
            True,
            False,
            "Almost no group tells its episodes apart, so there is nothing to learn from",
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
