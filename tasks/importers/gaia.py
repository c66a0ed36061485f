"""Read GAIA's questions, with their files, and write each as a task folder of Harbor.

Source: Mialon et al. 2023, arXiv:2311.12983; judged by the rules of its published scorer.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import tomli_w

from agentgym import Split, TaskError, TaskSet

from .agentbench_os import ANSWER, ASKS, CONFIG, TEST, write_folders
from .harbor import load_harbor
from .items import LeftOut, read_rows, report_left_out, text_of

FORM = (
    "The answer is a number, as few words as possible, or a comma separated list of numbers or words. Write a number "
    "without commas and units unless they are asked for, and words without articles and abbreviations."
)
MAX_FILE = 100 * 2**20
JUDGE = '''\
"""Pays 1 for the right answer: a number, a list or a text, as GAIA's scorer compares them."""

import json
import re
import string


def number(text):
    try:
        return float(re.sub("[$%,]", "", text))
    except ValueError:
        return None


def words(text, ignored=""):
    return "".join(letter for letter in text.lower() if not letter.isspace() and letter not in ignored)


def right(given, expected):
    try:
        float(expected)
        return number(given) == float(expected)
    except ValueError:
        pass
    wanted = re.split("[,;]", expected)
    if len(wanted) == 1:
        return words(given, string.punctuation) == words(expected, string.punctuation)
    parts = re.split("[,;]", given)
    return len(parts) == len(wanted) and all(map(same, parts, wanted))


def same(given, expected):
    try:
        return number(given) == float(expected)
    except ValueError:
        return words(given) == words(expected)


try:
    with open("/answer.txt", encoding="utf-8") as file:
        answer = file.read(100_000).strip()
except (OSError, UnicodeDecodeError):
    answer = ""
with open("/tests/judge.json", encoding="utf-8") as file:
    expected = json.load(file)["answer"]
with open("/logs/verifier/reward.txt", "w") as file:
    file.write(str(int(bool(answer) and right(answer, expected))))
'''


def load_gaia(
    path: str | Path, *, folders: str | Path = "", split: Split = "held_out", packages: str = "", image: str = ""
) -> TaskSet:
    """GAIA's questions, with their files, as tasks of `agentgym/code-terminal-v1`, held out by default.

    Each becomes a task folder of Harbor, which episodes and judges read: do not move it. The question's file is in
    /work, and the answer is what the agent writes to /answer.txt. The sandbox does not reach the web. Questions without
    a published answer are left out, and named.

    Args:
        path: metadata.jsonl or metadata.parquet, with the files beside it, or their folder.
        folders: a new folder, in which the task folders are written.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
        packages: what pip installs in the image to read the files with, such as "openpyxl pypdf pillow".
        image: as in the importer `harbor`.
    Raises: TaskError naming the file, the question and its fault.
    """
    top = Path(path)
    if top.is_dir():
        top /= "metadata.parquet" if (top / "metadata.parquet").is_file() else "metadata.jsonl"
        if not top.is_file():
            raise TaskError(f"{path} has no metadata.jsonl. Give GAIA's folder 2023/validation.")
    files: dict[str, str | bytes] = {}
    reasons: dict[str, str] = {}
    for index, row in enumerate(read_rows(top)):
        where = f"{top}, item {index}"
        name = text_of(row, where, "task_id")
        try:
            files |= {f"{name}/{part}": content for part, content in _folder(row, where, top.parent, packages).items()}
        except LeftOut as error:
            reasons[name] = str(error)
    write_folders(folders, files)
    report_left_out(path, reasons, len({name.partition("/")[0] for name in files}))
    return load_harbor(folders, split=split, image=image)


def _folder(row: Mapping[str, Any], where: str, beside: Path, packages: str) -> dict[str, str | bytes]:
    """Return the files of a question's task folder. Raises: LeftOut."""
    question, answer = text_of(row, where, "Question", "question"), str(row.get("Final answer") or "").strip()
    if answer in ("", "?"):
        raise LeftOut("its answer is not published")
    steps = ["FROM python:3.12-slim", *([f"RUN pip install {packages}"] if packages else []), "WORKDIR /work"]
    attached: dict[str, str | bytes] = {}
    if name := str(row.get("file_name") or ""):
        attached["environment/" + name] = _read(beside, name)
        steps.append(f"COPY {json.dumps([name, '/work/'])}")
        question += f"\n\nThe file is /work/{name}."
    tags = [f"level-{row.get('Level', '')}", *(["file"] if name else [])]
    return {
        **attached,
        "environment/Dockerfile": "\n".join(steps) + "\n",
        "instruction.md": f"{question}\n\n{FORM}{ASKS}",
        "task.toml": tomli_w.dumps({**CONFIG, "metadata": {"tags": tags}}),
        "tests/judge.json": json.dumps({"answer": answer}),
        "tests/judge.py": JUDGE,
        "tests/test.sh": TEST,
        "solution/solve.sh": f"#!/bin/bash\nprintf %s {shlex.quote(answer)} > {ANSWER}\n",
    }


def _read(folder: Path, name: str) -> bytes:
    """Return a question's file. Raises: LeftOut if it is missing, too large, or not beside the questions."""
    path = folder / name
    if PurePosixPath(name).name != name or path.is_symlink() or not path.is_file():
        raise LeftOut("its file is not beside the questions")
    if path.stat().st_size > MAX_FILE:
        raise LeftOut(f"its file has more than {MAX_FILE >> 20} MiB")
    return path.read_bytes()
