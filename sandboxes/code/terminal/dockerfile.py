"""Reads Dockerfiles: `parse_dockerfile` returns the stages, and `BuildStage.steps` what builds one of them.

Source: docs.docker.com/reference/dockerfile. What BuildKit and the older builder do differently, BuildKit decides.
"""

from __future__ import annotations

import platform
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from agentgym import TaskError

from .build_mounts import Mount
from .build_steps import Copy, Download, ImageConfig, MakeFolder, Run, Step
from .dockerfile_lines import HEREDOC_SPACE, DockerInstruction, Heredoc, split_instructions
from .shell_words import expanded, quoted_words

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
SCRIPT = 'cat > "$0" && chmod 700 "$0" && "$0" < /dev/null; status=$?; rm -f "$0"; exit $status'
"""Writes what comes on stdin to the file $0, and runs it."""
MODE = re.compile(r"[0-7]{3,4}")


@dataclass(frozen=True, slots=True)
class BuildStage:
    """One FROM and what follows it.

    Attributes:
        name: its name, in small letters; its number from 0 if it has none.
        base: the name of an image, `scratch`, or the name of an earlier stage.
        from_stage: whether `base` is an earlier stage.
        instructions: those below FROM.
        earlier: the names of the stages above it.
        escape: the Dockerfile's escape character.
        arguments: the ARGs above the first FROM.
        given: values for ARGs from outside.
    """

    name: str
    base: str
    from_stage: bool
    instructions: tuple[DockerInstruction, ...]
    earlier: tuple[str, ...]
    escape: str
    arguments: Mapping[str, str]
    given: Mapping[str, str]

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the earlier stages, and images, whose files it copies or binds."""
        names: list[str] = []
        for instruction in self.instructions:
            expand = _expander(instruction, self.arguments, self.escape)
            origins = [expand(value) for name, value in instruction.flags if name == "from"]
            if instruction.name == "RUN":
                mounts = (expand(value) for name, value in instruction.flags if name == "mount")
                origins = [mount.origin for text in mounts if (mount := Mount.read(instruction, text)).kind == "bind"]
            names += [self.source_of(instruction, origin) for origin in origins]
        return tuple(dict.fromkeys(filter(None, names)))

    def source_of(self, instruction: DockerInstruction, origin: str) -> str:
        """Return the name of the stage or image that an instruction takes files from; empty for the context.

        Args: `origin`, the name or number of a stage, or the name of an image.
        Raises: TaskError for a number of a stage that is not above this one.
        """
        if origin.isascii() and origin.isdigit():
            if int(origin[:6]) >= len(self.earlier):
                raise instruction.error(f"there is no stage {origin} above it; the first stage is 0")
            return self.earlier[int(origin)]
        return origin.lower() if origin.lower() in self.earlier else origin

    def steps(self, base: ImageConfig) -> tuple[tuple[Step, ...], ImageConfig]:
        """Return the steps that make this stage of its base, and what its image says. `base`: what the base says.

        Raises: TaskError naming the line of an instruction whose words cannot be read.
        """
        evaluation = _Evaluation(self, base)
        for instruction in self.instructions:
            evaluation.add(instruction)
        return tuple(evaluation.steps), evaluation.config


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """The stages of a Dockerfile up to the one that is the image, its text, and values for its ARGs from outside."""

    stages: tuple[BuildStage, ...]
    text: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> BuildStage:
        return self.stages[-1]

    def needed(self) -> tuple[BuildStage, ...]:
        """Return the stages that must be built for the target, in their order; the target is the last."""
        names = {self.target.name}
        for stage in reversed(self.stages):
            if stage.name in names:
                names |= {stage.base, *stage.needs} if stage.from_stage else {*stage.needs}
        return tuple(stage for stage in self.stages if stage.name in names)


def parse_dockerfile(text: str, *, arguments: Mapping[str, str] | None = None, target: str = "") -> Dockerfile:
    """Read a Dockerfile.

    Args:
        arguments: values for its ARGs, as `docker build --build-arg` gives them.
        target: the stage that is the image, as `docker build --target` names it; empty for the last.

    Raises: TaskError naming the line, the instruction, and what to do about it.
    """
    given = dict(arguments or {})
    instructions, escape = split_instructions(text)
    variables = _platform_arguments()
    parts: list[list[DockerInstruction]] = []
    for instruction in instructions:
        if instruction.name == "FROM":
            parts.append([instruction])
        elif parts:
            parts[-1].append(instruction)
        elif instruction.name == "ARG":
            for name, value in _arguments(instruction, variables, escape):
                if name in given or value is not None:
                    variables[name] = given.get(name, value or "")
        else:
            raise instruction.error("only ARG may stand above the first FROM; move it below")
    if not parts:
        raise TaskError("its Dockerfile has no FROM; it must begin with one")
    stages: list[BuildStage] = []
    for first, *rest in parts:
        stages.append(_stage(first, rest, stages, variables, given, escape))
        stages[-1].steps(ImageConfig())  # raises what is wrong with its instructions
    names = [stage.name for stage in stages]
    if target and target.lower() not in names:
        raise TaskError(f"its Dockerfile has no stage {target!r}; it has {', '.join(names)}")
    return Dockerfile(tuple(stages[: names.index(target.lower()) + 1] if target else stages), text, given)


def _stage(
    first: DockerInstruction,
    rest: Sequence[DockerInstruction],
    earlier: Sequence[BuildStage],
    variables: Mapping[str, str],
    given: Mapping[str, str],
    escape: str,
) -> BuildStage:
    words = first.arguments.split()
    if len(words) not in (1, 3) or (len(words) == 3 and words[1].upper() != "AS"):
        raise first.error("it must be FROM image, or FROM image AS name")
    expand = _expander(first, variables, escape)
    base, names = expand(words[0]), tuple(stage.name for stage in earlier)
    if not base:
        raise first.error("its image is empty; give the ARG in it a default above")
    name = words[2].lower() if len(words) == 3 else str(len(earlier))
    if len(words) == 3 and not re.fullmatch(r"[a-z][a-z0-9_.-]*", name):
        raise first.error("the name of a stage must be a letter and then letters, digits, - _ or .")
    if name in names:
        raise first.error(f"there is a stage {name!r} already; give this one another name")
    system = expand(dict(first.flags).get("platform", ""))
    if system and not system.startswith("linux"):
        raise first.error(f"the platform {system!r} cannot be run; only linux can")
    from_stage = base.lower() in names
    return BuildStage(
        name, base.lower() if from_stage else base, from_stage, tuple(rest), names, escape, variables, given
    )


def _platform_arguments() -> dict[str, str]:
    """Return the variables that say for which system an image is built."""
    architecture = ARCHITECTURES.get(platform.machine(), platform.machine())
    parts = {"OS": "linux", "ARCH": architecture, "PLATFORM": f"linux/{architecture}", "VARIANT": ""}
    return {f"{side}{name}": value for side in ("BUILD", "TARGET") for name, value in parts.items()}


def _expander(
    instruction: DockerInstruction, variables: Mapping[str, str], escape: str, *, quotes: bool = True
) -> Callable[[str], str]:
    def expand(word: str) -> str:
        try:
            return expanded(word, variables, escape=escape, quotes=quotes)
        except ValueError as error:
            raise instruction.error(f"{error}") from error

    return expand


def _arguments(
    instruction: DockerInstruction, variables: Mapping[str, str], escape: str
) -> Iterator[tuple[str, str | None]]:
    """Yield names and expanded defaults of an ARG; None for an ARG without a default."""
    for word in quoted_words(instruction.arguments, escape=escape):
        name, equals, default = word.partition("=")
        expand = _expander(instruction, variables, escape)
        if not (name := expand(name)):
            raise instruction.error("an ARG needs a name")
        yield name, expand(default) if equals else None


class _Evaluation:
    """Carries variables, folder, user and shell from instruction to instruction, and collects the steps."""

    def __init__(self, stage: BuildStage, base: ImageConfig) -> None:
        self.steps: list[Step] = []
        self.config = base
        self._stage = stage
        self._has_cmd = False
        self._variables = dict(base.environment)  # ENV and ARG, in the order in which they were set

    def add(self, instruction: DockerInstruction) -> None:
        method = getattr(self, f"_{instruction.name.lower()}", None)
        if method is not None:
            method(instruction)

    def _env(self, instruction: DockerInstruction) -> None:
        expand = self._expander(instruction)
        words = quoted_words(instruction.arguments, escape=self._stage.escape)
        if words and "=" not in words[0]:
            name, *rest = re.split(r"\s+", instruction.arguments, maxsplit=1)
            if not rest:
                raise instruction.error("it must be ENV NAME=value")
            pairs = [(name, rest[0])]
        else:
            if wrong := [word for word in words if "=" not in word]:
                raise instruction.error(f"{wrong[0]!r} lacks a =; put values with spaces into quotes")
            pairs = [(word.partition("=")[0], word.partition("=")[2]) for word in words]
        values = {expand(name): expand(value) for name, value in pairs}
        if "" in values:
            raise instruction.error("a variable has no name")
        self._variables |= values
        environment = {**dict(self.config.environment), **values}
        self.config = replace(self.config, environment=tuple(environment.items()))

    def _arg(self, instruction: DockerInstruction) -> None:
        for name, default in _arguments(instruction, self._variables, self._stage.escape):
            value = self._stage.given.get(name, self._stage.arguments.get(name) if default is None else default)
            if value is not None:
                self._variables[name] = value

    def _workdir(self, instruction: DockerInstruction) -> None:
        path = self._absolute(self._expander(instruction)(instruction.arguments))
        self.config = replace(self.config, workdir=path)
        self.steps.append(MakeFolder(*_position(instruction), path))

    def _user(self, instruction: DockerInstruction) -> None:
        self.config = replace(self.config, user=self._expander(instruction)(instruction.arguments))

    def _volume(self, instruction: DockerInstruction) -> None:
        expand = self._expander(instruction)
        for word in instruction.json_words() or instruction.arguments.split():
            self.steps.append(MakeFolder(*_position(instruction), self._absolute(expand(word))))

    def _shell(self, instruction: DockerInstruction) -> None:
        words = instruction.json_words()
        if not words:
            raise instruction.error('it must be a list such as SHELL ["/bin/bash", "-c"]')
        self.config = replace(self.config, shell=words)

    def _cmd(self, instruction: DockerInstruction) -> None:
        self.config = replace(self.config, cmd=self._command(instruction))
        self._has_cmd = True

    def _entrypoint(self, instruction: DockerInstruction) -> None:
        cmd = self.config.cmd if self._has_cmd else ()  # that of the base is for the base's entrypoint
        self.config = replace(self.config, entrypoint=self._command(instruction), cmd=cmd)

    def _command(self, instruction: DockerInstruction) -> tuple[str, ...]:
        words = instruction.json_words()
        return (*self.config.shell, instruction.arguments) if words is None else words

    def _run(self, instruction: DockerInstruction) -> None:
        network = dict(instruction.flags).get("network", "default")
        if network not in ("default", "none"):
            raise instruction.error(f"--network={network} is not allowed; remove it")
        if dict(instruction.flags).get("security", "sandbox") != "sandbox":
            raise instruction.error("a build has no rights of the host's root; remove --security")
        stdin, words, heredocs = b"", instruction.json_words(), instruction.heredocs
        script = heredocs[0].content if heredocs else ""
        if (
            words is None
            and len(heredocs) == 1
            and HEREDOC_SPACE.sub(r"\1\2", instruction.arguments) == heredocs[0].word
        ):
            if script.startswith("#!"):
                words, stdin = ("/bin/sh", "-c", SCRIPT, f"/tmp/.heredoc-{instruction.line}"), script.encode()
            else:
                words = (*self.config.shell, script)
        elif words is None:
            bodies = "".join(f"\n{heredoc.content}{heredoc.name}" for heredoc in heredocs)
            words = (*self.config.shell, instruction.arguments + bodies)
        if not words:
            raise instruction.error("its command is empty")
        run = Run(
            *_position(instruction),
            words,
            self.config.workdir,
            tuple(self._variables.items()),
            self.config.user,
            stdin,
            network == "default",
        )
        expand, last = self._expander(instruction), list[Step]()
        for mount in [Mount.read(instruction, expand(value)) for name, value in instruction.flags if name == "mount"]:
            before, after = mount.steps(
                run, self._absolute(mount.target), lambda origin: self._stage.source_of(instruction, origin)
            )
            self.steps += before
            last += after
        self.steps += [run, *last]

    def _copy(self, instruction: DockerInstruction) -> None:
        self._add(instruction)

    def _add(self, instruction: DockerInstruction) -> None:
        expand, flags = self._expander(instruction), dict(instruction.flags)
        words = instruction.json_words()
        if words is None:
            words = tuple(HEREDOC_SPACE.sub(r"\1\2", instruction.arguments).split())
        if len(words) < 2:
            raise instruction.error("it must name the files and, as its last word, where to copy them")
        heredocs = {heredoc.word: heredoc for heredoc in instruction.heredocs}
        sources = [expand(word) for word in words[:-1] if word not in heredocs]
        urls = [source for source in sources if instruction.name == "ADD" and re.match("https?://", source)]
        if git := [source for source in sources if re.match("git@|(git|ssh)://", source)]:
            raise instruction.error(f"{git[0]} is a git repository; use RUN git clone, or COPY the files")
        target = expand(words[-1])
        copy = Copy(
            *_position(instruction),
            sources=tuple(source for source in sources if source not in urls),
            target=self._absolute(target),
            into_folder=posixpath.basename(target) in ("", ".", "..") or len(words) > 2,
            documents=tuple(self._document(instruction, heredocs[word]) for word in words[:-1] if word in heredocs),
            from_stage=self._stage.source_of(instruction, expand(flags.get("from", ""))),
            mode=_mode(instruction, expand(flags.get("chmod", ""))),
            owner=expand(flags.get("chown", "")),
            exclude=tuple(expand(value) for name, value in instruction.flags if name == "exclude"),
            with_parents=_is_set(instruction, "parents"),
            unpacks=_is_set(instruction, "unpack", default=instruction.name == "ADD"),
        )
        if copy.sources or copy.documents:
            self.steps.append(copy)
        self.steps += [self._download(instruction, url, copy) for url in urls]

    def _download(self, instruction: DockerInstruction, url: str, copy: Copy) -> Download:
        name = posixpath.basename(urlsplit(url).path)
        if url.endswith(".git") or "#" in url:
            raise instruction.error(f"{url} is a git repository; use RUN git clone, or COPY the files")
        if _is_set(instruction, "unpack"):
            raise instruction.error("--unpack of a download is not supported; use RUN curl and tar")
        if copy.into_folder and not name:
            raise instruction.error(f"{url} ends without a file's name; write the whole path to copy to")
        mode = 0o600 if copy.mode is None else copy.mode
        checksum = self._expander(instruction)(dict(instruction.flags).get("checksum", ""))
        return Download(*_position(instruction), url, name, copy.target, copy.into_folder, mode, copy.owner, checksum)

    def _document(self, instruction: DockerInstruction, heredoc: Heredoc) -> tuple[str, bytes]:
        content = heredoc.content
        if heredoc.expands:
            content = _expander(instruction, self._variables, "\\", quotes=False)(content)
        return heredoc.name, content.encode()

    def _expander(self, instruction: DockerInstruction) -> Callable[[str], str]:
        return _expander(instruction, self._variables, self._stage.escape)

    def _absolute(self, path: str) -> str:
        joined = posixpath.normpath(posixpath.join(self.config.workdir, path))
        return "/" + joined.lstrip("/")


def _position(instruction: DockerInstruction) -> tuple[int, str]:
    return instruction.line, f"{instruction.name} {instruction.arguments}"


def _mode(instruction: DockerInstruction, text: str) -> int | None:
    if text and not MODE.fullmatch(text):
        raise instruction.error(f"--chmod={text} must be three or four digits from 0 to 7, such as 755")
    return int(text, 8) if text else None


def _is_set(instruction: DockerInstruction, name: str, *, default: bool = False) -> bool:
    value = dict(instruction.flags).get(name, str(default)).lower()
    if value not in ("", "true", "false"):
        raise instruction.error(f"--{name}={value} must be true or false")
    return value != "false"
