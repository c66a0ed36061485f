"""bubblewrap with everything unshared: a sandbox is a directory, and each call is a separate bwrap that binds it."""

from __future__ import annotations

import subprocess
import sys

import plain_subprocess
import work

_ROOT = "--clearenv --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64"
_REST = "--proc /proc --dev /dev --tmpfs /tmp --unshare-all --die-with-parent --new-session --cap-drop ALL"


class Box(plain_subprocess.Box):
    """A directory, and programs that see only it and /usr of the host."""

    def command(self, argv: list[str]) -> list[str]:
        prefix = sys.base_prefix  # the Python that the other peers run too
        python = ["--ro-bind", prefix, prefix, "--setenv", "PATH", f"{prefix}/bin:/usr/bin:/bin"]
        here = ["--bind", str(self.path), "/work", "--chdir", "/work"]
        return ["bwrap", *_ROOT.split(), *python, *_REST.split(), *here, "--", *argv]


async def start() -> Box:
    return Box()


if __name__ == "__main__":
    completed = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=True)
    work.main(start, version=completed.stdout.split()[-1])
