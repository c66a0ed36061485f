"""The table of languages: commands that build and run a program, and a writer of reference solutions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .steps import ENDINGS, STEPS, Chosen, in_python

C = """#include <HEADER>
int main() {{
    long long n, acc = {start};
    if (scanf("%lld", &n) != 1) return 1;
    for (long long i = 1; i <= n; i++) {{
        long long x;
        if (scanf("%lld", &x) != 1) return 1;
{steps}        acc = {update};
{each}    }}
{after}    return 0;
}}
"""
JAVASCRIPT = """const words = require("fs").readFileSync(0, "utf8").split(/\\s+/).filter(Boolean);
const numbers = words.slice(1).map(Number);
let acc = {start}, i = 0;
for (let x of numbers) {{
    i++;
{steps}    acc = {update};
{each}}}
{after}"""
BASH = """read -r n
read -r -a numbers
acc={start}
i=0
for x in "${{numbers[@]}}"; do
    i=$((i + 1))
{steps}    acc=$(({update}))
{each}done
{after}"""
PYTHON = """import sys

numbers = [int(word) for word in sys.stdin.read().split()[1:]]
acc = {start}
for i, x in enumerate(numbers, 1):
{steps}    acc = {update}
{each}{after}"""

Parts = Mapping[str, Any]


def _of_c(steps: Sequence[Chosen], ending: Chosen, *, skip: str, put: str, divide: str, indent: str) -> Parts:
    """Return the parts of a program in a language that has C's expressions.

    Args:
        skip, put: templates of a statement that skips a number, and of one that replaces x. divide: integer division.
    """
    template = ENDINGS[ending[0]]
    lines = []
    for name, k in steps:
        code = STEPS[name].code.replace("IDIV(x,K)", divide).replace("K", str(k))
        lines.append(indent + (skip if STEPS[name].keeps else put).replace("CODE", code) + "\n")
    return {"start": template.start, "steps": "".join(lines), "update": template.code.replace("K", str(ending[1]))}


def _c_like(header: str) -> Callable[[Sequence[Chosen], Chosen], str]:
    def write(steps: Sequence[Chosen], ending: Chosen) -> str:
        parts = _of_c(steps, ending, skip="if (!(CODE)) continue;", put="x = CODE;", divide="x / K", indent=" " * 8)
        each, show = ENDINGS[ending[0]].each, 'printf("%lld\\n", acc);\n'
        frame = C.replace("HEADER", header)
        return frame.format(each=f"        {show}" if each else "", after="" if each else f"    {show}", **parts)

    return write


def _javascript(steps: Sequence[Chosen], ending: Chosen) -> str:
    parts = _of_c(
        steps, ending, skip="if (!(CODE)) continue;", put="x = CODE;", divide="Math.floor(x / K)", indent="    "
    )
    each, show = ENDINGS[ending[0]].each, "console.log(acc);\n"
    return JAVASCRIPT.format(each=f"    {show}" if each else "", after="" if each else show, **parts)


def _bash(steps: Sequence[Chosen], ending: Chosen) -> str:
    parts = _of_c(steps, ending, skip="((CODE)) || continue", put="x=$((CODE))", divide="x / K", indent="    ")
    each = ENDINGS[ending[0]].each
    return BASH.format(each='    echo "$acc"\n' if each else "", after="" if each else 'echo "$acc"\n', **parts)


def _python(steps: Sequence[Chosen], ending: Chosen) -> str:
    template = ENDINGS[ending[0]]
    lines = []
    for name, k in steps:
        code = in_python(STEPS[name], k)
        lines.append(f"    if not ({code}):\n        continue\n" if STEPS[name].keeps else f"    x = {code}\n")
    update = (template.python or template.code).replace("K", str(ending[1]))
    each, after = ("    print(acc)\n", "") if template.each else ("", "print(acc)\n")
    return PYTHON.format(start=template.start, steps="".join(lines), update=update, each=each, after=after)


@dataclass(frozen=True, slots=True)
class ProgramLanguage:
    """One language.

    Attributes:
        title: its name in a prompt. file: the program's file name. build, run: command lines.
        write: writes the reference solution for steps and an ending.
    """

    title: str
    file: str
    run: Sequence[str]
    write: Callable[[Sequence[Chosen], Chosen], str]
    build: Sequence[str] = ()

    def program(self) -> dict[str, Any]:
        """Return `parameters["program"]` of a task."""
        return {"file": self.file, "build": list(self.build), "run": list(self.run)}


LANGUAGES: Mapping[str, ProgramLanguage] = {
    "shell": ProgramLanguage("a bash script", "main.sh", ("bash", "main.sh"), _bash),
    "python": ProgramLanguage(
        "Python", "main.py", ("python3", "-S", "main.py"), _python
    ),  # -S halves the start-up time
    "c": ProgramLanguage(
        "C",
        "main.c",
        ("./main",),
        _c_like("stdio.h"),
        ("gcc", "-O1", "-std=c11", "-o", "main", "main.c", "-lm"),
    ),
    "cpp": ProgramLanguage(
        "C++",
        "main.cpp",
        ("./main",),
        _c_like("cstdio"),
        ("g++", "-O1", "-std=c++17", "-o", "main", "main.cpp"),
    ),
    "javascript": ProgramLanguage("JavaScript (node)", "main.js", ("node", "main.js"), _javascript),
}
