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
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agentgym import TaskError

from .artifacts import Artifact
from .build_context import Files, check_sources, read_files, without_ignored
from .build_steps import Copy, ImageConfig
from .compose_file import ComposeService, load_yaml, read_compose
from .dockerfile import Dockerfile, parse_dockerfile
from .harbor_config import number_of, read_config

MEMORY_MIB, DISK_MIB = 2048, 2048
MAX_STEPS_BYTES = 2**28
HARBOR, TERMINAL_BENCH, COMPOSE = "task.toml", "task.yaml", "docker-compose.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSetup:
    """How the image of a sandbox is built, and what the sandbox may use.

    Attributes:
        name: the name in messages.
        dockerfile: how the image is built.
        context: the files beside the Dockerfile.
        environment, workdir: variables and folder of all commands, in place of the image's; empty for the image's.
        has_network: whether the task leaves the sandbox a network.
        starts_entrypoint: whether the image's entrypoint is started.
        build_s: limit in wall seconds of one RUN.
    """

    name: str
    dockerfile: Dockerfile
    context: Files
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    has_network: bool = True
    starts_entrypoint: bool = True
    build_s: float = 600.0
    memory_mib: int = MEMORY_MIB
    disk_mib: int = DISK_MIB
    cpu_cores: float = 1.0


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
        verifier: the sandbox of the tests; None for the agent's image with all that the agent has changed.
        brings_tests: whether the verifier's image has the tests already.
        artifacts: what the verifier's sandbox gets of the agent's files.
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
    verifier: SandboxSetup | None = None
    brings_tests: bool = False
    artifacts: tuple[Artifact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalFolder(SandboxSetup):
    """A task folder, with the setup of the agent's sandbox.

    Attributes:
        steps: at least one; they share the sandbox.
        pays_by_status: whether the reward is 1 for the script's exit status 0, instead of being read from a file.
        pays_last_step: whether the reward is that of the last step that is reached, not the mean of the steps.
        digest: the hash of all that was read.
    """

    steps: tuple[TaskStep, ...]
    digest: str
    pays_by_status: bool = False
    pays_last_step: bool = False
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
    context, tests, solution = (_read(folder, name) for name in ("environment", "tests", "solution"))
    common = TaskStep(instruction="", tests=_regular(tests), solution=_regular(solution))
    steps: list[TaskStep] = []
    size = 0
    for settings in config.pop("steps"):
        steps.append(step := _step(folder, settings, common, context, config["image"]))
        parts = (step.tests, step.solution, step.files, {} if step.verifier is None else step.verifier.context)
        size += sum(len(data) for files in parts for data, _ in files.values())
        if size > MAX_STEPS_BYTES:
            raise TaskError(f"the files of its steps have more than {MAX_STEPS_BYTES} bytes")
    return _checked(folder, context=context, steps=tuple(steps), **config)


def _step(folder: Path, settings: dict[str, Any], common: TaskStep, context: Files, image: str) -> TaskStep:
    """Read a step.

    Args:
        common: the tests of every step, beside its own, and the solution of a step without one.
        context, image: what the agent's image is made of.
    """
    top = f"steps/{settings['name']}/" if settings["name"] else ""
    verifier, brings_tests = settings.pop("verifier", None), False
    if verifier is not None:
        images = dict(zip((f"{top}tests", "tests"), verifier.pop("images"), strict=True))
        for part, named in images.items():
            files = _read(folder, part)
            if named or "Dockerfile" in files or COMPOSE in files:
                context, image, brings_tests = {} if named else files, named, True
                break
        verifier = _setup(f"{folder.name}: verifier", context, **{**verifier, "image": image})

    def own(name: str) -> Files:
        return _regular(_read(folder, top + name)) if top else {}

    return TaskStep(
        instruction=_text(folder, f"{top}instruction.md").strip(),
        tests={**common.tests, **own("tests")},
        solution=own("solution") or common.solution,
        files=own("workdir"),
        verifier=verifier,
        brings_tests=brings_tests,
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
    folder: Path, *, context: Files, steps: tuple[TaskStep, ...], withheld: Files | None = None, **settings: Any
) -> TerminalFolder:
    """Return the folder, after checking that no part is missing or unsupported.

    Args: `withheld`, files that the image has only if the Dockerfile copies them by name.
    """
    for step in steps:
        where = f"steps/{step.name}/" if step.name else ""
        if not step.instruction:
            raise TaskError(f"it has no instruction{where and ' in '}{where}")
        if step.test_script not in step.tests and not step.brings_tests:
            raise TaskError(f"the file {where}tests/{step.test_script} is missing")
        if step.solution and step.solution_script not in step.solution:
            names = ", ".join(sorted(step.solution)[:5])
            raise TaskError(f"its solution has no {where}{step.solution_script}, but {names}")
    own = {name: settings.pop(name) for name in ("pays_by_status", "pays_last_step", "tags") if name in settings}
    setup = _setup(folder.name, context, withheld or {}, **settings)
    digest = hashlib.sha256(repr((setup, steps, sorted(own.items()))).encode()).hexdigest()
    parts = {part.name: getattr(setup, part.name) for part in fields(setup)}
    return TerminalFolder(**parts, **own, steps=steps, digest=digest)


def _setup(
    name: str,
    context: Files,
    withheld: Files = MappingProxyType({}),
    *,
    image: str = "",
    environment: Mapping[str, str] = MappingProxyType({}),
    workdir: str = "",
    has_network: bool = True,
    **limits: Any,
) -> SandboxSetup:
    """Return how an image is built of a context, or is the one named. Raises: TaskError."""
    service = ComposeService()
    if COMPOSE in context:
        service = read_compose(context[COMPOSE][0].decode("utf-8", "replace"), COMPOSE, context)
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
    parsed = parse_dockerfile(dockerfile, arguments=service.arguments, target=service.target)
    built_of = without_ignored({**beside, **_copied_by_name(parsed, withheld)})
    check_sources(parsed, built_of)
    return SandboxSetup(
        name=name,
        dockerfile=parsed,
        context=built_of,
        environment={**service.environment, **environment},
        workdir=workdir or service.workdir,
        has_network=service.has_network and has_network,
        starts_entrypoint=not service.has_entrypoint,
        **limits,
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
