"""Task: one problem; and Origin: where a task made during training comes from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agentgym.messages import Message, images_of
from agentgym.text import fold_text

Split = Literal["train", "validation", "held_out"]
SPLITS: tuple[Split, ...] = ("train", "validation", "held_out")

BOOKKEEPING = frozenset({"seed", "index", "idx", "id", "uid", "row", "number", "split", "source_index"})
"""Names of parameters that number a task and do not affect what it asks."""


VARIANTS = "variants"
"""The generator name of tasks that a policy wrote in one training step."""
INSTRUCTIONS = "instructions"
"""The generator name of tasks that ask the policy to write such tasks."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a task made during training comes from. Such a task is only for training: see TaskSet.

    Attributes:
        generator: what made it, for example "generate" or "variants".
        parent: the id of the task that it was made from.
        episode: the id of the episode that it was made from, if any.
    """

    generator: str
    parent: str = ""
    episode: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """One problem."""

    id: str
    """The id of the task, unique in its task set."""
    environment: str
    """The registered id of the environment that it is played in."""
    prompt: str = ""
    """What the agent is asked."""
    messages: tuple[Message, ...] = ()
    """The opening messages, instead of `prompt` if one string is not enough."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The data that the environment is built from. The environment may read it."""
    truth: Any = None
    """The data that rewards judge the task by. The policy, the environment and its tools never see it."""
    split: Split = "train"
    """train, validation or held_out."""
    tags: tuple[str, ...] = ()
    """The names of strata that the task belongs to."""
    difficulty: float = 0.0
    """The difficulty on the set's own scale; higher is harder."""
    hints: tuple[str, ...] = ()
    """Steps of a solution, hidden like the truth. Only training gatherers may put some into a prompt."""
    origin: Origin | None = None
    """Where a generated task comes from; None for an original task of the set."""

    @property
    def is_of_one_step(self) -> bool:
        """Whether the policy wrote the task in a step, or was to write something: it says nothing about the set."""
        return self.origin is not None and self.origin.generator in (VARIANTS, INSTRUCTIONS)

    def public(self) -> Task:
        """Return the task as the environment gets it: without its truth, hints and origin.

        Its parameters are a copy, so an environment that changes them does not affect others.
        """
        return replace(self, parameters=own_data(self.parameters), truth=None, hints=(), origin=None)

    def copy(self) -> Task:
        """Return the task with copied parameters and truth, which one episode may modify."""
        return replace(self, parameters=own_data(self.parameters), truth=own_data(self.truth))

    def opening(self) -> list[Message]:
        """Return the task's own opening messages: `messages` if given, else the prompt as one user message."""
        return list(self.messages) or [Message("user", self.prompt)]

    def content_key(self, *, numbered: bool = True) -> str:
        """Return a hash of the problem, ignoring case, white space and Unicode form: equal keys mean the same problem.

        Without `numbered`, the hash ignores BOOKKEEPING parameters too: equal keys may be the same problem.
        """
        words = [fold_text(m.text) for m in self.opening()]
        parameters = {key: value for key, value in self.parameters.items() if numbered or key not in BOOKKEEPING}
        images = [image.digest for image in images_of(self.opening())]
        text = canonical_json([self.environment, words, _folded(parameters), *([images] if images else [])])
        return hashlib.sha256(text.encode()).hexdigest()


def pair_of(task: Task) -> str | None:
    """Return `truth["pair"]`, which tasks that ask the same in other words share; None if the task has none."""
    pair = task.truth.get("pair") if isinstance(task.truth, Mapping) else None
    return None if pair is None else str(pair)


def own_data(value: Any) -> Any:
    """Return a copy of plain data: copy dicts, lists and sets, but share any other object."""
    if isinstance(value, Mapping):
        return {key: own_data(each) for key, each in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(own_data(each) for each in value)
    return bytearray(value) if isinstance(value, bytearray) else value


def seed_of(*parts: object) -> int:
    """Return a 63-bit seed from a hash of the parts, for example `seed_of("sql/store-v1", "train", 0, index)`.

    Neighbouring indices and splits never share a stream, unlike with `seed + index`.
    """
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def canonical_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _folded(value: Any) -> Any:
    if isinstance(value, str):
        return fold_text(value)
    if isinstance(value, Mapping):
        return {key: _folded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_folded(item) for item in value]
    return value
