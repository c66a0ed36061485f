"""Images that stand in for usual base images, made from packages of Debian or Ubuntu as this host installs them.

A Dockerfile's FROM names an image of a registry. Where that image is not at hand, one made by mmdebstrap has the same
programs, in the versions of this host's distribution; what was asked for and what is used is recorded with each task.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentgym.errors import SandboxUnavailable
from agentgym.sandbox.rootfs.package_indexes import apt_sources
from agentgym.sandbox.rootfs.store import cache_folder, names

_COMPONENTS = ("main", "contrib", "non-free", "non-free-firmware", "restricted", "universe", "multiverse")
_KEYRINGS = ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp", "ubuntu-archive-keyring.gpg")
_PARTS_OF_APT = "/etc/apt/trusted.gpg.d"
_ALWAYS = "apt ca-certificates python3"
"""What every image has; Python, because most tests need it."""
_SHELL = "curl git procps"
_PYTHON = "python3-pip python3-venv python3-dev python-is-python3 gcc libc6-dev"
_TERMINAL = "tmux asciinema curl git procps"


@dataclass(frozen=True, slots=True)
class StandIn:
    """An image that stands in for others.

    Attributes:
        name: its name in the cache.
        stands_for: matches the names of images without registry, tag and digest.
        packages: names separated by blanks.
    """

    name: str
    stands_for: str
    packages: str


STAND_INS = (
    StandIn("debian-stand-in", r"debian|ubuntu", ""),
    StandIn("python-stand-in", r"python", _PYTHON),
    StandIn("node-stand-in", r"node", "nodejs npm git"),
    StandIn("t-bench-ubuntu-stand-in", r"laude-institute/t-bench/ubuntu-[\d-]+", _TERMINAL),
    StandIn("t-bench-python-stand-in", r"laude-institute/t-bench/python-[\d-]+", f"{_PYTHON} {_TERMINAL}"),
    StandIn("gcc-stand-in", r"gcc|buildpack-deps", f"build-essential {_SHELL}"),
    StandIn("golang-stand-in", r"golang", f"golang gcc libc6-dev make {_SHELL}"),
    StandIn("rust-stand-in", r"rust", f"cargo rustc gcc libc6-dev {_SHELL}"),
    StandIn("java-stand-in", r"openjdk|eclipse-temurin|amazoncorretto", "default-jdk-headless"),
    StandIn("maven-stand-in", r"maven", "default-jdk-headless maven git"),
    StandIn("ruby-stand-in", r"ruby", f"ruby-full build-essential {_SHELL}"),
)
"""The images that can be made. One for another version, such as python:3.9, has this distribution's version."""
_OTHER_SYSTEM = re.compile(r"alpine|windowsservercore|nanoserver|distroless")


def stand_in_for(image: str) -> StandIn | None:
    """Return what stands in for an image that a FROM names; None for images of unknown or other systems."""
    name = image.partition("@")[0]
    path, _, tag = name.rpartition(":") if ":" in name.rpartition("/")[2] else (name, "", "")
    if _OTHER_SYSTEM.search(tag):
        return None
    first, _, rest = path.partition("/")
    if "." in first or ":" in first or first == "localhost":
        path = rest if first in ("docker.io", "index.docker.io", "ghcr.io", "public.ecr.aws") else path
    path = path.removeprefix("docker/").removeprefix("library/")
    return next((entry for entry in STAND_INS if re.fullmatch(entry.stands_for, path)), None)


def is_stand_in(name: str) -> bool:
    """Return whether an image of the cache has the name of a stand-in."""
    return any(entry.name == name for entry in STAND_INS)


def make_stand_in(image: str, *, progress: Callable[[str], None] = lambda line: None) -> Path:
    """Make the stand-in of an image and put it into the cache, unless it is there. Takes a minute. Returns: its file.

    Args:
        image: the name of an image as a FROM has it, such as `python:3.12-slim`, or the name of a stand-in.
        progress: is given a line now and then.
    Raises: SandboxUnavailable if nothing stands in for that image, or mmdebstrap is missing or fails.
    """
    stand_in = next((entry for entry in STAND_INS if entry.name == image), None) or stand_in_for(image)
    if stand_in is None:
        known = ", ".join(entry.stands_for.replace("|", ", ").replace(r"[\d-]+", "*") for entry in STAND_INS)
        raise SandboxUnavailable(
            f"Nothing stands in for the image {image!r}; there is something for {known}. Put the image itself into "
            f"{cache_folder() / 'images'}, for example by `docker save`."
        )
    target = cache_folder() / "images" / f"{stand_in.name}.tar"
    if stand_in.name in names():
        return target
    program = shutil.which("mmdebstrap")
    if program is None:
        raise SandboxUnavailable(
            f"{stand_in.name} is made by mmdebstrap, which is not installed. Install it (`apt-get install "
            "mmdebstrap`), or put an image of that name into the cache, for example by `docker save`."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".scratch-", dir=cache_folder()) as scratch:
        unfinished = Path(scratch) / "image.tar"
        _run([program, *_options(stand_in), *_suite_and_target(unfinished)], stand_in, progress)
        unfinished.chmod(0o644)
        unfinished.rename(target)
    return target


def _options(stand_in: StandIn) -> list[str]:
    packages = ",".join([*_ALWAYS.split(), *stand_in.packages.split()])
    options = ["--variant=apt", "--format=tar", f"--include={packages}"]
    keyrings = (_PARTS_OF_APT, *(f"/usr/share/keyrings/{name}" for name in _KEYRINGS))
    options += [f"--keyring={path}" for path in keyrings if Path(path).exists()]
    options.append('--customize-hook=rm -f "$1/etc/hostname" "$1/etc/resolv.conf"')
    # Many an image that it stands for is older than this marker, by which pip refuses to install anything.
    options.append('--customize-hook=rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED')
    return options


def _suite_and_target(target: Path) -> list[str]:
    """Return mmdebstrap's last arguments: this host's suite and its sources in the usual form, or the newest Debian."""
    try:
        suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        suite = ""
    suites = [suite, f"{suite}-updates", f"{suite}-security"]
    lines = [
        f"deb {source.uri} {source.suite} {source.component}"
        for source in apt_sources()
        if source.suite in suites
        and source.component in _COMPONENTS
        and re.search(r"/(debian|ubuntu)[\w-]*/?$", source.uri)
    ]
    return [suite, str(target), *lines] if lines else ["stable", str(target)]


def _run(command: list[str], stand_in: StandIn, progress: Callable[[str], None]) -> None:
    lines: list[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            lines = [*lines[-20:], line.strip()]
            progress(line.strip())
    if code := process.returncode:
        output = "; ".join(line for line in lines if line.startswith("E:")) or "; ".join(lines[-3:])
        raise SandboxUnavailable(
            f"{stand_in.name} cannot be made: mmdebstrap ended with {code}: {output[-600:]}. Check this host's apt "
            "sources (`apt-get update`) and that it may make file systems: as root, or with entries for this user in "
            "/etc/subuid and /etc/subgid."
        )
