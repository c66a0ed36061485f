"""Reads and checks task folders of Harbor and Terminal-Bench. Nothing from them runs on this host.

Harbor: task.toml, instruction.md, environment/Dockerfile, tests/test.sh, solution/solve.sh. test.sh writes the reward
to /logs/verifier/reward.json, or reward.txt. With [[steps]] in task.toml, each step has its own such files in
steps/NAME, and its workdir/ is put into the working folder. Terminal-Bench: task.yaml, Dockerfile, run-tests.sh,
tests/, solution.sh. The reward is 1 if run-tests.sh ends with status 0. Both may have a docker-compose.yaml of one
service.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym import TaskError

from .build_context import Files, check_sources, read_files, without_ignored
from .build_steps import Copy, ImageConfig
from .compose_file import ComposeService, load_yaml, read_compose
from .dockerfile import Dockerfile, parse_dockerfile
from .harbor_config import number_of, read_config

MEMORY_MIB, DISK_MIB = 2048, 2048
HARBOR, TERMINAL_BENCH, COMPOSE = "task.toml", "task.yaml", "docker-compose.yaml"


@dataclass(frozen=True, slots=True)
class TaskStep:
    """An instruction, and how what the agent makes of it is judged. Most task folders have one step.

    Attributes:
        name: empty for the only step.
        tests, solution: the files of /tests and /solution.
        test_script, solution_script: the names of the scripts among them.
        files: what is put into the working folder when the step begins; a setup.sh among them is run.
        agent_s, verifier_s: limits in wall seconds of all the agent's commands, and of the tests.
        verifier_environment, solution_environment: further variables of the test script and of the solution.
        least_rewards: what it must earn, by key, so that the next step begins; empty for nothing.
    """

    instruction: str
    tests: Files
    solution: Files
    name: str = ""
    test_script: str = "test.sh"
    solution_script: str = "solve.sh"
    files: Files = field(default_factory=dict)
    agent_s: float = 900.0
    verifier_s: float = 600.0
    verifier_environment: Mapping[str, str] = field(default_factory=dict)
    solution_environment: Mapping[str, str] = field(default_factory=dict)
    least_rewards: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TerminalFolder:
    """A task folder.

    Attributes:
        dockerfile: how its image is built.
        context: the files beside the Dockerfile.
        steps: at least one; they share the sandbox.
        environment, workdir: variables and folder of all commands, in place of the image's; empty for the image's.
        has_network: whether the task leaves the agent a network.
        starts_entrypoint: whether the image's entrypoint is started.
        pays_by_status: whether the reward is 1 for the script's exit status 0, instead of being read from a file.
        pays_last_step: whether the reward is that of the last step that is reached, not the mean of the steps.
        build_s: limit in wall seconds of one RUN.
        digest: the hash of all that was read.
    """

    name: str
    dockerfile: Dockerfile
    context: Files
    steps: tuple[TaskStep, ...]
    digest: str
    pays_by_status: bool = False
    pays_last_step: bool = False
    build_s: float = 600.0
    memory_mib: int = MEMORY_MIB
    disk_mib: int = DISK_MIB
    cpu_cores: float = 1.0
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    has_network: bool = True
    starts_entrypoint: bool = True
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
    config = read_config(_text(folder, HARBOR))
    steps = tuple(_step(folder, f"steps/{step['name']}/" if step["name"] else "", step) for step in config.pop("steps"))
    return _checked(folder, context=_read(folder, "environment"), steps=steps, **config)


def _step(folder: Path, top: str, settings: Mapping[str, Any]) -> TaskStep:
    """Read the step whose files are below `top`. The tests beside task.toml are those of every step, beside its own."""
    solution = _regular(_read(folder, f"{top}solution")) or _regular(_read(folder, "solution"))
    return TaskStep(
        instruction=_text(folder, f"{top}instruction.md").strip(),
        tests={**_regular(_read(folder, "tests")), **_regular(_read(folder, f"{top}tests"))},
        solution=solution,
        files=_regular(_read(folder, f"{top}workdir")) if top else {},
        **settings,
    )


def _terminal_bench(folder: Path) -> TerminalFolder:
    data = load_yaml(_text(folder, TERMINAL_BENCH), TERMINAL_BENCH)
    if not isinstance(data, Mapping):
        raise TaskError(f"{TERMINAL_BENCH} must be a table")
    context = _read(folder, "")
    if "run-tests.sh" not in context:
        raise TaskError("the file run-tests.sh is missing")
    tests = {path.removeprefix("tests/"): file for path, file in context.items() if path.startswith("tests/")}
    hidden = ("tests/", "run-tests.sh", "solution.", TERMINAL_BENCH)
    step = TaskStep(
        instruction=_instruction(data).strip(),
        tests=_regular({**tests, "run-tests.sh": context["run-tests.sh"]}),
        solution={"solution.sh": context["solution.sh"]} if "solution.sh" in context else {},
        test_script="run-tests.sh",
        solution_script="solution.sh",
        agent_s=number_of(data, "max_agent_timeout_sec", 900.0),
        verifier_s=number_of(data, "max_test_timeout_sec", 600.0),
        verifier_environment={"TEST_DIR": "/tests"},
    )
    return _checked(
        folder,
        context={path: file for path, file in context.items() if not path.startswith(hidden)},
        withheld={path: file for path, file in context.items() if path.startswith(hidden)},
        steps=(step,),
        pays_by_status=True,
        tags=tuple(str(data[key]) for key in ("category", "difficulty") if isinstance(data.get(key), str)),
    )


def _instruction(data: Mapping[str, Any]) -> str:
    """Return the instruction of a task.yaml: of several descriptions, the one called `base`."""
    descriptions = data.get("descriptions")
    entries = [entry for entry in descriptions if isinstance(entry, Mapping)] if isinstance(descriptions, list) else []
    texts = {entry.get("key"): entry.get("description") for entry in entries}
    return str(data.get("instruction") or texts.get("base") or "")


def _checked(
    folder: Path,
    *,
    context: Files,
    steps: tuple[TaskStep, ...],
    image: str = "",
    environment: Mapping[str, str] | None = None,
    workdir: str = "",
    withheld: Files | None = None,
    **fields: Any,
) -> TerminalFolder:
    """Return the folder, after checking that no part is missing or unsupported.

    Args: `withheld`, files that the image has only if the Dockerfile copies them by name.
    """
    for step in steps:
        where = f"steps/{step.name}/" if step.name else ""
        if not step.instruction:
            raise TaskError(f"it has no instruction{where and ' in '}{where}")
        if step.test_script not in step.tests:
            raise TaskError(f"the file {where}tests/{step.test_script} is missing")
        if step.solution and step.solution_script not in step.solution:
            names = ", ".join(sorted(step.solution)[:5])
            raise TaskError(f"its solution has no {where}{step.solution_script}, but {names}")
    service = ComposeService()
    if COMPOSE in context:
        service = read_compose(context[COMPOSE][0].decode("utf-8", "replace"), COMPOSE, context)
    if service.has_entrypoint:
        fields["starts_entrypoint"] = False
    fields["has_network"] = service.has_network and fields.get("has_network", True)
    dockerfile = service.dockerfile
    if not dockerfile and "Dockerfile" in context and not service.image:
        dockerfile = context["Dockerfile"][0].decode("utf-8", "replace")
    elif not dockerfile and (base := service.image or image):
        dockerfile = f"FROM {base}\n"
    if not dockerfile:
        raise TaskError("there is neither a Dockerfile nor the name of an image (docker_image in task.toml)")
    beside = {path.removeprefix(f"{service.context}/"): file for path, file in context.items()}
    if service.context:
        beside = {path: file for path, file in beside.items() if f"{service.context}/{path}" in context}
    fields |= {
        "environment": {**service.environment, **(environment or {})},
        "workdir": workdir or service.workdir,
        "steps": steps,
    }
    parsed = parse_dockerfile(dockerfile, arguments=service.arguments, target=service.target)
    built_of = without_ignored({**beside, **_copied_by_name(parsed, withheld or {})})
    check_sources(parsed, built_of)
    settings = (dockerfile, service, sorted(context.items()), sorted(fields.items()))
    return TerminalFolder(
        folder.name,
        dockerfile=parsed,
        context=built_of,
        digest=hashlib.sha256(repr(settings).encode()).hexdigest(),
        **fields,
    )


def _copied_by_name(dockerfile: Dockerfile, withheld: Files) -> Files:
    """Return the withheld files that a Dockerfile copies by name. Raises: TaskError if the solution is among them."""
    steps = [step for stage in dockerfile.needed() for step in stage.steps(ImageConfig())[0]]
    names = {
        source.removeprefix("./").rstrip("/") for step in steps if isinstance(step, Copy) for source in step.sources
    }
    named = {path: file for path, file in withheld.items() if any(f"{path}/".startswith(f"{name}/") for name in names)}
    if any(path.startswith("solution.") for path in named):
        raise TaskError("its Dockerfile copies its solution into the image, where the agent finds it; remove that COPY")
    return named


def _read(folder: Path, name: str) -> Files:
    """Return the files of a part of a task folder. Raises: TaskError for one that leads out of the task folder."""
    return read_files(_inside(folder, name))


def _regular(files: Files) -> Files:
    """Return the files without folders, links and what Python compiled."""
    return {path: file for path, file in files.items() if file[1] <= 0o777 and "__pycache__" not in path}


def _text(folder: Path, name: str) -> str:
    try:
        return _inside(folder, name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{name} cannot be read: {error}") from error


def _inside(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise TaskError(f"{name} is a link that leads out of the folder; copy what it leads to")
    return path
