"""Tasks and task sets: plain frozen data, named splits, a fingerprint, and a guard on the held-out split."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from agentgym.deprecation import renamed_keywords, renamed_member
from agentgym.errors import HeldOutError, SplitLeakError, TaskError
from agentgym.messages import Call, Content, ImagePart, Message, Part, TextPart, images_of

Split = Literal["train", "validation", "held_out"]
SPLITS: tuple[Split, ...] = ("train", "validation", "held_out")

BOOKKEEPING = frozenset({"seed", "index", "idx", "id", "uid", "row", "number", "split", "source_index"})
"""Names of parameters that number a task and say nothing of what it asks."""

_training: ContextVar[bool] = ContextVar("agentgym_training", default=False)


@dataclass(frozen=True, slots=True)
class Task:
    """One problem.

    Attributes:
        id: unique in its task set.
        environment: the registered id of the environment it is played in.
        prompt: what the agent is asked.
        messages: the opening messages instead, when one string is not enough.
        parameters: what the environment is built from. The environment may read it.
        truth: what judges it. Only rewards see it: never the policy, the environment or its tools.
        hints: steps of a solution, as hidden as the truth: only gatherers of a training may put some into a prompt.
        split: train, validation or held_out. `tags`: names of strata that it belongs to.
        difficulty: on the set's own scale, higher is harder.
    """

    id: str
    environment: str
    prompt: str = ""
    messages: tuple[Message, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    truth: Any = None
    split: Split = "train"
    tags: tuple[str, ...] = ()
    difficulty: float = 0.0
    hints: tuple[str, ...] = ()

    def public(self) -> Task:
        """The task as the environment gets it: without its truth and hints."""
        return replace(self, truth=None, hints=())

    def opening(self) -> list[Message]:
        """The task's own opening messages: `messages` if given, else the prompt as one user message."""
        return list(self.messages) or [Message("user", self.prompt)]

    def content_key(self, *, numbered: bool = True) -> str:
        """Hash of what is asked, blind to case and white space: equal keys are the same problem.

        Without `numbered`, blind to BOOKKEEPING parameters too: equal keys may be the same problem.
        """
        words = [" ".join(m.text.casefold().split()) for m in self.opening()]
        parameters = {key: value for key, value in self.parameters.items() if numbered or key not in BOOKKEEPING}
        images = [image.digest for image in images_of(self.opening())]
        text = _canonical([self.environment, words, _folded(parameters), *([images] if images else [])])
        return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def training_only() -> Iterator[None]:
    """While open, reading `held_out` from any task set raises HeldOutError. Trainers run inside it."""
    token = _training.set(True)
    try:
        yield
    finally:
        _training.reset(token)


