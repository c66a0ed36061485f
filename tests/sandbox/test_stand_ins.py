"""Stand-ins for usual base images: for which names there is one, and how one is made."""

from __future__ import annotations

import os
import sys

import pytest

from agentgym.errors import SandboxUnavailable
from agentgym.sandbox.rootfs import is_stand_in, make_stand_in, names, stand_in_for

FAKE = """#!{python}
import sys, tarfile
target = next(word for word in sys.argv if word.endswith("image.tar"))
print("I: running", file=sys.stderr)
if {fails}:
    sys.exit("E: no mirror answers")
open({log!r}, "w").write(" ".join(sys.argv))
tarfile.open(target, "w").close()
"""


def mmdebstrap(folder, monkeypatch, *, fails=False):
    """Put a program of this name on the PATH, which writes an empty archive; returns the file with its arguments."""
    log = folder / "arguments"
    (folder / "mmdebstrap").write_text(FAKE.format(python=sys.executable, fails=fails, log=str(log)))
    (folder / "mmdebstrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return log


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("ubuntu:24.04", "debian"),
        ("debian:bookworm-slim@sha256:00", "debian"),
        ("docker.io/library/python:3.12-slim", "python"),
        ("python", "python"),
        ("node:20-bookworm", "node"),
        ("ghcr.io/laude-institute/t-bench/ubuntu-24-04:20250624", "t-bench-ubuntu"),
        ("ghcr.io/laude-institute/t-bench/python-3-13:20250620", "t-bench-python"),
        ("node:16-alpine", None),
        ("alpine:latest", None),
        ("evil.test/library/python:3", None),
        ("localhost:5000/ubuntu", None),
        ("ubuntu-evil", None),
        ("", None),
        ("../ubuntu", None),
    ],
)
def test_an_image_has_a_stand_in_by_its_name_whatever_its_version(image, name):
    stand_in = stand_in_for(image)
    assert (stand_in and stand_in.name) == (name and f"{name}-stand-in")


def test_it_is_made_once_from_packages_and_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    log = mmdebstrap(tmp_path, monkeypatch)
    lines: list[str] = []
    path = make_stand_in("python:3.9-slim", progress=lines.append)
    assert lines == ["I: running"]
    assert "python-is-python3" in log.read_text()
    assert "EXTERNALLY-MANAGED" in log.read_text()
    assert names() == [path.name.removesuffix(".tar")] == ["python-stand-in"]
    assert is_stand_in("python-stand-in")
    log.unlink()
    assert make_stand_in("python:3.13") == path
    assert not log.exists()
    make_stand_in("eclipse-temurin:17-jdk-jammy")
    assert "EXTERNALLY-MANAGED" in log.read_text(), "pip of Ubuntu 22.04 installs"


def test_what_cannot_be_made_is_said_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    with pytest.raises(SandboxUnavailable, match=r"'alpine:3'; .*by `docker save"):
        make_stand_in("alpine:3")
    mmdebstrap(tmp_path, monkeypatch, fails=True)
    with pytest.raises(SandboxUnavailable, match=r"ended with 1: E: no mirror answers. Check this host's apt sources"):
        make_stand_in("debian")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(SandboxUnavailable, match="apt-get install mmdebstrap"):
        make_stand_in("debian")
    assert names() == []
