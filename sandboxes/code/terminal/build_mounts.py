"""The mounts of a RUN, as steps around it: a cache is a folder, and what is bound is copied and removed again.

A secret and an SSH agent are left out, as `docker build` leaves out those that it is not given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .build_steps import Copy, MakeFolder, Run, Step
from .dockerfile_lines import DockerInstruction

ASIDE = ".before-mount"
PUT_ASIDE = 'if [ -e "$0" ]; then mv "$0" "$0' + ASIDE + '"; fi'
PUT_BACK = 'rm -rf "$0"; if [ -e "$0' + ASIDE + '" ]; then mv "$0' + ASIDE + '" "$0"; fi'


@dataclass(frozen=True, slots=True)
class Mount:
    """One `--mount` of a RUN.

    Attributes:
        kind: `bind`, `cache`, `tmpfs`, `secret` or `ssh`.
        target: where it is, as written.
        source: what is bound, relative to the context or stage.
        origin: the name or number of a stage, or the name of an image; empty for the context.
    """

    kind: str
    target: str
    source: str
    origin: str

    @classmethod
    def read(cls, instruction: DockerInstruction, text: str) -> Mount:
        """Read a mount. Raises: TaskError for one that cannot be had."""
        options = {name.strip().lower(): value for name, _, value in (part.partition("=") for part in text.split(","))}
        kind = options.get("type", "bind")
        target = options.get("target") or options.get("dst") or options.get("destination") or ""
        if kind not in ("bind", "cache", "tmpfs", "secret", "ssh"):
            raise instruction.error(f"--mount={text} has an unknown type; bind, cache, tmpfs, secret and ssh are known")
        if kind in ("secret", "ssh") and options.get("required", "false") in ("", "true", "1"):
            raise instruction.error(f"a build has no {kind}; remove required=true, or the mount")
        if kind in ("bind", "cache", "tmpfs") and not target:
            raise instruction.error(f"--mount={text} lacks target=")
        return cls(kind, target, options.get("source") or options.get("src") or "/", options.get("from", ""))

    def steps(self, run: Run, target: str, name_of: Callable[[str], str]) -> tuple[list[Step], list[Step]]:
        """Return the steps before and after a command.

        Args:
            target: the absolute path of the mount.
            name_of: returns the name of the stage or image that an origin means.
        """
        if self.kind in ("cache", "tmpfs"):
            return [MakeFolder(run.line, run.text, target)], []
        if self.kind != "bind":
            return [], []
        before, after = (
            Run(run.line, run.text, ("/bin/sh", "-c", command, target), "/", run.environment, network=False)
            for command in (PUT_ASIDE, PUT_BACK)
        )
        copy = Copy(run.line, run.text, (self.source,), target, False, from_stage=name_of(self.origin))
        return [before, copy], [after]