@renamed_keywords(novice="imperfect_oracle")
class TaskSet(Mapping[str, Sequence[Task]]):
    """A named, versioned collection of tasks: `task_set["train"][0]`.

    Splits are checked when the set is built: ids are unique over the whole set, and no two splits share
    a problem by normalised content. Nor may half of a split's tasks be those of another but for their numbers, where
    tasks can be told apart without: that is what neighbouring generator seeds do.

    Args:
        name: as registered, for example `sql/store-v1`.
        splits: tasks by split name; a split that is absent is empty.
        oracle: makes a scripted solution of a task, where the set has one: `oracle(task)` yields the
            agent messages that solve it (see `agentgym.policy.ScriptedPolicy`).
        imperfect_oracle: likewise, but it uses the tools well for the wrong goal, so that a policy that imitated both
            players still has something to learn from reward.
        answer: the message that answers a task rightly, made from its truth. Only trainers see it: they ask how
            likely it is after each turn (information gain).
    Raises: SplitLeakError naming both tasks; TaskError for a duplicate id or an unknown split.
    """

    novice = renamed_member("imperfect_oracle")

    def __init__(
        self,
        name: str,
        splits: Mapping[str, Sequence[Task]],
        *,
        oracle: Callable[[Task], Any] | None = None,
        imperfect_oracle: Callable[[Task], Any] | None = None,
        answer: Callable[[Task], Message] | None = None,
    ) -> None:
        if unknown := set(splits) - set(SPLITS):
            raise TaskError(f"{name}: unknown split {sorted(unknown)}. Splits are {', '.join(SPLITS)}.")
        self.name = name
        self.oracle, self.imperfect_oracle, self.answer = oracle, imperfect_oracle, answer
        self._splits: dict[str, Sequence[Task]] = {split: splits.get(split, ()) for split in SPLITS}
        self._check_disjoint()

    def __getitem__(self, split: str) -> Sequence[Task]:
        if split not in self._splits:
            raise TaskError(f"{self.name} has no split {split!r}. Splits are {', '.join(SPLITS)}.")
        if split == "held_out" and _training.get():
            raise HeldOutError(
                f"A trainer asked for the held-out split of {self.name}. Held-out tasks measure, they never "
                "train or select: use 'train' to train and 'validation' to choose."
            )
        return self._splits[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self._splits)

    def __len__(self) -> int:
        return len(self._splits)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{split}={len(tasks)}" for split, tasks in self._splits.items())
        return f"TaskSet({self.name!r}, {sizes})"

    def tagged(self, *tags: str) -> TaskSet:
        """The same set with only those tasks that carry one of the tags, in every split.

        Raises: TaskError if no training task carries one.
        """
        splits = {name: [task for task in tasks if set(tags) & set(task.tags)] for name, tasks in self._splits.items()}
        if not splits["train"]:
            known = sorted({tag for task in self._splits["train"] for tag in task.tags})
            raise TaskError(f"{self.name}: no training task is tagged {', '.join(tags)}. Tags are {', '.join(known)}.")
        return TaskSet(
            self.name, splits, oracle=self.oracle, imperfect_oracle=self.imperfect_oracle, answer=self.answer
        )

    def fingerprint(self) -> str:
        """Hash over every task of every split in order, truth included: equal means the same set."""
        digest = hashlib.sha256()
        for tasks in self._splits.values():
            for task in tasks:
                digest.update(_canonical(task_to_json(task)).encode())
        return digest.hexdigest()[:16]

    def _check_disjoint(self) -> None:
        self._check_numbered()
        by_id: dict[str, str] = {}
        by_content: dict[str, tuple[str, str]] = {}
        for split, tasks in self._splits.items():
            for task in tasks:
                if (other := by_id.setdefault(task.id, split)) != split:
                    raise SplitLeakError(
                        f"{self.name}: task {task.id!r} is in both {other!r} and {split!r}. "
                        "Give every task to exactly one split."
                    )
                key = task.content_key()
                where, twin = by_content.setdefault(key, (split, task.id))
                if where != split:
                    raise SplitLeakError(
                        f"{self.name}: {task.id!r} in {split!r} asks the same as {twin!r} in {where!r} "
                        "(same words and parameters, ignoring case and spaces). Remove one of them."
                    )
            if twice := [name for name, count in Counter(task.id for task in tasks).items() if count > 1]:
                raise TaskError(f"{self.name}: the id {twice[0]!r} occurs twice in {split!r}. Ids are unique in a set.")

    def _check_numbered(self) -> None:
        """Splits drawn from overlapping streams, such as Random(seed + index), repeat each other under new numbers.

        Judged only where nearly every task has words of its own; else its number may be what tells it apart.
        """
        keys: dict[str, dict[str, str]] = {}
        for split, tasks in self._splits.items():
            if len(tasks) > 9 and all(BOOKKEEPING & task.parameters.keys() for task in tasks):
                words = {tuple(message.text for message in task.opening()) for task in tasks}
                if len(words) * 10 > len(tasks) * 9:
                    keys[split] = {task.content_key(numbered=False) + _canonical(task.truth): task.id for task in tasks}
        for first, second in combinations(keys, 2):
            twins = keys[first].keys() & keys[second].keys()
            if len(twins) * 2 > min(len(keys[first]), len(keys[second])):
                twin = min(twins, key=lambda key: keys[second][key])
                raise SplitLeakError(
                    f"{self.name}: {len(twins)} tasks of {second!r} ask the same as tasks of {first!r} under another "
                    f"number, for example {keys[second][twin]!r} and {keys[first][twin]!r}. Seeds such as seed + index "
                    "share a stream between splits: seed each task by agentgym.task.seed_of(set, split, seed, index)."
                )

    @classmethod
    def from_jsonl(cls, path: str | Path, *, name: str | None = None) -> TaskSet:
        """Read one JSON object a line, each with the fields of Task; `split` says where it goes.

        Raises: TaskError naming file, line and field; nothing is loaded from a file with a broken line.
        """
        path = Path(path)
        splits: dict[str, list[Task]] = {split: [] for split in SPLITS}
        seen: dict[str, int] = {}
        for number, line in enumerate(_lines(path), start=1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                row = json.loads(line, parse_constant=_refuse_constant)
            except (ValueError, RecursionError) as error:
                raise TaskError(f"{where}: not valid JSON: {error}. The line begins {line[:60]!r}.") from error
            if isinstance(row, dict) and row.keys() == {"canary"}:
                continue
            task = task_from_json(row, where)
            if task.id in seen:
                raise TaskError(f"{where}: the id {task.id!r} is already used in line {seen[task.id]}.")
            seen[task.id] = number
            splits[task.split].append(task)
        if not seen:
            raise TaskError(f"{path} holds no task. Each line is one JSON object with at least id and environment.")
        return cls(name or path.stem, splits)

    def to_jsonl(self, path: str | Path) -> None:
        """Write every split to one JSONL file, whole or not at all; with a held-out split, its canary first."""
        path = Path(path)
        partial = path.with_name(path.name + ".partial")
        with partial.open("w", encoding="utf-8") as file:
            if self._splits["held_out"]:
                file.write(json.dumps({"canary": canary_of(self.name)}) + "\n")
            for tasks in self._splits.values():
                for task in tasks:
                    file.write(json.dumps(task_to_json(task), ensure_ascii=False) + "\n")
        partial.replace(path)


def task_to_json(task: Task) -> dict[str, Any]:
    """A task as JSON-able data; `task_from_json` reads it back equal."""
    row = {f.name: getattr(task, f.name) for f in fields(task) if f.name != "hints"}
    row["messages"] = [_message_to_json(message) for message in task.messages]
    row["parameters"] = dict(task.parameters)
    row["tags"] = list(task.tags)
    return row | ({"hints": list(task.hints)} if task.hints else {})  # without any, as it always was: fingerprints


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
}


