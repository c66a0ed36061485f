"""TaskSet: named splits that share no problem, a fingerprint, and a guard on the held-out split."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

from agentgym import strict_json
from agentgym.errors import HeldOutError, SplitLeakError, TaskError
from agentgym.messages import Message
from agentgym.task.dataset_rows import Columns, dataset_of, is_folder, tasks_from_dataset
from agentgym.task.definition import SPLITS, Split, Task, canonical_json, seed_of
from agentgym.task.script import task_player

_training: ContextVar[bool] = ContextVar("agentgym_training", default=False)


class TaskSet(Mapping[str, Sequence[Task]]):
    """A named, versioned collection of tasks: `task_set["train"][0]`.

    Splits are checked when the set is built: ids are unique over the whole set; no two splits share a problem by
    normalised content; and at most half of a split's tasks repeat those of another split under other numbers (seed,
    index, ...), as they do if a generator is seeded by seed + index. Splits whose tasks differ only in such numbers are
    exempt from the last check.

    Args:
        name: as registered, for example `sql/store-v1`.
        splits: tasks by split name; a split that is absent is empty.
        oracle: makes a scripted solution of a task, if the set has one: `oracle(task)` yields the
            agent messages that solve it (see `agentgym.ScriptedPolicy`).
        imperfect_oracle: as `oracle`, but the script uses the tools well for the wrong goal, so that a policy that
            imitated both players can still learn from reward.
        answer: makes the correct answer message of a task from its truth. Only trainers see it: they compute its
            likelihood after each turn (information gain).
        generate: makes a new training task of the same kind as a given one: `generate(task, seed)`. Equal arguments
            give an equal task. The stage `generate` sets its id and tags.
    Raises: SplitLeakError naming both tasks, or a task made during training in a split other than `train`; TaskError
        for a duplicate id or an unknown split.
    """

    SPLITS: ClassVar[tuple[Split, ...]] = SPLITS
    """The names of all splits."""

    def __init__(
        self,
        name: str,
        splits: Mapping[str, Sequence[Task]],
        *,
        oracle: Callable[[Task], Any] | None = None,
        imperfect_oracle: Callable[[Task], Any] | None = None,
        answer: Callable[[Task], Message] | None = None,
        generate: Callable[[Task, int], Task] | None = None,
    ) -> None:
        if unknown := set(splits) - set(SPLITS):
            raise TaskError(f"{name} has an unknown split {sorted(unknown)}. The splits are: {', '.join(SPLITS)}.")
        self.name = name
        self.oracle, self.imperfect_oracle = task_player(oracle), task_player(imperfect_oracle)
        self.answer, self.generate = answer, generate
        self._splits: dict[str, Sequence[Task]] = {split: splits.get(split, ()) for split in SPLITS}
        self._check_disjoint()

    def __getitem__(self, split: str) -> Sequence[Task]:
        if split not in self._splits:
            raise TaskError(f"{self.name} has no split {split!r}. The splits are: {', '.join(SPLITS)}.")
        if split == "held_out" and _training.get():
            raise HeldOutError(
                f"A training may not read the held-out split of {self.name}, because held-out tasks only measure. Use "
                "'train' to train, and 'validation' to choose."
            )
        return self._splits[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self._splits)

    def __len__(self) -> int:
        return len(self._splits)

    @staticmethod
    @contextmanager
    def training_only() -> Iterator[None]:
        """Make reading `held_out` from any task set raise HeldOutError in this context. Trainers run inside it."""
        token = _training.set(True)
        try:
            yield
        finally:
            _training.reset(token)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{split}={len(tasks)}" for split, tasks in self._splits.items())
        return f"TaskSet({self.name!r}, {sizes})"

    def player(self, name: str) -> Callable[[Task], Any]:
        """Return the `oracle` or `imperfect_oracle` of this set. Raises: TaskError if there is none."""
        script: Callable[[Task], Any] | None = getattr(self, name)
        if script is None:
            raise TaskError(
                f"{self.name} has no {name} to imitate. Give the TaskSet a `{name}`, or leave out [warm_start] and "
                "start from a model that can already call tools."
            )
        return script

    def solution(self, task: Task) -> Any:
        """Return the script that solves a task: the oracle's or, in a set without one, the correct answer alone.

        Raises: TaskError if the set has neither, or no solution of this task.
        """
        if self.oracle is not None:
            return self.oracle(task)
        if self.answer is not None:
            return [self.answer(task)]
        raise TaskError(f"{self.name} has neither an oracle nor answers")

    def tagged(self, *tags: str) -> TaskSet:
        """Return the same set with only the tasks that have one of the tags, in every split.

        Raises: TaskError if no training task has one of the tags.
        """
        splits = {name: [task for task in tasks if set(tags) & set(task.tags)] for name, tasks in self._splits.items()}
        if not splits["train"]:
            known = sorted({tag for task in self._splits["train"] for tag in task.tags})
            raise TaskError(
                f"{self.name} has no training task with the tags {', '.join(tags)}. Its tags are: {', '.join(known)}."
            )
        return self.with_splits(splits)

    def with_splits(self, splits: Mapping[str, Sequence[Task]]) -> TaskSet:
        """Return a set with the same name and players but other tasks. Raises: as TaskSet."""
        return TaskSet(
            self.name,
            splits,
            oracle=self.oracle,
            imperfect_oracle=self.imperfect_oracle,
            answer=self.answer,
            generate=self.generate,
        )

    def fingerprint(self) -> str:
        """Return a hash of every task of every split in order, truth included: equal hashes mean the same set."""
        digest = hashlib.sha256()
        for tasks in self._splits.values():
            for task in tasks:
                digest.update(canonical_json(task.to_json()).encode())
        return digest.hexdigest()[:16]

    def _check_disjoint(self) -> None:
        self._check_numbered()
        by_id: dict[str, str] = {}
        by_content: dict[str, tuple[str, str]] = {}
        for split, tasks in self._splits.items():
            for task in tasks:
                if task.origin is not None and (split != "train" or task.split != "train"):
                    raise SplitLeakError(
                        f"{self.name}: {task.id!r} is in {split!r}, but a training made it (by "
                        f"{task.origin.generator!r}, from {task.origin.parent!r}). Such tasks may only be trained on."
                    )
                if (other := by_id.setdefault(task.id, split)) != split:
                    raise SplitLeakError(
                        f"{self.name}: task {task.id!r} is in both {other!r} and {split!r}. "
                        "Give every task to exactly one split."
                    )
                key = task.content_key()
                where, twin = by_content.setdefault(key, (split, task.id))
                if where != split:
                    raise SplitLeakError(
                        f"{self.name}: {task.id!r} in {split!r} asks the same as {twin!r} in {where!r} (the words and "
                        "parameters are equal, ignoring case and spaces). Remove one of them."
                    )
            if twice := [name for name, count in Counter(task.id for task in tasks).items() if count > 1]:
                raise TaskError(
                    f"{self.name}: the id {twice[0]!r} occurs twice in {split!r}. Give each task an id of its own."
                )

    def _check_numbered(self) -> None:
        """Raise SplitLeakError if splits repeat tasks under other numbers, as from overlapping streams (seed + index).

        Check only splits in which nearly every task has its own words: elsewhere the number may be the difference.
        """
        keys: dict[str, dict[str, str]] = {}
        for split, tasks in self._splits.items():
            if len(tasks) > 9 and all(Task.BOOKKEEPING & task.parameters.keys() for task in tasks):
                words = {tuple(message.text for message in task.opening()) for task in tasks}
                if len(words) * 10 > len(tasks) * 9:
                    keys[split] = {
                        task.content_key(numbered=False) + canonical_json(task.truth): task.id for task in tasks
                    }
        for first, second in combinations(keys, 2):
            twins = keys[first].keys() & keys[second].keys()
            if len(twins) * 2 > min(len(keys[first]), len(keys[second])):
                twin = min(twins, key=lambda key: keys[second][key])
                raise SplitLeakError(
                    f"{self.name}: {len(twins)} tasks of {second!r} ask the same as tasks of {first!r} with another "
                    f"number, for example {keys[second][twin]!r} and {keys[first][twin]!r}. Splits share tasks when "
                    "seeds are made as seed + index. Seed each task by agentgym.seed_of(set, split, seed, index)."
                )

    @classmethod
    def from_jsonl(cls, path: str | Path, *, name: str | None = None) -> TaskSet:
        """Read one JSON object per line, each with the fields of Task; `split` names the task's split.

        Paths of databases, corpora and repositories may be relative to the file (`FILE_KEYS`).
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
                row = strict_json.loads(line)
            except ValueError as error:
                raise TaskError(
                    f"{where}: not valid JSON: {error}. The line begins {line[:60].rstrip()!r}. Write one JSON object "
                    "a line; `agentgym tasks import rows` reads a table, such as a CSV file."
                ) from error
            if isinstance(row, dict) and row.keys() == {"canary"}:
                continue
            task = Task.from_json(with_absolute_paths(row, path.parent), where)
            if task.id in seen:
                raise TaskError(f"{where}: the id {task.id!r} is already used in line {seen[task.id]}.")
            seen[task.id] = number
            splits[task.split].append(task)
        if not seen:
            raise TaskError(
                f"{path} has no tasks. Write each line as one JSON object with at least id and environment."
            )
        return cls(name or path.stem, splits)

    @classmethod
    def from_dataset(
        cls,
        source: Any,
        *,
        name: str,
        environment: str = "",
        columns: Columns | None = None,
        splits: Mapping[str, str] | None = None,
    ) -> TaskSet:
        """Read a data set with the library `datasets`.

        Args:
            source: a name on its hub, a folder (as `save_to_disk` wrote it, or of files that `load_dataset` reads), a
                file (.parquet, .csv, .json, .jsonl or .arrow), a Dataset or a DatasetDict.
            environment: the environment of every task, unless a column gives it.
            columns: maps fields of Task to columns, such as {"prompt": "question", "truth": {"answer": "final"}}. None
                for a data set that `push` wrote. Nulls are dropped, because Arrow pads with them. A task without an id
                is named by its split and index.
            splits: maps each split of the set to a split of the source, or a slice of one, such as {"held_out":
                "test[:200]"}. By default splits keep their names.
        Raises: MissingExtraError without datasets; TaskError naming the row, or the missing column or split;
            SplitLeakError.
        """
        tasks = tasks_from_dataset(source, environment=environment, columns=columns, splits=splits)
        if not any(tasks.values()):
            raise TaskError(f"{source} has no tasks.")
        return cls(name, tasks)

    @classmethod
    def seeded(cls, name: str, prompt: str, *, train: int, validation: int, held_out: int, seed: int) -> TaskSet:
        """Return a set of tasks of the external environment `name`. They differ only in the seed of the reset.

        Args:
            train, validation, held_out: the number of tasks of each split. `parameters["seed"]` of each has 31 bits.
        """

        def task(split: Split, index: int) -> Task:
            drawn = random.Random(seed_of(name, split, seed, index)).getrandbits(31)
            parameters = {"seed": drawn}
            return Task(f"{split}/{index:04d}", name, prompt, parameters=parameters, truth={"seed": drawn}, split=split)

        sizes: dict[Split, int] = {"train": train, "validation": validation, "held_out": held_out}
        return cls(name, {split: [task(split, index) for index in range(size)] for split, size in sizes.items()})

    @property
    def canary(self) -> str:
        """A line found only in the set's files, so that its presence in training text reveals held-out tasks."""
        return canary_of(self.name)

    def push(self, target: str | Path, *, private: bool = True, **options: Any) -> None:
        """Write the set, truths included, so that `from_dataset` reads it back equal.

        Args:
            target: a folder, which is created; or `owner/name` on the hub of `datasets`.
            private: whether only you can read it on the hub. `options`: passed to `DatasetDict.push_to_hub`.
        Raises: MissingExtraError without datasets; any error of the library.
        """
        dataset = dataset_of(self, self.canary if self._splits["held_out"] else "")
        if is_folder(target):
            dataset.save_to_disk(str(target))
        else:
            dataset.push_to_hub(str(target), private=private, **options)

    def to_jsonl(self, path: str | Path) -> None:
        """Write every split to one JSONL file atomically. If there is a held-out split, the canary comes first."""
        path = Path(path)
        partial = path.with_name(path.name + ".partial")
        with partial.open("w", encoding="utf-8") as file:
            if self._splits["held_out"]:
                file.write(json.dumps({"canary": self.canary}) + "\n")
            for split, tasks in self._splits.items():
                for task in tasks:
                    file.write(json.dumps(task.to_json() | {"split": split}, ensure_ascii=False) + "\n")
        partial.replace(path)


