"""One entry of the recipe's list of stages."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from agentgym.section import Section

_USUAL_NAMES = {"imitate": "warm_start", "reinforce": "train"}


class StageSection(Section):
    """One stage of a run; `[[stage]]` lists them in their order. Without a list a run has the usual stages.

    `kind`: what it does, see `agentgym list stages`. `name`: of its checkpoints, episodes and metrics, or of the
    evaluation that it writes; by default `warm_start` for `imitate`, `train` for `reinforce`, else the kind.
    `options`: replace keys of [warm_start] for `imitate`, of [train] for `reinforce`, and of [evaluate] for `evaluate`
    and `control`; other kinds have options of their own.
    """

    kind: str
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")] | None = None
    options: dict[str, Any] = {}

    @property
    def given_name(self) -> str:
        """The name, or the usual one of its kind."""
        return self.name or _USUAL_NAMES.get(self.kind, self.kind)