def task_from_json(row: Any, where: str = "task") -> Task:
    """Build a task from JSON data. Raises: TaskError that begins with `where` and names the field."""
    if not isinstance(row, dict):
        raise TaskError(f"{where}: expected a JSON object, found {type(row).__name__}.")
    known = {f.name: f for f in fields(Task)}
    if unknown := set(row) - set(known):
        raise TaskError(f"{where}: unknown field {sorted(unknown)}. A task has {', '.join(known)}.")
    for name, kind in _FIELD_TYPES.items():
        if name in ("id", "environment") and not row.get(name):
            raise TaskError(f"{where}: the field {name!r} is missing or empty.")
        if name in row and (not isinstance(row[name], kind) or isinstance(row[name], bool)):
            raise TaskError(f"{where}: the field {name!r} is {row[name]!r}, of the wrong type.")
    if not math.isfinite(row.get("difficulty", 0)):
        raise TaskError(f"{where}: the field 'difficulty' is {row['difficulty']}: expected a finite number.")
    for name in ("tags", "hints"):
        if not all(isinstance(item, str) for item in row.get(name, ())):
            raise TaskError(f"{where}: the field {name!r} is {row[name]!r}: a {name[:-1]} is text.")
    if row.get("split", "train") not in SPLITS:
        raise TaskError(f"{where}: split {row['split']!r} is none of {', '.join(SPLITS)}.")
    if not (row.get("prompt") or row.get("messages")):
        raise TaskError(f"{where}: a task needs a prompt or messages.")
    messages = [
        _message_from_json(message, f"{where}: messages[{index}]")
        for index, message in enumerate(row.get("messages", []))
    ]
    lists = {name: tuple(row.get(name, ())) for name in ("tags", "hints")}
    return Task(**{**row, **lists, "messages": tuple(messages)})


