"""Files on disk: a run folder's files, the records in them, the ledger's tables, and task files."""

from __future__ import annotations

import dataclasses

from agentgym.options import field_docs
from research.reference.markdown import one_line, table

RUN_FOLDER = {
    "recipe.toml": "the recipe of a training run, with every default",
    "ledger.sqlite": "every episode, turn by turn: see [the ledger](#the-ledger)",
    "metrics.jsonl": "one JSON object a line: `time` (Unix seconds), `step`, `phase`, what was logged, `file_digest`",
    "credit.jsonl": "one JSON object an episode: `trajectory` (its id), `step`, and `advantages`, one for each turn",
    "stages/NAME/episodes.json": "what a stage learnt from: its sources, the episodes with their SHA-256, and its rows",
    "stages/NAME/tasks.jsonl": "the tasks that a stage `step_tasks` or `generate` has made",
    "stages/NAME/knowledge.json": "what the episodes of a `reinforce` with the gatherer `knowledge` have taught",
    "stages/NAME/instructions.json": "the instructions that a `reinforce` has tried, the best, and how each came out",
    "stages/NAME/generated.json": "the weak tasks of a stage `generate`, and how many new ones were refused, by reason",
    "evaluation/LABEL.json": "an [`Evaluation`](#evaluation); a training writes before, after and control",
    "checkpoints/warm_start": "the model after imitation, as `save_pretrained` writes it",
    "checkpoints/checkpoint-STEP": "model, optimiser and random state of a step; the file `complete` is written last",
    "checkpoints/NAME/adapted.json": "to which tasks without labels the policy was adapted, if to any",
    "checkpoints/healthy": "the last checkpoint before the collapse guard raised an alarm",
    "checkpoints/final": "the model after the training",
    "guard.json": "alarms of the collapse guard: `stopped`, and `alarms` with step, rule, value, limit and reason",
    "tensorboard/": "the same metrics for TensorBoard",
    "report.html": "the report, one self-contained page",
}
INTRODUCTION = """\
A run folder is what `agentgym train`, `eval --out` and `rollout --out` write. All files but the ledger and the
checkpoints are text. Read the records from Python with `agentgym.storage.Ledger` and `agentgym.evaluation.Evaluation`;
`agentgym export` writes them as Parquet."""
TASKS = """\
A `.jsonl` task file has one JSON object a line with the fields of `Task`; `id`, `environment` and `prompt` (or
`messages`) are required. `agentgym.TaskSet(...).to_jsonl(path)` writes one."""

_LEDGER = "An SQLite file in write-ahead mode. One process writes it; any number may read it."


def lines() -> list[str]:
    """Return the page, without its title."""
    from agentgym import Call, Message, Result, Task, Trajectory, Turn
    from agentgym.evaluation.outcomes import TaskOutcome
    from agentgym.evaluation.record import Evaluation
    from agentgym.storage.ledger_schema import SCHEMA
    from agentgym.trajectory import Provenance

    page = [INTRODUCTION, "", "## A run folder", ""]
    page += table(["file", "holds"], [[f"`{name}`", one_line(text)] for name, text in RUN_FOLDER.items()])
    page += ["", "## Records", ""]
    for record in (Trajectory, Turn, Message, Call, Result, Provenance, Evaluation, TaskOutcome):
        page += _fields_of(record)
    page += ["## Task files", "", TASKS, "", *_fields_of(Task)]
    page += [
        "## The ledger",
        "",
        _LEDGER,
        "",
    ]
    return page + [f"    {line}" for line in SCHEMA.strip().splitlines()]


def _fields_of(record: type) -> list[str]:
    texts = field_docs(record)
    rows = [
        [f"`{field.name}`", f"`{field.type}`", texts.get(field.name, "")]
        for field in dataclasses.fields(record)
        if not field.name.startswith("_")
    ]
    summary = one_line((record.__doc__ or "").partition("\n\n")[0])
    return [f"### `{record.__name__}`", "", summary, "", *table(["field", "type", "meaning"], rows), ""]
