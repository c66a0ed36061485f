"""The task set `code/projects-v1`: fix, add, rename or move a function of a package of three modules."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from agentgym import Call, Message, Task, TaskSet, load_task_set

from ..generator import TaskGenerator, TaskSlot
from ..mutation import mutants

NAME, MATERIAL = "code/projects-v1", "code/functions-v1"
SIZES = {"train": 1_000, "validation": 120, "unseen_functions": 120, "unseen_kinds": 120}
KINDS, UNSEEN_KINDS = ("fix", "add", "rename"), ("move",)
PACKAGES = ("toolbox", "parts", "toolkit", "library", "basics", "workshop")
MODULES = ("shapes", "lists", "figures", "words", "counts", "rules", "parts_of", "marks", "steps", "tables")
VISIBLE = 3
OVERVIEW = "overview"


@dataclass(frozen=True, slots=True)
class Function:
    """One function of the project, from the set `code/functions-v1`: name, description, source and assertions."""

    name: str
    words: str
    source: str
    tests: Sequence[str]

    @classmethod
    def of(cls, task: Task) -> Function:
        words = task.prompt.partition("; it takes ")[2].partition(" For example, ")[0]
        tests = (*task.parameters["tests"], *task.truth["tests"])
        return cls(task.tags[0], "Take " + words, task.truth["reference"], tests)

    def text(self, source: str = "") -> str:
        """Return the function with its words as a docstring."""
        head, _, body = (source or self.source).partition("\n")
        return f'{head}\n    """{self.words}"""\n{body}'

    def example(self) -> tuple[str, str]:
        """Return a call and its value, as text."""
        call, _, value = self.tests[0].removeprefix("assert ").partition(" == ")
        return call, value


@dataclass(frozen=True, slots=True)
class Project:
    """A package: its functions by module. The last module, summary.py, calls one function of each other module."""

    package: str
    modules: Mapping[str, Sequence[Function]]

    def files(
        self, *, names: Mapping[str, str] | None = None, replaced: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return the package's files: text by path.

        Args:
            names: new names of functions, by the old name.
            replaced: replacement text of functions, by name; "" omits the function.
        """
        names, replaced = names or {}, replaced or {}
        texts_by_path = {f"{self.package}/__init__.py": ""}
        for module, functions in self.modules.items():
            definitions = [replaced.get(function.name, function.text()) for function in functions]
            text = "\n\n".join(function.strip("\n") + "\n" for function in definitions if function)
            texts_by_path[f"{self.package}/{module}.py"] = _renamed(text, names)
        imports = [f"from .{module} import {functions[0].name}" for module, functions in self.modules.items()]
        calls = ", ".join(functions[0].example()[0] for functions in self.modules.values())
        text = "\n".join([*imports, "", "", f"def {OVERVIEW}():", f"    return [{calls}]", ""])
        texts_by_path[f"{self.package}/summary.py"] = _renamed(text, names)
        return texts_by_path

    def imports(self, names: Mapping[str, str] | None = None) -> str:
        """Return Python code that imports every function of the package."""
        lines = [
            f"from {self.package}.{module} import {', '.join(function.name for function in functions)}"
            for module, functions in self.modules.items()
        ]
        return _renamed("\n".join([*lines, f"from {self.package}.summary import {OVERVIEW}", ""]), names or {})

    def overview(self) -> str:
        """Return the assertion on the value of the summary's function."""
        return f"assert {OVERVIEW}() == [{', '.join(functions[0].example()[1] for functions in self.modules.values())}]"


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for old, new in names.items():
        text = (
            text.replace(f"{old}(", f"{new}(").replace(f"import {old}", f"import {new}").replace(f", {old}", f", {new}")
        )
    return text


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Changes to be made to Python packages of three modules.

    The seed chooses the functions of each package and the kind of work.

    Held-out tasks carry the tag `unseen_functions` (kinds of work of the training tasks, on functions that these do not
    have) or `unseen_kinds` (moving a function to another module, which no training task asks for). Difficulty is the
    band of the function to work on.
    """
    material = load_task_set(MATERIAL)
    draw = TaskGenerator(NAME, SIZES, seed, key=None, tries=200).draw
    held_out = [
        *draw("unseen_functions", _task, material["held_out"], KINDS),
        *draw("unseen_kinds", _task, material["held_out"], UNSEEN_KINDS),
    ]
    train = draw("train", _task, material["train"], KINDS)
    validation = draw("validation", _task, material["validation"], KINDS)
    return TaskSet(NAME, {"held_out": held_out, "validation": validation, "train": train}, oracle=oracle)


def oracle(task: Task) -> Callable[[Sequence[Message]], Message]:
    """Read a file, write the changed files, run the tests and submit."""
    solution: Mapping[str, str] = task.truth["solution"]
    calls = [
        (Call("read", {"path": next(iter(solution))}),),
        tuple(Call("write", {"path": path, "text": text}, f"w{n}") for n, (path, text) in enumerate(solution.items())),
        (Call("test", {}),),
        (Call("submit", {}),),
    ]

    def script(messages: Sequence[Message]) -> Message:
        return Message("assistant", "", calls[sum(message.role == "assistant" for message in messages)])

    return script


def _task(rng: random.Random, slot: TaskSlot, material: Sequence[Task], kinds: Sequence[str]) -> Task | None:
    """Make one task; return None if fewer than four functions were drawn, or if the kind of work does not apply to
    them.
    """
    sampled = {task.tags[0]: task for task in rng.sample(list(material), 6)}
    if len(sampled) < 4:
        return None
    chosen = list(sampled.values())[:4]
    functions = [Function.of(task) for task in chosen]
    first, second = rng.sample(MODULES, 2)
    project = Project(rng.choice(PACKAGES), {first: functions[:2], second: functions[2:]})
    kind = kinds[slot.index % len(kinds)]
    work = _WORK[kind](project, rng)
    if work is None:
        return None
    prompt, files, solution, truth = work
    return Task(
        id=slot.id,
        environment="agentgym/code-files-v1",
        prompt=f"The project is the Python package {project.package} in /work. {prompt}",
        parameters={"files": files, **_visible(truth)},
        truth={**truth, "solution": {path: text for path, text in solution.items() if files.get(path) != text}},
        split=slot.split,
        tags=(kind, *(function.name for function in functions), *slot.tags),
        difficulty=chosen[0].difficulty,
    )


Work = tuple[str, dict[str, str], dict[str, str], dict[str, Any]]
"""The prompt, the initial files, the files of a solution, and the truth."""


def _fix(project: Project, rng: random.Random) -> Work | None:
    target = _target(project)
    wrong = mutants(target.source, target.tests[VISIBLE:], rng)
    if not wrong:
        return None
    files = project.files(replaced={target.name: target.text(wrong[0])})
    return (
        "One of its functions does not do what its docstring says. Find it and mend it.",
        files,
        project.files(),
        {"imports": project.imports(), "tests": _all_tests(project)},
    )


def _add(project: Project, rng: random.Random) -> Work | None:
    target, module = _target(project), next(iter(project.modules))
    files = project.files(replaced={target.name: ""})
    call, value = target.example()
    signature = target.source.partition("\n")[0].removeprefix("def ").rstrip(":")
    return (
        f"The function {signature} is missing from {project.package}/{module}.py, and summary.py needs it. Write it. "
        f"{target.words} For example, {call} is {value}.",
        files,
        project.files(),
        {"imports": project.imports(), "tests": _all_tests(project)},
    )


def _rename(project: Project, rng: random.Random) -> Work | None:
    target = _target(project)
    names = {target.name: f"{rng.choice(('new', 'better', 'plain', 'quick', 'own'))}_{target.name}"}
    truth = {
        "imports": project.imports(names),
        "tests": [_renamed(test, names) for test in _all_tests(project)],
        "lacks": [
            [path, text] for path in project.files() for text in (f"def {target.name}(", f"import {target.name}")
        ],
    }
    return (
        f"Rename the function {target.name} to {names[target.name]}, wherever it stands; the old name shall be gone.",
        project.files(),
        project.files(names=names),
        truth,
    )


def _move(project: Project, rng: random.Random) -> Work | None:
    target, (first, second) = _target(project), list(project.modules)
    after = Project(project.package, {first: project.modules[first][1:], second: [*project.modules[second], target]})
    files, solution = project.files(), after.files()
    solution[f"{project.package}/summary.py"] = files[f"{project.package}/summary.py"].replace(
        f"from .{first} import", f"from .{second} import", 1
    )
    truth = {
        "imports": after.imports(),
        "tests": _all_tests(project),
        "lacks": [[f"{project.package}/{first}.py", target.name]],
    }
    return (
        f"Move the function {target.name} from {first}.py to {second}.py, and let summary.py take it from there.",
        files,
        solution,
        truth,
    )


_WORK: Mapping[str, Callable[[Project, random.Random], Work | None]] = {
    "fix": _fix,
    "add": _add,
    "rename": _rename,
    "move": _move,
}


def _target(project: Project) -> Function:
    """Return the function to work on: the first of the first module. The summary calls it."""
    return next(iter(project.modules.values()))[0]


def _all_tests(project: Project) -> list[str]:
    """Return assertions on every function, the target's first."""
    tests = [test for functions in project.modules.values() for function in functions for test in function.tests[:6]]
    return [
        *_target(project).tests,
        *[test for test in tests if test not in _target(project).tests],
        project.overview(),
    ]


def _visible(truth: dict[str, Any]) -> dict[str, Any]:
    """Move the target's first assertions from the truth to the parameters, so that the agent can try them."""
    visible, truth["tests"] = truth["tests"][:VISIBLE], truth["tests"][VISIBLE:]
    return {"tests": visible, "imports": truth["imports"]}