def canary_of(task_set: str) -> str:
    """A line that stands in a task set's files and nowhere else: training text that holds it holds held-out tasks."""
    mark = hashlib.sha256(f"agentgym canary {task_set}".encode()).hexdigest()[:32]
    return f"Held-out tasks must not appear in training text. agentgym canary {mark}"


def seed_of(*parts: object) -> int:
    """A 63-bit seed from a hash of the parts, for example `seed_of("sql/store-v1", "train", 0, index)`.

    Neighbouring indices and splits never share a stream, as `seed + index` makes them do.
    """
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _message_to_json(message: Message) -> dict[str, Any]:
    """Role and content; the calls of an agent, and which call a tool answers, where there are any."""
    row: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if message.calls:
        row["calls"] = [{"name": c.name, "arguments": c.arguments, "id": c.id} for c in message.calls]
    if message.role == "tool":
        row |= {"call_id": message.call_id, "name": message.name}
    return row


def _message_from_json(row: Any, where: str) -> Message:
    """Raises: TaskError that begins with `where`."""
    if not isinstance(row, dict) or row.get("role") not in ("system", "user", "assistant", "tool"):
        raise TaskError(f"{where} needs a role of system, user, assistant or tool.")
    content, calls = _as_content(row.get("content", ""), where), []
    if row["role"] == "tool" and not isinstance(row.get("name"), str):
        raise TaskError(f"{where} has the role tool, and no name of the tool that it comes from.")
    for call in row.get("calls", ()):
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            raise TaskError(f"{where} holds the call {str(call)[:60]!r}. A call is {{name: ..., arguments: {{...}}}}.")
        if not isinstance(call.get("arguments", {}), dict):
            raise TaskError(
                f"{where}: the arguments of {call['name']!r} are {call['arguments']!r}, which is no object."
            )
        calls.append(Call(call["name"], dict(call.get("arguments", {})), str(call.get("id", "call_0"))))
    return Message(row["role"], content, tuple(calls), row.get("call_id"), row.get("name"))


def _content(message: Message) -> Any:
    """Text; where the message shows images, its parts in the shape that model hubs use."""
    if not message.images:
        return message.text
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image", "data": part.data, "media_type": part.media_type}
        for part in message.content
        if not isinstance(part, str)
    ]


def _as_content(data: Any, where: str) -> Content:
    if not isinstance(data, list):
        return str(data)
    parts: list[Part] = []
    for part in data:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            parts.append(TextPart(part["text"]))
        elif kind == "image" and isinstance(part.get("data"), str):
            parts.append(ImagePart(part["data"], str(part.get("media_type", "image/png"))))
        else:
            raise TaskError(
                f"{where} holds the part {str(part)[:60]!r}. A part is {{type: text, text: ...}} or "
                "{type: image, data: base64, media_type: ...}."
            )
    return tuple(parts)


def _lines(path: Path) -> Iterable[str]:
    try:
        with path.open(encoding="utf-8") as file:
            yield from file
    except OSError as error:
        raise TaskError(f"Cannot read the task file {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise TaskError(f"{path} is not UTF-8 text: {error}.") from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _folded(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.casefold().split())
    if isinstance(value, Mapping):
        return {key: _folded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_folded(item) for item in value]
    return value
