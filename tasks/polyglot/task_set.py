"""The task set `code/polyglot-v1`: hand-made functions, each in every language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from agentgym import Split, Task, TaskSet
from agentgym.sandboxes.languages import LANGUAGES

from ..reference_oracle import oracle
from .lists import RUN_LENGTHS, TRANSPOSE
from .numbers import FIRST_BELOW, IS_MOUNTAIN, MEAN_GAP, NEXT_BUS
from .problem import FunctionProblem
from .texts import MASK, SHORTAGES, TALLY

NAME = "code/polyglot-v1"
PROBLEMS: Mapping[Split, Sequence[FunctionProblem]] = {
    "train": [NEXT_BUS, MEAN_GAP, IS_MOUNTAIN, TRANSPOSE, TALLY],
    "validation": [MASK],
    "held_out": [RUN_LENGTHS, FIRST_BELOW, SHORTAGES],
}
EXAMPLES = 2


@cache
def task_set() -> TaskSet:
    """Functions to be written in C, C++, Go, Java, JavaScript and Rust.

    There is one task for each function and language.

    No function is in two splits. Held-out tasks carry the tag `unseen_functions`; every task has its language as a tag.
    """
    splits: dict[str, list[Task]] = {
        split: [_task(problem, language, split) for problem in problems for language in LANGUAGES]
        for split, problems in PROBLEMS.items()
    }
    return TaskSet(NAME, splits, oracle=oracle)


def _task(problem: FunctionProblem, language: str, split: Split) -> Task:
    cases = problem.cases()
    return Task(
        id=f"{problem.name}/{language}",
        environment="agentgym/code-function-v1",
        prompt=f"Write the function {problem.name} in {LANGUAGES[language].title}. {problem.words}",
        parameters={"function": problem.signature(), "languages": [language], "examples": cases[:EXAMPLES]},
        truth={
            "calls": cases[EXAMPLES:],
            "reference": problem.right(language),
            "wrong": problem.wrong(language),
        },
        split=split,
        tags=(language, problem.name, *(("unseen_functions",) if split == "held_out" else ())),
    )
