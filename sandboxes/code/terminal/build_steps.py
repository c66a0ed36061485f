"""What builds an image: the steps of a Dockerfile, with its variables replaced, and the image's config."""

from __future__ import annotations

from dataclasses import dataclass

SHELL = ("/bin/sh", "-c")
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """What an image says about its commands.

    Attributes:
        environment: variables in the order in which they were set.
        workdir: the folder in which they start.
        user: name or number, with `:group` or without; empty for root.
        entrypoint, cmd: the image's own command; empty for none.
        shell: what runs commands that are texts.
    """

    environment: Pairs = ()
    workdir: str = "/"
    user: str = ""
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    shell: tuple[str, ...] = SHELL


@dataclass(frozen=True, slots=True)
class Run:
    """Run a command.

    Attributes:
        line, text: the line of the instruction, and the instruction itself.
        environment: all variables, those of the base image included.
        user: as in `ImageConfig`.
        stdin: the command's input.
        network: whether the instruction leaves it the network.
    """

    line: int
    text: str
    argv: tuple[str, ...]
    cwd: str
    environment: Pairs
    user: str = ""
    stdin: bytes = b""
    network: bool = True


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy files of the build context, of another stage or of another image.

    Attributes:
        sources: paths or patterns with *, ? and [..], relative to the context or to the root of the stage.
        target: an absolute path.
        into_folder: whether the target is a folder even if it does not exist yet. Otherwise a single file gets the name
            `target`, unless that is an existing folder.
        documents: the name and content of files that the Dockerfile itself holds.
        from_stage: the name of an earlier stage, or else of an image; empty for the context.
        mode: permissions of all that is copied; None to keep them.
        owner: `user:group` of all that is copied; empty for root.
        exclude: patterns of what is left out, relative to each source.
        with_parents: whether the folders above each source are copied too.
        unpacks: whether archives among the sources are unpacked.
    """

    line: int
    text: str
    sources: tuple[str, ...]
    target: str
    into_folder: bool
    documents: tuple[tuple[str, bytes], ...] = ()
    from_stage: str = ""
    mode: int | None = None
    owner: str = ""
    exclude: tuple[str, ...] = ()
    with_parents: bool = False
    unpacks: bool = False


@dataclass(frozen=True, slots=True)
class Download:
    """Download a file.

    Attributes:
        name: its name in the folder `target`.
        target, into_folder, owner: as in `Copy`.
        checksum: `sha256:` and its hash, or empty.
    """

    line: int
    text: str
    url: str
    name: str
    target: str
    into_folder: bool
    mode: int = 0o600
    owner: str = ""
    checksum: str = ""


@dataclass(frozen=True, slots=True)
class MakeFolder:
    """Make a folder, with those above it, unless it exists."""

    line: int
    text: str
    path: str


Step = Run | Copy | Download | MakeFolder
