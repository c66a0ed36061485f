"""Read the operating-system problems of AgentBench, and write each as a task folder of Harbor.

Source: Liu et al. 2024 (ICLR, "AgentBench: Evaluating LLMs as Agents"), Apache-2.0: its folder data/os_interaction.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from agentgym import Split, TaskError, TaskSet

from .harbor import load_harbor
from .items import report_left_out, text_of

ANSWER = "/answer.txt"
ASKS = f"\n\nWrite your answer, and nothing else, to the file {ANSWER}.\n"
TOOLS = "curl git procps python3 python3-pip tree unzip vim wget zip"
IMAGES = {"default": TOOLS, "packages": f"{TOOLS} npm", "ubuntu": ""}
"""The packages of each published image; all are of Ubuntu."""
LANGUAGES = {"bash": ("bash", "-c"), "python": ("python3", "-c")}
CONFIG = {
    "agent": {"timeout_sec": 300},
    "verifier": {"timeout_sec": 60},
    "environment": {"memory_mb": 512, "storage_mb": 512},
}
JUDGE = '''\
"""Pays 1 if the answer, or what is left of the system, passes the checks, as AgentBench runs them."""

import json
import re
import subprocess

with open("/tests/judge.json") as file:
    rules = json.load(file)
try:
    with open("/answer.txt") as file:
        answer = file.read().strip()
except (OSError, UnicodeDecodeError):
    answer = ""


def passes():
    if "answer" in rules:
        return answer == rules["answer"].strip()
    if "regex" in rules:
        return re.search(rules["regex"], answer) is not None
    words = [answer]
    for language, code in rules["check"]:
        argv = ["bash", "-c", code, "--"] if language == "bash" else ["python3", "-c", code]
        done = subprocess.run([*argv, *words], capture_output=True, text=True, errors="replace")
        if done.returncode:
            return False
        words.append(done.stdout)
    return True


with open("/logs/verifier/reward.txt", "w") as file:
    file.write(str(int(passes())))
'''
TEST = "#!/bin/bash\npython3 /tests/judge.py\n"


def load_agentbench_os(
    path: str | Path, *, folders: str | Path = "", split: Split = "held_out", image: str = ""
) -> TaskSet:
    """The problems of AgentBench's operating-system environment, as tasks of `agentgym/code-terminal-v1`.

    Each becomes a task folder of Harbor, which episodes and judges read: do not move it. An answer is what the agent
    writes to /answer.txt. The checks run after the episode, without its processes. Problems with a program that runs in
    the background are left out, and named.

    Args:
        path: the folder data/os_interaction of AgentBench's repository.
        folders: a new folder, in which the task folders are written.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
        image: as in the importer `harbor`.
    Raises: TaskError naming the file, the problem and its fault.
    """
    top = Path(path)
    files = sorted([*top.glob("data/dev.json"), *top.glob("data/[0-9]/*.json")])
    if not files:
        raise TaskError(f"{path} has no data/dev.json. Give the folder data/os_interaction of AgentBench's repository.")
    reasons: dict[str, str] = {}
    written: dict[str, str | bytes] = {}  # after all are read, so that a fault leaves nothing behind
    for file in files:
        group = file.parent.name if file.parent.name != "data" else ""
        for number, problem in enumerate(_problems(file)):
            name = f"{group}{'-' if group else ''}{file.stem}-{number:03d}"
            where = f"{file}, item {number}"
            if reason := _why_not(problem, where):
                reasons[name] = reason
                continue
            parts = _folder(problem, where, top / "scripts" / (group or file.stem))
            written |= {f"{name}/{part}": text for part, text in parts.items()}
    write_folders(folders, written)
    report_left_out(path, reasons, len({name.partition("/")[0] for name in written}))
    return load_harbor(folders, split=split, image=image)


def write_folders(target: str | Path, files: Mapping[str, str | bytes]) -> None:
    """Write the files of task folders, by their paths below a new folder.

    Raises: TaskError if it is not new, or a path leads out of it.
    """
    if not str(target) or any(Path(target).glob("*")):
        raise TaskError(f"{str(target)!r} is not a new folder. Name one for the task folders: --option folders=FOLDER.")
    for name in files:
        if not (Path(target) / name).resolve().is_relative_to(Path(target).resolve()):
            raise TaskError(f"{name!r} leads out of the folder {target}. Give the item another id.")
    for name, content in files.items():
        path = Path(target) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def _problems(file: Path) -> list[Mapping[str, Any]]:
    """Return the problems of a file: a list, or one alone. Raises: TaskError."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise TaskError(f"Cannot read {file}: {error}.") from error
    problems = data if isinstance(data, list) else [data]
    if not all(isinstance(problem, dict) and isinstance(problem.get("evaluation"), dict) for problem in problems):
        raise TaskError(f"{file}: every problem must be an object with an object `evaluation`.")
    return problems