def canary_of(task_set: str) -> str:
    """Return the canary of the task set with this name."""
    mark = hashlib.sha256(f"agentgym canary {task_set}".encode()).hexdigest()[:32]
    return f"Held-out tasks must not appear in training text. agentgym canary {mark}"


def _lines(path: Path) -> Iterable[str]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            yield from file
    except OSError as error:
        raise TaskError(f"Cannot read the task file {path}: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise TaskError(f"{path} is not UTF-8 text: {error}. Save it as UTF-8.") from error


_LONGEST_PATH = 255
FILE_KEYS = frozenset({"database", "corpus", "repository"})
"""Keys of parameters and truths whose value may be the path of a file or folder."""


def with_absolute_paths(row: Any, folder: Path) -> Any:
    """Return a row of a task file in which paths that exist relative to the file's folder are absolute.

    These are the values of `FILE_KEYS` in `parameters` and `truth`, at any depth. Other values stay as they are.
    """
    if not isinstance(row, dict):
        return row
    return {key: _absolute(row[key], folder) if key in ("parameters", "truth") else row[key] for key in row}


def _absolute(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_absolute(each, folder) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _path(each, folder) if key in FILE_KEYS else _absolute(each, folder) for key, each in value.items()}


def _path(value: Any, folder: Path) -> Any:
    if not isinstance(value, str) or not value or "\0" in value or len(value) > _LONGEST_PATH:
        return value
    path = folder / value
    return str(path.resolve()) if not Path(value).is_absolute() and path.exists() else value
