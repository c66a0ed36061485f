"""The figures of benchmarks as JSON, and the tables of docs/benchmarks.md that are made from them.

    python benchmarks/figures.py run overhead --quick   # a benchmark with arguments; writes results/overhead.json
    python benchmarks/figures.py                        # makes the tables, and names those older than their code

A benchmark shows its tables by `show_table`, and `run` adds where and when they were measured. In the document, a table
is between `<!-- figures: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS, PAGE = HERE / "results", ROOT / "docs" / "benchmarks.md"
FILE = "AGENTGYM_FIGURES"
"""The environment variable with the file that a benchmark adds its tables to."""
TABLES = re.compile(r"(?<=<!-- figures: )(?P<name>\w+)(?P<mark> -->\n).*?(?=<!-- end -->)", re.DOTALL)
MEASURES = {
    "credit": ("agentgym/credit", "methods/credit"),
    "driver": ("agentgym/cluster", "agentgym/policy/http.py", "agentgym/storage"),
    "environments": ("agentgym/environment", "sandboxes"),
    "episodes": ("agentgym/rollout", "agentgym/environment", "agentgym/storage"),
    "gateway": ("agentgym/interop/gateway", "agentgym/rollout"),
    "gui": ("sandboxes/gui",),
    "intervals": ("agentgym/evaluation/statistics",),
    "learning": ("agentgym/training", "recipes"),
    "overhead": ("agentgym/rollout", "agentgym/environment", "agentgym/storage"),
    "pool": ("agentgym/sandbox",),
    "sampling": ("agentgym/policy",),
    "sandbox": ("agentgym/sandbox",),
    "sandbox_programs": ("agentgym/interop/gateway", "agentgym/sandbox"),
    "swe": ("sandboxes/swe",),
    "training": ("agentgym/training",),
    "viewer": ("agentgym/viewer", "agentgym/storage"),
    "warehouse": ("agentgym/environment", "agentgym/tools"),
}
"""The code that each benchmark measures: a change of it makes a table old."""


def show_table(table: Table) -> None:
    """Print a table, and store it as `keep_table` does."""
    Console().print(table)
    keep_table(table)


def keep_table(table: Table) -> None:
    """Add a table to the figures of this run; outside of `run` nothing is kept."""
    columns = [Text.from_markup(str(column.header)).plain for column in table.columns]
    cells = ([Text.from_markup(str(cell)).plain for cell in column.cells] for column in table.columns)
    keep_rows(str(table.title or ""), columns, list(zip(*cells, strict=True)))


def keep_rows(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Add a table given as texts, as `keep_table` does."""
    if not (name := os.environ.get(FILE)):
        return
    file = Path(name)
    tables = json.loads(file.read_text()) if file.is_file() else []
    tables.append({"title": title, "columns": list(columns), "rows": [list(row) for row in rows]})
    file.write_text(json.dumps(tables))


def run(name: str, arguments: Sequence[str]) -> int:
    """Run a benchmark, and write its tables into its file of results. Returns: the benchmark's exit status.

    Raises: SystemExit if there is no such benchmark.
    """
    program = HERE / f"{name}.py"
    if not program.is_file():
        raise SystemExit(f"There is no benchmark {name!r}. There are: {', '.join(sorted(MEASURES))}.")
    RESULTS.mkdir(exist_ok=True)
    file, tables = RESULTS / f"{name}.json", RESULTS / f"{name}.tables"
    tables.unlink(missing_ok=True)
    data = circumstances(name, arguments)  # before the benchmark makes load of its own
    status = subprocess.call([sys.executable, str(program), *arguments], env={**os.environ, FILE: str(tables)})
    if tables.is_file():
        text = json.dumps(data | {"tables": json.loads(tables.read_text())}, indent=1, ensure_ascii=False)
        file.write_text(f"{text}\n", encoding="utf-8")
        tables.unlink()
    return status


def circumstances(name: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the command, commit, date, machine and Python version of a measurement."""
    changes = "+" if git("status", "--porcelain", "--untracked-files=no") else ""
    return {
        "command": " ".join(["python", f"benchmarks/{name}.py", *arguments]),
        "commit": git("rev-parse", "--short=8", "HEAD") + changes,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {memory_gib():.0f} GiB, {platform.system()} {platform.machine()}",
        "processor": processor(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def processor() -> str:
    """Return the model of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model", "cpu model"))]
    return models[0] if models else platform.processor() or "unknown"


def memory_gib() -> float:
    """Return the memory of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def git(*arguments: str) -> str:
    """Return the output of git; empty outside of a checkout, and for a commit that is not in it."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def page_with_tables(page: str) -> str:
    """Return the document with the tables of the results."""
    return TABLES.sub(lambda match: f"{match['name']}{match['mark']}{as_markdown(results_of(match['name']))}", page)


def results_of(name: str) -> dict[str, Any]:
    """Return the results of a benchmark."""
    results: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return results


def as_markdown(results: dict[str, Any]) -> str:
    """Return the tables of a benchmark, and when they were measured."""
    tables = "\n".join(map(table_as_markdown, results["tables"]))
    return f"{tables}\n*`{results['command']}`, {results['date']}, at `{results['commit']}`.*\n"


def table_as_markdown(table: dict[str, Any]) -> str:
    """Return one table, under its title if it has one."""
    rows = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    title = f"{table['title']}:\n\n" if table["title"] else ""
    return title + "".join(f"| {' | '.join(' '.join(cell.split()) for cell in row)} |\n" for row in rows)


def changes_since(name: str) -> list[str]:
    """Return the commits that have changed what a benchmark measures, or the benchmark, since its results."""
    commit = results_of(name)["commit"].rstrip("+")
    paths = (*MEASURES.get(name, ()), f"benchmarks/{name}.py")
    return git("log", "--format=%h %s", f"{commit}..HEAD", "--", *paths).splitlines()


def main() -> int:
    """Write the tables, and print which are outdated; or run a benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command")
    running = commands.add_parser("run", help="run a benchmark and keep its figures")
    running.add_argument("name")
    running.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.command == "run":
        return run(options.name, options.arguments)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page_with_tables(page), encoding="utf-8")
    for match in TABLES.finditer(page):
        if commits := changes_since(match["name"]):
            print(f"{match['name']}: {len(commits)} commits have changed its code since, the last: {commits[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
