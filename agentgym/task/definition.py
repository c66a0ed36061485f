"""Task: one problem; and Origin: where a task made during training comes from."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Literal

from agentgym.errors import TaskError
from agentgym.messages import Message, images_of
from agentgym.text import fold_text

Split = Literal["train", "validation", "held_out"]
SPLITS: tuple[Split, ...] = ("train", "validation", "held_out")

SOURCE = "source:"
"""The prefix of the tag that names the set of a task in a mixture."""

_FIELD_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "id": str,
    "environment": str,
    "prompt": str,
    "messages": list,
    "parameters": dict,
    "split": str,
    "tags": list,
    "hints": list,
    "difficulty": (int, float),
    "origin": dict,
}
"""The types of the fields of a task as JSON data."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a task made during training comes from. Such a task is only for training: see TaskSet.

    Attributes:
        generator: what made it, for example "generate" or "variants".
        parent: the id of the task that it was made from.
        episode: the id of the episode that it was made from, if any.
    """

    VARIANTS: ClassVar[str] = "variants"
    """The generator of tasks that a policy wrote in one training step."""
    INSTRUCTIONS: ClassVar[str] = "instructions"
    """The generator of tasks that ask the policy to write such tasks."""

    generator: str
    parent: str = ""
    episode: str = ""

    @classmethod
    def from_json(cls, row: Mapping[str, Any], where: str) -> Origin:
        """Build an origin from JSON data. Raises: TaskError, whose message begins with `where`."""
        known = [f.name for f in fields(cls)]
        if not set(row) <= set(known) or not row.get("generator") or not all(isinstance(v, str) for v in row.values()):
            raise TaskError(
                f"{where}: the field 'origin' is {dict(row)}. Give it only texts with the names {', '.join(known)}."
            )
        return cls(**row)


@dataclass(frozen=True, slots=True)
class Task:
    """One problem."""

    BOOKKEEPING: ClassVar = frozenset({"seed", "index", "idx", "id", "uid", "row", "number", "split", "source_index"})
    """Names of parameters that number a task and do not affect what it asks."""

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
    """The origin of a generated task; None for an original task of the set."""

    @property
    def is_of_one_step(self) -> bool:
        """Whether the policy wrote the task in a training step, or the task asks for one, which is not typical."""
        return self.origin is not None and self.origin.generator in (Origin.VARIANTS, Origin.INSTRUCTIONS)

    @property
    def pair(self) -> str | None:
        """`truth["pair"]`, which is equal for tasks that ask the same in other words; None if the task has none."""
        pair = self.truth.get("pair") if isinstance(self.truth, Mapping) else None
        return None if pair is None else str(pair)

    @property
    def source(self) -> str | None:
        """The name of the set that a task of a mixture comes from; None outside a mixture."""
        return next((tag.removeprefix(SOURCE) for tag in self.tags if tag.startswith(SOURCE)), None)

    def public(self) -> Task:
        """Return the task as the environment gets it: without its truth, hints and origin.

        Its parameters are a copy, so an environment that changes them does not affect others.
        """
        return self._with(own_data(self.parameters), None, (), None)

    def copy(self) -> Task:
        """Return the task with copied parameters and truth, which one episode may modify."""
        return self._with(own_data(self.parameters), own_data(self.truth), self.hints, self.origin)

    def _with(self, parameters: Mapping[str, Any], truth: Any, hints: tuple[str, ...], origin: Origin | None) -> Task:
        """Do the same as `dataclasses.replace`, but faster: each episode copies its task twice."""
        if type(self) is not Task:
            return replace(self, parameters=parameters, truth=truth, hints=hints, origin=origin)
        return Task(
            self.id,
            self.environment,
            self.prompt,
            self.messages,
            parameters,
            truth,
            self.split,
            self.tags,
            self.difficulty,
            hints,
            origin,
        )

    def opening(self) -> list[Message]:
        """Return the task's own opening messages: `messages` if given, else the prompt as one user message."""
        return list(self.messages) or [Message("user", self.prompt)]

    def content_key(self, *, numbered: bool = True) -> str:
        """Return a hash of the problem, ignoring case, white space and Unicode form: equal keys mean the same problem.

        Without `numbered`, the hash ignores BOOKKEEPING parameters too: tasks with equal keys may still differ.
        """
        words = [fold_text(m.text) for m in self.opening()]
        parameters = {key: value for key, value in self.parameters.items() if numbered or key not in self.BOOKKEEPING}
        images = [image.digest for image in images_of(self.opening())]
        text = canonical_json([self.environment, words, _folded(parameters), *([images] if images else [])])
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the task as JSON-able data; `from_json` reads it back equal."""
        row = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("hints", "origin")}
        row["messages"] = [message.to_json() for message in self.messages]
        row["parameters"] = dict(self.parameters)
        row["tags"] = list(self.tags)
        row |= {"hints": list(self.hints)} if self.hints else {}  # omitted if empty, to keep older fingerprints
        return row | ({"origin": asdict(self.origin)} if self.origin is not None else {})

    @classmethod
    def from_json(cls, row: Any, where: str = "task") -> Task:
        """Build a task from JSON data. Raises: TaskError, whose message begins with `where` and names the field."""
        if not isinstance(row, dict):
            raise TaskError(f"{where}: expected a JSON object, found {type(row).__name__}. Write one object a line.")
        known = {f.name: f for f in fields(cls)}
        if unknown := set(row) - set(known):
            raise TaskError(f"{where}: unknown field {sorted(unknown)}. The fields of a task are: {', '.join(known)}.")
        for name, kind in _FIELD_TYPES.items():
            if name in ("id", "environment") and not row.get(name):
                raise TaskError(f"{where}: the field {name!r} is missing or empty.")
            if name in row and (not isinstance(row[name], kind) or isinstance(row[name], bool)):
                raise TaskError(f"{where}: the field {name!r} is {row[name]!r}, which has the wrong type.")
        if not math.isfinite(row.get("difficulty", 0)):
            raise TaskError(f"{where}: the field 'difficulty' is {row['difficulty']}, which is not a finite number.")
        for name in ("tags", "hints"):
            if not all(isinstance(item, str) for item in row.get(name, ())):
                raise TaskError(f"{where}: the field {name!r} is {row[name]!r}, but each {name[:-1]} must be text.")
        if row.get("split", "train") not in SPLITS:
            raise TaskError(f"{where}: there is no split {row['split']!r}. Choose one of {', '.join(SPLITS)}.")
        if not (row.get("prompt") or row.get("messages")):
            raise TaskError(f"{where}: a task needs a prompt or messages.")
        messages = []
        for index, message in enumerate(row.get("messages", ())):
            try:
                messages.append(Message.from_json(message))
            except ValueError as error:
                raise TaskError(f"{where}: messages[{index}] {error}") from error
        origin = Origin.from_json(row["origin"], where) if "origin" in row else None
        lists = {name: tuple(row.get(name, ())) for name in ("tags", "hints")}
        return cls(**{**row, **lists, "messages": tuple(messages), "origin": origin})


def own_data(value: Any) -> Any:
    """Return a copy of plain data: copy dicts, lists and sets, but share any other object."""
    if value is None or isinstance(value, (str, int, float)):  # nearly every value
        return value
    if type(value) is dict or isinstance(value, Mapping):
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


def seeds_of(*parts: object) -> Callable[[object], int]:
    """Return `lambda last: seed_of(*parts, last)`, which hashes the common parts only once."""
    common = hashlib.sha256("\x1f".join(map(str, [*parts, ""])).encode())

    def seed(last: object) -> int:
        hashed = common.copy()
        hashed.update(str(last).encode())
        return int.from_bytes(hashed.digest()[:8], "big") >> 1

    return seed


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