def _why_not(problem: Mapping[str, Any], where: str) -> str:
    if problem.get("start"):
        return "a program of it runs in the background, and none outlives its command"
    evaluation, create = problem["evaluation"], problem.get("create", {})
    if not isinstance(create, dict):
        return "its `create` does not say how the system is prepared"
    if evaluation.get("match") is None and not evaluation.get("check"):
        raise TaskError(f"{where}: its evaluation has neither match nor check.")
    if "match" not in evaluation and None in _list(evaluation["check"]) and not evaluation.get("example"):
        return "its check lacks the example that it runs"
    if create.get("local", "default") not in IMAGES:
        return f"its image is {create['local']!r:.40}"
    scripts = [*_list(create.get("init")), *_list(evaluation.get("check")), *_list(evaluation.get("example"))]
    languages = {script.get("language", "bash") for script in scripts if isinstance(script, dict)}
    return f"it has scripts in {', '.join(sorted(languages - {*LANGUAGES}))}" if languages - {*LANGUAGES} else ""


def _folder(problem: Mapping[str, Any], where: str, scripts: Path) -> dict[str, str]:
    """Return the files of a problem's task folder. Raises: TaskError naming a script that is missing."""
    evaluation, create = problem["evaluation"], problem.get("create", {})
    match, example = evaluation.get("match"), evaluation.get("example")
    checks = [] if match is not None else _list(evaluation["check"])
    rules: dict[str, Any] = {"check": [_script(each or example, scripts, where) for each in checks]}
    if match is not None:
        rules = match if isinstance(match, dict) else {"answer": match}
    asks_for_answer = match is not None or None in checks
    packages = IMAGES[create.get("local", "default")]
    steps = ["FROM ubuntu:24.04"]
    if packages:
        steps.append(f"RUN apt-get update && apt-get install -y --no-install-recommends {packages}")
    for each in _list(create.get("init")):
        language, code = _script(each, scripts, where)
        steps.append(f"RUN {json.dumps([*LANGUAGES[language], code])}")
    solution = ""
    if "answer" in rules:
        solution = f"printf %s {shlex.quote(rules['answer'])} > {ANSWER}"
    elif match is None and example:
        language, code = _script(example, scripts, where)
        solution = shlex.join([*LANGUAGES[language], code]) + (f" > {ANSWER}" if asks_for_answer else "")
    files = {
        "environment/Dockerfile": "\n".join(steps) + "\n",
        "instruction.md": text_of(problem, where, "description") + (ASKS if asks_for_answer else "\n"),
        "task.toml": tomli_w.dumps({**CONFIG, "metadata": {"tags": list(map(str, problem.get("labels", ())))}}),
        "tests/judge.json": json.dumps(rules),
        "tests/judge.py": JUDGE,
        "tests/test.sh": TEST,
    }
    return {**files, "solution/solve.sh": f"#!/bin/bash\n{solution}\n"} if solution else files


def _script(given: object, folder: Path, where: str) -> tuple[str, str]:
    """Return a script's language and code. Raises: TaskError for a file that is missing."""
    if isinstance(given, str):
        return "bash", given
    if not isinstance(given, Mapping) or not ("code" in given or "file" in given):
        raise TaskError(f"{where}: a script must be a text, or have `code` or `file`, not {given!r:.80}.")
    if "code" in given:
        return given.get("language", "bash"), str(given["code"])
    try:
        return given.get("language", "bash"), (folder / str(given["file"])).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{where}: its script {given['file']} cannot be read: {error}.") from error


def _list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [] if given is None else [given]
