"""The build backend: setuptools, with two changes to installs by `pip install -e`.

Python looks for a package on its path before it asks the finder of an editable install. Next to a clone in a folder
that is named `agentgym`, it takes that folder for a package without code, and `from agentgym import Call` fails. So
another finder is asked first, which answers where such a folder hides what is installed. A real package on the path
still comes first.

And what pyproject.toml lists under tool.agentgym.checkout is installed too: packages and entry points of the clone that
no wheel holds.
"""

from __future__ import annotations

import base64
import configparser
import hashlib
import io
import shutil
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - the hooks that stay as they are

APPENDED = "        sys.meta_path.append(_EditableFinder)\n"
FIRST = "        sys.meta_path.insert(0, _NotHidden)\n"
NOT_HIDDEN = '''

class _NotHidden:  # MetaPathFinder
    """A folder that is no package does not hide what is installed."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if "." in fullname or fullname not in MAPPING:
            return None
        spec = PathFinder.find_spec(fullname, path)
        is_namespace = spec is not None and spec.loader is None
        return _EditableFinder.find_spec(fullname) if is_namespace else None
'''


def build_editable(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """setuptools' wheel for an editable install, whose finder is not hidden by a folder of the package's name."""
    name: str = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    path, checkout = Path(wheel_directory, name), _checkout()
    with zipfile.ZipFile(path) as wheel:
        members = {info.filename: wheel.read(info) for info in wheel.infolist()}
    for member, raw in members.items():
        if member.endswith("_finder.py") and APPENDED.encode() in raw:
            text = raw.decode()
            packages = {package: str(Path(package).resolve()) for package in checkout.get("packages", ())}
            added = f"{NOT_HIDDEN}\n\nMAPPING.update({packages!r})\n"
            members[member] = (text.replace(APPENDED, APPENDED + FIRST) + added).encode()
            _record(members, member)
        elif member.endswith(".dist-info/entry_points.txt"):
            members[member] = _with_entry_points(raw.decode(), checkout.get("entry-points", {})).encode()
            _record(members, member)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for member, raw in members.items():
            wheel.writestr(member, raw)
    for folder in Path().glob("*.egg-info"):  # Python would read its entry points, which lack those of the checkout
        shutil.rmtree(folder)
    return name


def _checkout() -> dict[str, Any]:
    """Read the table tool.agentgym.checkout of pyproject.toml; empty if there is none."""
    tool: dict[str, Any] = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]
    table: dict[str, Any] = tool.get("agentgym", {}).get("checkout", {})
    return table


def _with_entry_points(text: str, groups: dict[str, dict[str, str]]) -> str:
    """Add entry points to the text of an entry_points.txt."""
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    parser.read_string(text)
    for group, points in groups.items():
        parser.read_dict({group: points})
    written = io.StringIO()
    parser.write(written)
    return written.getvalue()


def _record(members: dict[str, bytes], changed: str) -> None:
    """Write the hash and the size of a changed file into the wheel's RECORD."""
    (record,) = [member for member in members if member.endswith(".dist-info/RECORD")]
    digest = base64.urlsafe_b64encode(hashlib.sha256(members[changed]).digest()).rstrip(b"=").decode()
    lines = members[record].decode().splitlines()
    lines = [line for line in lines if not line.startswith(f"{changed},")]
    members[record] = "\n".join([*lines, f"{changed},sha256={digest},{len(members[changed])}", ""]).encode()
