"""Read the files that a run folder has. A broken file becomes a note on the page, never an error."""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.errors import AgentGymError
from agentgym.evaluation.record import Evaluation
from agentgym.storage.digests import read_lines
from agentgym.storage.notes import read_notes
from agentgym.storage.reader import LedgerReader
from agentgym.text import counted
from agentgym.trajectory.record import Trajectory

Metrics = dict[str, list[dict[str, float]]]


@dataclass(slots=True)
class Contents:
    """A run folder in memory.

    Attributes:
        name: the name of the run. `recipe`: the parsed recipe. `recipe_text`: its text in the file.
        metrics: rows by phase, in order of steps; each row holds `step`, `time` and numbers by name.
        evaluations: oldest first.
        credit: advantages per turn, by trajectory id, of the steps that are shown.
        state: the trainer's own state file.
        notes: files that could not be read, and why.
        updated: Unix seconds when one of the files was last written.
    """

    path: Path
    name: str
    recipe: Mapping[str, Any] = field(default_factory=dict)
    recipe_text: str = ""
    metrics: Metrics = field(default_factory=dict)
    evaluations: list[Evaluation] = field(default_factory=list)
    credit: dict[str, list[float]] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def updated(self) -> float:
        return max((path.stat().st_mtime for path in self.path.iterdir() if path.is_file()), default=0.0)

    def recipe_value(self, *keys: str, default: Any = None) -> Any:
        """Return a value of the recipe by its path, for example `recipe_value("train", "estimator")`."""
        value: Any = self.recipe
        for key in keys:
            if not isinstance(value, Mapping) or key not in value:
                return default
            value = value[key]
        return value

    def pair(self) -> tuple[Evaluation | None, Evaluation | None]:
        """Return the evaluations to compare: held-out before and after, or a single one as `after`.

        Only evaluations of exactly the same tasks are paired: those labelled before and after,
        otherwise the oldest and the newest.
        """
        best = self.same_tasks()
        if not best:
            return None, None
        before = next((e for e in best if "before" in e.label), best[0])
        after = next((e for e in reversed(best) if "after" in e.label), best[-1])
        return (before, after) if before is not after else (None, after)

    def same_tasks(self) -> list[Evaluation]:
        """Return all evaluations of the tasks that `pair` compares, oldest first.

        Prefers held-out tasks, then tasks evaluated several times, then the latest.
        """
        groups: dict[tuple[str, str, str], list[Evaluation]] = defaultdict(list)
        for evaluation in self.evaluations:
            groups[evaluation.task_set, evaluation.split, evaluation.manifest].append(evaluation)
        return max(groups.values(), key=lambda g: (g[0].split == "held_out", len(g) > 1, g[-1].created), default=[])

    def user_notes(self) -> dict[str, str]:
        """Return the notes that users wrote, by episode id, with "" for the run; {} if their file is damaged."""
        try:
            return read_notes(self.path)
        except AgentGymError as error:
            self.notes.append(str(error))
            return {}

    def episodes(self, ids: list[str]) -> dict[str, Trajectory]:
        """Return the trajectories by id, without ids missing in the ledger."""
        path = self.path / "ledger.sqlite"
        if not ids or not path.is_file():
            return {}
        trajectories: dict[str, Trajectory] = {}
        try:
            ledger = LedgerReader(path)
        except AgentGymError as error:
            self.notes.append(f"ledger.sqlite: {error}")
            return {}
        try:
            for name in dict.fromkeys(ids):
                try:
                    trajectories[name] = ledger.load(name)
                except (AgentGymError, KeyError):
                    continue
        finally:
            ledger.close()
        return trajectories


def read(path: Path, *, credit: bool = True) -> Contents:
    """Read a run folder, optionally without the credit. Raises: AgentGymError if the folder is missing."""
    if not path.is_dir():
        raise AgentGymError(f"There is no run folder {path}. Give one that exists, such as runs/quickstart.")
    contents = Contents(path, path.resolve().name)
    _read_recipe(contents)
    _read_metrics(contents)
    _read_evaluations(contents)
    if credit:
        _read_credit(contents)
    contents.state = _json(contents, path / "state.json", dict) or {}
    return contents


def _read_recipe(contents: Contents) -> None:
    text = _text(contents, contents.path / "recipe.toml")
    contents.recipe_text = text
    try:
        contents.recipe = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        contents.notes.append(f"recipe.toml: not valid TOML: {error}")
    contents.name = str(contents.recipe.get("name") or contents.name)


def _read_metrics(contents: Contents) -> None:
    """Read the metrics, and merge rows of the same step, which a resumed run may log twice: later values win."""
    phases: dict[str, dict[int, dict[str, float]]] = defaultdict(dict)
    for row in _json_lines(contents, contents.path / "metrics.jsonl"):
        step, phase = row.get("step"), row.get("phase")
        if isinstance(step, int) and isinstance(phase, str):
            numbers = {k: float(v) for k, v in row.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
            phases[phase][step] = phases[phase].get(step, {}) | numbers
    contents.metrics = {phase: [rows[step] for step in sorted(rows)] for phase, rows in phases.items()}


def _read_evaluations(contents: Contents) -> None:
    for file in sorted((contents.path / "evaluation").glob("*.json")):
        try:
            contents.evaluations.append(Evaluation.load(file))
        except AgentGymError as error:
            contents.notes.append(f"evaluation/{file.name}: {error}")
    contents.evaluations.sort(key=lambda e: e.created)


def _read_credit(contents: Contents) -> None:
    """Read only the credit of the last step that has any other than 0: a long run has millions of turns."""
    advantages: dict[str, list[float]] = {}
    last_step = -1
    for row in _json_lines(contents, contents.path / "credit.jsonl"):
        name, step, values = row.get("trajectory"), row.get("step"), row.get("advantages")
        if not (isinstance(name, str) and isinstance(step, int) and isinstance(values, list)):
            continue
        if not all(isinstance(v, (int, float)) for v in values):
            continue
        if step > last_step and any(abs(v) > 1e-9 for v in values):
            advantages, last_step = {}, step
        if step == last_step:
            advantages[name] = [float(v) for v in values]
    contents.credit = advantages


def _json_lines(contents: Contents, path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON-lines file; skip damaged lines, as a killed process leaves, and note them."""
    rows, damaged = read_lines(_text(contents, path))
    if damaged:
        contents.notes.append(f"{path.name}: {counted(damaged, 'damaged line')} passed over")
    return rows


def _json(contents: Contents, path: Path, kind: type) -> Any:
    text = _text(contents, path)
    if not text:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        contents.notes.append(f"{path.name}: {error}")
        return None
    return value if isinstance(value, kind) else None


def _text(contents: Contents, path: Path) -> str:
    if not path.is_file():
        return ""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        contents.notes.append(f"{path.name}: {error.strerror}")
        return ""
