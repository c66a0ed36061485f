"""Trackers that show a run's metrics and conversations: TensorBoard, wandb, trackio, MLflow.

Each tracker's own environment variables decide where it writes; by default, all four write on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from agentgym import Trajectory
from agentgym.tools import replace_lone_surrogates

from .conversation import shortened
from .parquet import row_of_episode

PROJECT = "agentgym"
"""The name of the runs' project, unless the tracker's own environment variable names another project."""


class TensorBoard:
    """Event files in the run folder."""

    package, extra = "tensorboard", "train"

    def __init__(self, folder: Path, name: str, config: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / "tensorboard"))

    def log(self, step: int, phase: str, metrics: Mapping[str, float]) -> None:
        for metric, value in metrics.items():
            self._writer.add_scalar(f"{phase}/{metric}", value, step)

    def log_episodes(self, step: int, phase: str, episodes: Sequence[Trajectory]) -> None:
        for number, row in enumerate(_rows(step, episodes)):
            head = ", ".join(f"{name} {value}" for name, value in row.items() if name not in ("step", "conversation"))
            # indented, as Markdown has plain text
            text = "".join(f"    {line}\n" for line in row["conversation"].splitlines())
            self._writer.add_text(f"{phase}/episode_{number}", f"{head}\n\n{text}", step)

    def close(self, *, failed: bool) -> None:
        self._writer.close()


class Wandb:
    """A run of wandb; offline, in the run folder, unless WANDB_MODE says otherwise."""

    package, extra = "wandb", "wandb"

    def __init__(self, folder: Path, name: str, config: Mapping[str, Any]) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=name,
            id=_same_id(folder, "wandb", _new_id),
            resume="allow",
            dir=str(folder),
            config=dict(config),
            mode=os.environ.get("WANDB_MODE", "offline"),
        )
        self._phases: set[str] = set()

    def log(self, step: int, phase: str, metrics: Mapping[str, float]) -> None:
        """Log a row with a step metric per phase, because wandb's single step counter must not decrease."""
        if phase not in self._phases:
            self._phases.add(phase)
            self._run.define_metric(f"{phase}/*", step_metric=f"{phase}/step")
        self._run.log({f"{phase}/step": step, **{f"{phase}/{name}": value for name, value in metrics.items()}})

    def log_episodes(self, step: int, phase: str, episodes: Sequence[Trajectory]) -> None:
        import wandb

        rows = _rows(step, episodes)
        table = wandb.Table(columns=[*rows[0]], data=[[*row.values()] for row in rows])
        self._run.log({f"{phase}/step": step, f"{phase}/episodes": table})

    def close(self, *, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))


class Trackio:
    """A run of trackio, in its database on this machine: see `trackio show`."""

    package, extra = "trackio", "trackio"

    def __init__(self, folder: Path, name: str, config: Mapping[str, Any]) -> None:
        import trackio

        project = os.environ.get("TRACKIO_PROJECT", PROJECT)
        name = f"{name}-{_same_id(folder, 'trackio', _new_id)}"  # trackio tells runs apart by name alone
        self._run = trackio.init(project=project, name=name, config=dict(config), resume="allow", embed=False)

    def log(self, step: int, phase: str, metrics: Mapping[str, float]) -> None:
        self._run.log({f"{phase}/step": step, **{f"{phase}/{name}": value for name, value in metrics.items()}})

    def log_episodes(self, step: int, phase: str, episodes: Sequence[Trajectory]) -> None:
        """Log each episode as a trace, in which trackio pairs calls with results."""
        import trackio

        for number, episode in enumerate(episodes):
            row = _readable(episode)
            trace = trackio.Trace(row.pop("messages"), row | {"session_id": episode.id})
            self._run.log({f"{phase}/step": step, f"{phase}/episode_{number}": trace})

    def close(self, *, failed: bool) -> None:
        self._run.finish()


class Mlflow:
    """A run of MLflow, in a database in the run folder unless MLFLOW_TRACKING_URI names a server."""

    package, extra = "mlflow", "mlflow"

    def __init__(self, folder: Path, name: str, config: Mapping[str, Any]) -> None:
        from mlflow import MlflowClient

        uri = os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{folder.resolve() / 'mlflow.db'}")
        files = None if "MLFLOW_TRACKING_URI" in os.environ else (folder.resolve() / "mlflow").as_uri()
        self._client = MlflowClient(uri)
        experiment_name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        experiment = self._client.get_experiment_by_name(experiment_name)
        id_ = experiment.experiment_id if experiment else self._client.create_experiment(experiment_name, files)
        self._id = _same_id(folder, "mlflow", lambda: self._client.create_run(id_, run_name=name).info.run_id)
        self._client.update_run(self._id, "RUNNING")
        known = self._client.get_run(self._id).data.params
        for key, value in _flat(config):
            if known.setdefault(key, value[:500]) == value[:500]:
                self._client.log_param(self._id, key, value[:500])
            else:  # MLflow parameters are immutable, and a run may be resumed with another value
                self._client.set_tag(self._id, f"resumed.{key}", value[:500])

    def log(self, step: int, phase: str, metrics: Mapping[str, float]) -> None:
        for metric, value in metrics.items():
            self._client.log_metric(self._id, _mlflow_name(f"{phase}/{metric}"), value, step=step)

    def log_episodes(self, step: int, phase: str, episodes: Sequence[Trajectory]) -> None:
        """Add rows to the table that MLflow shows of the run's file `episodes-PHASE.json`."""
        rows = _rows(step, episodes)
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        self._client.log_table(self._id, columns, f"episodes-{_mlflow_name(phase)}.json")

    def close(self, *, failed: bool) -> None:
        self._client.set_terminated(self._id, "FAILED" if failed else "FINISHED")


def _rows(step: int, episodes: Sequence[Trajectory]) -> list[dict[str, Any]]:
    """Return a row of a table for each episode; its conversation is one text."""
    rows = []
    for row in map(_readable, episodes):
        columns = {name: row[name] for name in ("id", "task", "success", "reward", "turns", "stop_reason")}
        rows.append({"step": step, **columns, "conversation": "\n\n".join(map(_text, row["messages"]))})
    return rows


def _readable(episode: Trajectory) -> dict[str, Any]:
    row: dict[str, Any] = row_of_episode(episode)
    messages = [message | {"content": shortened(message["content"])} for message in row["messages"]]
    readable: dict[str, Any] = replace_lone_surrogates(row | {"messages": messages})
    return readable


def _text(message: Mapping[str, Any]) -> str:
    calls = [f"{call['function']['name']}({call['function']['arguments']})" for call in message["tool_calls"] or ()]
    return "\n".join([f"[{message['role']}] {message['content'] or ''}".rstrip(), *calls])


def _same_id(folder: Path, tracker: str, make: Callable[[], str]) -> str:
    """Return this run's id in a tracker, which the run folder keeps, so that a resumed run continues there."""
    file = folder / f"{tracker}.id"
    if not file.is_file():
        partial = file.with_suffix(".partial")
        partial.write_text(make(), encoding="utf-8")
        partial.replace(file)
    return file.read_text(encoding="utf-8")


def _new_id() -> str:
    return uuid4().hex[:8]


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield _mlflow_name(prefix + key), str(value)


def _mlflow_name(name: str) -> str:
    """Replace the characters that MLflow does not allow in names."""
    return "".join(letter if letter.isalnum() or letter in "_-./ " else "_" for letter in name)
