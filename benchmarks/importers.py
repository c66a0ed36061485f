"""Read public files with the importers and play their published solutions through the real environments and judges.

`python benchmarks/importers.py FOLDER [--only mbpp,spider] [--most 20]`

FOLDER holds the files at the paths below; missing files are left out. Their data is not copied. A public set is for
measuring: nothing here trains. The table shows how many items a file has, how many tasks the importer makes of them,
how many of these tasks the gold solves, and how many pay an agent that says nothing: success by the environment's
declared reward. The gold is played by an agent that has read the truth and has only the tools.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym import EpisodeManager, Message, RolloutConfig, ScriptedPolicy
from agentgym.registry import close_backends, load


@dataclass(frozen=True)
class Source:
    """A public file: its path, and its importer with options."""

    path: str
    importer: str
    options: tuple[tuple[str, Any], ...] = ()


SOURCES = (
    Source("mbpp/ic_mbpp.json", "mbpp"),
    Source("humaneval/HumanEval.jsonl.gz", "humaneval"),
    Source("humanevalfix_python/python.jsonl", "humanevalfix"),
    Source("gsm8k/test.jsonl", "gsm8k"),
    Source("spider_dev_10", "spider", (("environment", "agentgym/sql-inprocess-v1"),)),
    Source("dbbench/dev.jsonl", "dbbench"),
    Source("hotpot_100/hotpotqa_100.json", "hotpot"),
    Source("twowiki_200/questions.json", "twowiki"),
    Source("xquad_en/xquad.en.json", "squad"),
    Source("bfcl/BFCL_v4_simple_java.json", "bfcl"),
    Source("bfcl/BFCL_v4_simple_javascript.json", "bfcl"),
    Source("apps", "apps"),
    Source("bigcodebench/BigCodeBench.jsonl", "bigcodebench"),
    Source("textworld", "textworld"),
)


@dataclass(frozen=True)
class Line:
    """The results of one file. `failed`: ids of tasks that their gold did not solve. `idle`: the number of tasks that
    pay an agent that says nothing. `left_out`: what was left out.
    """

    path: str
    importer: str
    environment: str
    items: int
    tasks: int
    n_played: int
    solved: int
    failed: tuple[str, ...]
    idle: int
    left_out: str


async def reproduce(folder: Path, source: Source, most: int | None = None) -> Line:
    """Import one file and play the gold of every task, or of `most` tasks drawn evenly."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        task_set = load("importers", source.importer)(folder / source.path, **dict(source.options))
    tasks = task_set["held_out"]
    chosen = list(tasks) if most is None else list(tasks)[:: max(1, len(tasks) // most)][:most]
    manager = EpisodeManager(lambda task: ScriptedPolicy(task_set.solution(task)), RolloutConfig(concurrency=4))
    trajectories = await manager.collect(chosen)
    silent = EpisodeManager(ScriptedPolicy([Message("assistant", "")]), RolloutConfig(concurrency=4))
    idle = await silent.collect(chosen)
    failed = tuple(trajectory.task.id for trajectory in trajectories if trajectory.success != 1.0)
    return Line(
        path=source.path,
        importer=source.importer,
        environment=chosen[0].environment,
        items=count(folder / source.path),
        tasks=len(tasks),
        n_played=len(trajectories),
        solved=len(trajectories) - len(failed),
        failed=failed,
        idle=sum(bool(trajectory.success) for trajectory in idle),
        left_out=" ".join(str(warning.message) for warning in caught),
    )


def count(path: Path) -> int:
    """Return the number of items of a file in its own format, without the importer."""
    if path.is_dir():
        if items := [*path.rglob("question.txt"), *path.rglob("*.z8")]:  # APPS, TextWorld
            return len(items)
        return len(json.loads((path / "questions.json").read_text(encoding="utf-8")))
    text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
    if ".jsonl" in path.name or path.name.startswith("BFCL_"):
        return sum(bool(line.strip()) for line in text.splitlines())
    content = json.loads(text)
    if isinstance(content, dict):  # SQuAD
        return sum(len(paragraph["qas"]) for article in content["data"] for paragraph in article["paragraphs"])
    return len(content)


def table(lines: Sequence[Line]) -> str:
    """Return the lines as a Markdown table."""
    rows = [
        "| file | importer | environment | items | tasks | gold solves | idle paid |",
        "|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        solved = f"{line.solved:,} of {line.n_played:,}"
        names = f"| `{line.path}` | `{line.importer}` | `{line.environment}` |"
        rows.append(f"{names} {line.items:,} | {line.tasks:,} | {solved} | {line.idle:,} |")
    return "\n".join(rows)


async def _main(folder: Path, names: Sequence[str], most: int | None) -> list[Line]:
    lines = []
    try:
        for source in SOURCES:
            if source.importer in names and (folder / source.path).exists():
                lines.append(await reproduce(folder, source, most))
                print(f"{source.path}: {lines[-1].solved} of {lines[-1].n_played}", *lines[-1].failed, flush=True)
    finally:
        await close_backends()
    return lines


def main() -> int:
    everyone = ",".join(source.importer for source in SOURCES)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the public files are")
    parser.add_argument("--only", default=everyone, help="importers, separated by commas: %(default)s")
    parser.add_argument("--most", type=int, help="tasks of each file to play; all of them without it")
    given = parser.parse_args()
    lines = asyncio.run(_main(given.folder, given.only.split(","), given.most))
    print("\n" + table(lines))
    for line in lines:
        if line.left_out:
            print(f"\n{line.importer}: {line.left_out}")
    return int(any(line.failed for line in lines))


if __name__ == "__main__":
    raise SystemExit(main())
