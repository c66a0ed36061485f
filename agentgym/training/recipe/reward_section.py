"""The recipe's [reward]: the rewards that judge, their options, and the combination of their components."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field

from agentgym import registry
from agentgym.errors import RecipeError
from agentgym.options import Registered, Section, Share
from agentgym.reward.combined import Combined, Gate, Schedule
from agentgym.reward.contract import Reward
from agentgym.task.task_set import TaskSet

Finite = Annotated[float, Field(allow_inf_nan=False)]


class ScheduleSection(Section):
    """A factor on a component's weight over training (see agentgym.Schedule)."""

    start: Finite
    """The factor before `begin`."""
    end: Finite
    """The factor after `finish`."""
    begin: Share = 0.0
    """The share of the training, 0 to 1, at which the change begins."""
    finish: Share = 1.0
    """The share of the training, 0 to 1, at which the change ends."""
    shape: Literal["linear", "cosine", "step"] = "linear"
    """The form of the change: `linear`; `cosine`, slow at both ends; or `step`, all at once at `finish`."""

    def make(self) -> Schedule:
        """Make the schedule. Raises: ValueError if it begins after it finishes."""
        return Schedule(**self.model_dump())


class GateSection(Section):
    """Components that count only if another is high (see agentgym.Gate)."""

    by: str
    """The component that decides."""
    threshold: Finite
    """The value that `by` must reach."""
    opens: list[str] = []
    """The components that count only then. By default these are all other components."""


class RewardSection(Section):
    """The registered rewards that judge, and the combination of their components."""

    name: Annotated[str | None, Registered("rewards")] = None
    """The registered reward. By default it is the environment's own."""
    also: Annotated[list[str], Registered("rewards")] = []
    """Further registered rewards that judge too."""
    options: dict[str, dict[str, Any]] = {}
    """Arguments of the rewards' constructors, by the name of the reward."""
    weights: dict[str, Finite] = {}
    """The weight of each component in the return, by its name."""
    schedules: dict[str, ScheduleSection] = {}
    """Factors on weights that change over training, by the name of the component."""
    gates: list[GateSection] = []
    """Components that count only where another component is high."""
    caps: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = {}
    """The largest sum over an episode that counts in full, by the name of the component."""

    @property
    def names(self) -> list[str]:
        """Return the names of all rewards in this section."""
        return [*([self.name] if self.name else []), *self.also]

    def make_for(self, task_set: TaskSet) -> Reward | str | None:
        """Make the reward of a task set's training tasks; None means each environment's own. Raises: as `make`."""
        environments = dict.fromkeys(task.environment for task in task_set["train"])
        declared = (registry.prototype(name).reward for name in environments)
        return self.make(reward if isinstance(reward, str) else None for reward in declared)

    def make(self, declared: Iterable[str | None]) -> Reward | str | None:
        """Make the reward. A section that sets only `name` gives that name; an empty one gives None (see `make_for`).

        Args:
            declared: names of the rewards that the tasks' environments declare; read if the section names none.
        Raises: RecipeError for options that a reward does not take, for options of a reward that is not named, or if
            there is no reward to start from; UnknownNameError.
        """
        if not (self.also or self.options or self.weights or self.schedules or self.gates or self.caps):
            return self.name
        first = self.name or next(iter(declared), None)
        if first is None:
            raise RecipeError("The recipe must set reward.name, because the environment declares no reward of its own.")
        names = [first, *self.also]
        if unused := sorted(set(self.options) - set(names)):
            raise RecipeError(
                f"reward.options.{unused[0]}: this recipe uses no reward {unused[0]!r}. Its rewards are: "
                f"{', '.join(names)}."
            )
        try:
            gates = [Gate(gate.by, gate.threshold, tuple(gate.opens)) for gate in self.gates]
            schedules = {name: section.make() for name, section in self.schedules.items()}
            parts = [registry.load_reward(name, **self.options.get(name, {})) for name in names]
        except (TypeError, ValueError) as error:
            raise RecipeError(f"The reward of [reward] cannot be made: {error}") from error
        return Combined(*parts, weights=self.weights, schedules=schedules, gates=gates, caps=self.caps)
