"""Splits the text of a Dockerfile into its instructions, with their flags and heredocs, as Docker's builder does.

Source: docs.docker.com/reference/dockerfile, sections "Parser directives", "Format" and "Here-Documents".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from agentgym import TaskError

from .shell_words import quoted_words

DIRECTIVE = re.compile(r"#\s*([A-Za-z][\w-]*)\s*=\s*(.+?)\s*$")
HEREDOC = re.compile(r"(\d*)<<(-?)[ \t]*((?:\\.|'[^']*'|\"[^\"]*\"|[^\s<'\"\\])+)$", re.DOTALL)
HEREDOC_SPACE = re.compile(r"(^|\s)(\d*<<-?)[ \t]+(?=[^\s<])")
WITH_HEREDOCS = ("ADD", "COPY", "RUN")
WITHOUT_EFFECT = ("EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "STOPSIGNAL")
"""Instructions that change nothing that a command of the task can see."""
IN_STAGES = ("ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "RUN", "SHELL", "USER", "VOLUME", "WORKDIR")
FLAGS = {
    "ADD": ("chmod", "checksum", "chown", "exclude", "keep-git-dir", "link", "unpack"),
    "COPY": ("chmod", "chown", "exclude", "from", "link", "parents"),
    "FROM": ("platform",),
    "HEALTHCHECK": ("interval", "retries", "start-interval", "start-period", "timeout"),
    "RUN": ("mount", "network", "security"),
}
SEVERAL = ("exclude", "mount")


@dataclass(frozen=True, slots=True)
class Heredoc:
    """A text that follows an instruction: `name` is the word that ends it, without quotes.

    Attributes:
        word: the word of the instruction that begins it, such as `<<-"EOF"`.
        content: its lines, with a newline at the end of each.
        expands: whether variables in it are replaced, which quotes around its name prevent.
    """

    word: str
    name: str
    content: str
    expands: bool


@dataclass(frozen=True, slots=True)
class DockerInstruction:
    """One instruction: `RUN --network=none make` has the name RUN, one flag, and the arguments `make`.

    Attributes:
        line: the number of its first line, from 1.
        flags: names and values of its flags; a flag without a value has an empty one.
    """

    line: int
    name: str
    flags: tuple[tuple[str, str], ...]
    arguments: str
    heredocs: tuple[Heredoc, ...] = ()

    def error(self, reason: str) -> TaskError:
        """Return the error that names the line, the instruction and the reason."""
        text = f"{self.name} {self.arguments}".strip()
        return TaskError(f"its Dockerfile, line {self.line}, {text[:80]!r}: {reason}")

    def json_words(self) -> tuple[str, ...] | None:
        """Return the words of arguments in JSON form; None for another form. Raises: TaskError for other JSON."""
        if not self.arguments.startswith("["):
            return None
        try:
            words = json.loads(self.arguments)
        except (ValueError, RecursionError):
            return None  # a shell's own [, such as [ -f x ] || touch x
        if not all(isinstance(word, str) for word in words):
            raise self.error("its list must have texts only; put each word into double quotes")
        return tuple(words)


def split_instructions(text: str) -> tuple[list[DockerInstruction], str]:
    """Return the instructions of a Dockerfile, and its escape character.

    Raises: TaskError for an unknown instruction, flag or escape character, a heredoc without an end, or no instruction.
    """
    lines = text.removeprefix("\ufeff").split("\n")
    escape = _escape_character(lines)
    continued = re.compile(rf"(^|[^{re.escape(escape)}]){re.escape(escape)}[ \t]*$")
    numbered = iter(enumerate((line.rstrip("\r") for line in lines), start=1))
    instructions = []
    for number, first in numbered:
        line = first.lstrip()
        if not line or line.startswith("#"):
            continue
        pieces = [continued.sub(r"\1", line)]
        is_open = continued.search(line) is not None
        while is_open and (following := next(numbered, None)) is not None:
            if following[1].strip() and not following[1].lstrip().startswith("#"):
                pieces.append(continued.sub(r"\1", following[1]))
                is_open = continued.search(following[1]) is not None
        if joined := "".join(pieces).strip():
            instructions.append(_instruction(number, joined, escape, numbered))
            _check(instructions[-1])
    if not instructions:
        raise TaskError("its Dockerfile has no instructions; it must begin with FROM")
    return instructions, escape


def _escape_character(lines: list[str]) -> str:
    """Return the escape character, which a directive above the first other line may set."""
    for number, line in enumerate(lines, start=1):
        directive = DIRECTIVE.match(line.strip())
        if directive is None:
            break
        if directive[1].lower() == "escape":
            if directive[2] not in ("\\", "`"):
                raise TaskError(
                    f"its Dockerfile, line {number}: the escape character must be \\ or `, not {line!r:.80}"
                )
            return directive[2]
    return "\\"


def _instruction(number: int, text: str, escape: str, following: Iterator[tuple[int, str]]) -> DockerInstruction:
    name, *rest = re.split(r"\s+", text, maxsplit=1)
    flags, arguments = _flags(rest[0] if rest else "", escape)
    instruction = DockerInstruction(number, name.upper(), flags, arguments)
    if instruction.name not in WITH_HEREDOCS or "<<" not in arguments or instruction.json_words() is not None:
        return instruction
    heredocs = []
    for word in quoted_words(HEREDOC_SPACE.sub(r"\1\2", arguments)):
        if (match := HEREDOC.fullmatch(word)) is not None:
            heredocs.append(_heredoc(instruction, match, following))
    return DockerInstruction(number, instruction.name, flags, arguments, tuple(heredocs))


def _heredoc(instruction: DockerInstruction, match: re.Match[str], following: Iterator[tuple[int, str]]) -> Heredoc:
    """Read the lines of a heredoc. Raises: TaskError if none of them ends it."""
    quoted = re.sub(r"\\(.)", r"\1", match[3])
    name = re.sub(r"\\(.)|['\"]", lambda part: part[1] or "", match[3])
    content: list[str] = []
    for _, line in following:
        if (line.lstrip("\t") if match[2] else line) == name:
            text = "".join(f"{line}\n" for line in content)
            if match[2]:
                text = re.sub(r"(?m)^\t+", "", text)
            return Heredoc(match[0], name, text, expands=quoted == name)
        content.append(line)
    raise instruction.error(f"its heredoc does not end; add a line {name}")


def _flags(text: str, escape: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """Return the flags before the arguments, and the arguments."""
    flags: list[tuple[str, str]] = []
    while text.startswith("--"):
        word = next(iter(quoted_words(text, escape=escape)), text)
        text = text[len(word) :].lstrip()
        if word == "--":
            break
        plain = re.sub(rf"{re.escape(escape)}(.)|['\"]", lambda part: part[1] or "", word)
        name, _, value = plain[2:].partition("=")
        flags.append((name, value))
    return tuple(flags), text.strip()


def _check(instruction: DockerInstruction) -> None:
    if instruction.name == "ONBUILD":
        raise instruction.error("ONBUILD is for images that others build on; write the instruction itself")
    if instruction.name not in ("FROM", *IN_STAGES, *WITHOUT_EFFECT):
        raise instruction.error("there is no such instruction; check its spelling, and the \\ at the line above")
    known, seen = FLAGS.get(instruction.name, ()), set[str]()
    for name, _ in instruction.flags:
        if name not in known:
            raise instruction.error(
                f"--{name} is not known; {', '.join(f'--{flag}' for flag in known) or 'no flag'} is"
            )
        if name in seen and name not in SEVERAL:
            raise instruction.error(f"--{name} stands there twice; remove one")
        seen.add(name)
    if not instruction.arguments and instruction.name not in WITHOUT_EFFECT:
        raise instruction.error("its arguments are missing")
