"""Reads and checks task folders of Harbor and Terminal-Bench. Nothing from them runs on this host.

Harbor: task.toml, instruction.md, environment/Dockerfile, tests/test.sh, solution/solve.sh. test.sh writes the reward
to /logs/verifier/reward.txt, or reward.json. Terminal-Bench: task.yaml, Dockerfile, run-tests.sh, tests/, solution.sh.
The reward is 1 if run-tests.sh ends with status 0.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym import TaskError

from .build_context import Files, read_files, without_ignored
from .build_plan import BuildPlan, parse_plan, plan_of
from .dockerfile import Dockerfile, parse_dockerfile

MEMORY_MIB, DISK_MIB = 2048, 2048
HARBOR, TERMINAL_BENCH = "task.toml", "task.yaml"
UNSUPPORTED = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
BLOCK = re.compile(r"[|>][+-]?\s*")


@dataclass(frozen=True, slots=True)
class TerminalFolder:
    """A task folder.

    Attributes:
        plan: the plan of its Dockerfile.
        dockerfile: how its image is built.
        context: the files beside the Dockerfile.
        tests, solution: the files of /tests and /solution.
        test_script, solution_script: the names of the scripts among them.
        pays_by_status: whether the reward is 1 for the script's exit status 0, instead of being read from a file.
        agent_s, verifier_s, build_s: limits in wall seconds of all the agent's commands, of the tests, and of one RUN.
        verifier_environment: the variables of the test script.
        digest: the hash of all that was read.
    """

    name: str
    instruction: str
    plan: BuildPlan
    dockerfile: Dockerfile
    context: Files
    tests: Files
    solution: Files
    digest: str
    test_script: str = "test.sh"
    solution_script: str = "solve.sh"
    pays_by_status: bool = False
    agent_s: float = 900.0
    verifier_s: float = 600.0
    build_s: float = 600.0
    memory_mib: int = MEMORY_MIB
    disk_mib: int = DISK_MIB
    cpu_cores: float = 1.0
    verifier_environment: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: str | Path) -> TerminalFolder:
        """Read a folder. Raises: TaskError naming the folder, and what is missing or not supported."""
        folder = Path(path)
        try:
            if (folder / HARBOR).is_file():
                return _harbor(folder)
            if (folder / TERMINAL_BENCH).is_file():
                return _terminal_bench(folder)
            raise TaskError(f"it has neither {HARBOR} (Harbor) nor {TERMINAL_BENCH} (Terminal-Bench)")
        except TaskError as error:
            raise TaskError(f"{folder}: {error}.") from error


def _harbor(folder: Path) -> TerminalFolder:
    try:
        data = tomllib.loads(_text(folder / HARBOR))
    except tomllib.TOMLDecodeError as error:
        raise TaskError(f"{HARBOR} is not valid TOML: {error}") from error
    if "steps" in data:
        raise TaskError(f"{HARBOR} has [[steps]], but only tasks of one step are supported")
    sections = {name: _section(data, name) for name in ("agent", "verifier", "environment", "metadata")}
    environment = sections["environment"]
    context = read_files(folder / "environment")
    if "Dockerfile" in context:
        dockerfile = context["Dockerfile"][0].decode("utf-8", "replace")
    elif image := environment.get("docker_image"):
        dockerfile = f"FROM {image}\n"
    else:
        raise TaskError("there is neither environment/Dockerfile nor environment.docker_image")
    return _checked(
        folder,
        instruction=_text(folder / "instruction.md"),
        dockerfile=dockerfile,
        context=context,
        tests=_files(folder / "tests"),
        solution=_files(folder / "solution"),
        agent_s=_number(sections["agent"], "timeout_sec", 900.0),
        verifier_s=_number(sections["verifier"], "timeout_sec", 600.0),
        build_s=_number(environment, "build_timeout_sec", 600.0),
        memory_mib=_mib(environment, "memory", MEMORY_MIB),
        disk_mib=_mib(environment, "storage", DISK_MIB),
        cpu_cores=_number(environment, "cpus", 1.0),
        verifier_environment={str(k): str(v) for k, v in _section(sections["verifier"], "env").items()},
        tags=tuple(map(str, tags)) if isinstance(tags := sections["metadata"].get("tags"), list) else (),
    )


def _terminal_bench(folder: Path) -> TerminalFolder:
    data = _yaml_scalars(_text(folder / TERMINAL_BENCH))
    context = read_files(folder)
    for name in ("Dockerfile", "run-tests.sh"):
        if name not in context:
            raise TaskError(f"the file {name} is missing")
    tests = {path.removeprefix("tests/"): file for path, file in _files(folder).items() if path.startswith("tests/")}
    hidden = ("tests/", "run-tests.sh", "solution.", TERMINAL_BENCH)
    return _checked(
        folder,
        instruction=data.get("instruction", ""),
        dockerfile=context["Dockerfile"][0].decode("utf-8", "replace"),
        context={path: file for path, file in context.items() if not path.startswith(hidden)},
        tests={**tests, "run-tests.sh": context["run-tests.sh"]},
        solution={"solution.sh": context["solution.sh"]} if "solution.sh" in context else {},
        test_script="run-tests.sh",
        solution_script="solution.sh",
        pays_by_status=True,
        agent_s=_number(data, "max_agent_timeout_sec", 900.0),
        verifier_s=_number(data, "max_test_timeout_sec", 600.0),
        verifier_environment={"TEST_DIR": "/tests"},
        tags=tuple(filter(None, (data.get("category"), data.get("difficulty")))),
    )


def _checked(
    folder: Path, *, dockerfile: str, context: Files, tests: Files, solution: Files, **fields: Any
) -> TerminalFolder:
    """Return the folder, after checking that no part is missing or unsupported."""
    script, solve = fields.get("test_script", "test.sh"), fields.get("solution_script", "solve.sh")
    if not fields["instruction"].strip():
        raise TaskError("it has no instruction")
    if script not in tests:
        raise TaskError(f"the file tests/{script} is missing")
    if solution and solve not in solution:
        raise TaskError(f"its solution has no {solve}, but {', '.join(sorted(solution)[:5])}")
    if present := [name for name in UNSUPPORTED if name in context]:
        raise TaskError(f"its environment has {', '.join(present)}, which is not supported")
    plan = plan_of(parse_plan(dockerfile), {path: file for path, file in context.items() if file[1] <= 0o777})
    parsed = parse_dockerfile(dockerfile)
    files = [sorted(part.items()) for part in (context, tests, solution)]
    digest = hashlib.sha256(repr((dockerfile, files, sorted(fields.items()))).encode()).hexdigest()
    files_of_image = without_ignored(context)
    return TerminalFolder(
        folder.name,
        plan=plan,
        dockerfile=parsed,
        context=files_of_image,
        tests=tests,
        solution=solution,
        digest=digest,
        **fields,
    )


def _files(folder: Path) -> Files:
    """Return the regular files below a folder; empty if the folder does not exist."""
    return {path: file for path, file in read_files(folder).items() if file[1] <= 0o777}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path.name} cannot be read: {error}") from error


def _section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = data.get(name, {})
    if not isinstance(section, Mapping):
        raise TaskError(f"{name} must be a table, not {section!r:.80}")
    return section


def _number(data: Mapping[str, Any], name: str, default: float) -> float:
    value = data.get(name, default)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number < 10**6:
        raise TaskError(f"{name} must be a number above 0, not {value!r:.80}")
    return number


def _mib(section: Mapping[str, Any], name: str, default: int) -> int:
    """Read the memory limit: `memory = "2G"`, or `memory_mb = 2048`."""
    if f"{name}_mb" in section:
        return int(_number(section, f"{name}_mb", default))
    value = str(section.get(name, f"{default}M"))
    match = re.fullmatch(r"(\d{1,6})\s*([MG])i?B?", value, re.I)
    if match is None or not int(match[1]):
        raise TaskError(f"environment.{name} must be a size such as 2G or 512M, not {value!r:.80}")
    return int(match[1]) * (1024 if match[2] in "Gg" else 1)


def _yaml_scalars(text: str) -> dict[str, str]:
    """Return the texts at the top level of a YAML file: plain, quoted or block texts. Nested values are ignored."""
    scalars: dict[str, str] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines):
        match = re.match(r"([A-Za-z_]\w*):\s*(.*)$", line)
        if match is None:
            continue
        name, value = match.groups()
        if BLOCK.fullmatch(value):
            body: list[str] = []
            for inner in lines[number + 1 :]:
                if inner.strip() and not inner.startswith((" ", "\t")):
                    break
                body.append(inner)
            indent = min((len(inner) - len(inner.lstrip()) for inner in body if inner.strip()), default=0)
            joined = " " if value.startswith(">") else "\n"
            scalars[name] = joined.join(inner[indent:] for inner in body).strip()
        elif value:
            scalars[name] = value[1:-1] if value[0] in "'\"" and value[-1:] == value[0] else value.partition(" #")[0]
    return scalars
