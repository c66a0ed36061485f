"""The parameters of a web task, parsed and validated."""

from __future__ import annotations

import importlib.util
import inspect
import io
import json
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from agentgym import MissingExtraError, Task, TaskError, load

APPS = ("shop", "mail", "forum", "calendar", "form", "cards", "wizard")
MINIWOB = "AGENTGYM_MINIWOB"
_MAX_ARCHIVE = 64 * 2**20
_MAX_SIDE, _MAX_FILES = 4_096, 2**20
_FILE_NAME = re.compile(r"\w[\w .()-]{0,99}")


@dataclass(frozen=True, slots=True)
class WebParameters:
    """Task parameters of `agentgym/web-v1`.

    Attributes:
        site: a bundled application (`shop`, `mail`, `forum`, `calendar`, `form`, `cards` or `wizard`), `miniwob`, or
            `folder`.
        data: initial data of an application: a mapping, or the name of a JSON asset, which is given `seed`.
        page: for `miniwob` the name of the task; for `folder` the path of the first page.
        folder: the folder with the pages, for `folder` and (optional) `miniwob`.
        seed: for MiniWoB++ or the asset.
        viewport: width and height in pixels.
        files: text of the files that the agent may upload, by name.
    """

    site: str
    data: Mapping[str, Any] | None
    page: str
    folder: str
    seed: int
    viewport: tuple[int, int]
    files: Mapping[str, str]

    @classmethod
    def of(cls, task: Task) -> WebParameters:
        """The parameters of a task. Raises: TaskError naming the parameter and its value."""
        raw = task.parameters
        site, seed, page = raw.get("site"), raw.get("seed", 0), raw.get("page", "")
        if site not in (*APPS, "miniwob", "folder"):
            raise TaskError(f"{task.id}: parameters['site'] is {site!r}; give {', '.join(APPS)}, miniwob or folder.")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise TaskError(f"{task.id}: parameters['seed'] is {seed!r}; give a whole number.")
        if site in ("miniwob", "folder") and (not isinstance(page, str) or not page):
            raise TaskError(f"{task.id}: parameters['page'] is {page!r}; give the page that the episode begins with.")
        data = _app_data(task, raw.get("data"), seed) if site in APPS else None
        default = (500, 320) if site == "miniwob" else (800, 600)
        viewport = raw.get("viewport", default)
        if len(viewport) != 2 or not all(isinstance(side, int) and 50 <= side <= _MAX_SIDE for side in viewport):
            raise TaskError(f"{task.id}: parameters['viewport'] is {viewport!r}; give width and height in pixels.")
        files = raw.get("files", {})
        if (
            not isinstance(files, Mapping)
            or not all(isinstance(text, str) and _FILE_NAME.fullmatch(name) for name, text in files.items())
            or sum(map(len, files.values())) > _MAX_FILES
        ):
            raise TaskError(
                f"{task.id}: parameters['files'] is {str(files)[:60]!r}; give text by name, without folders, and "
                f"at most {_MAX_FILES >> 20} MiB."
            )
        return cls(site, data, page, str(raw.get("folder", "")), seed, (viewport[0], viewport[1]), files)

    def archive(self) -> bytes | None:
        """The pages as a zip; None for an application. Raises: TaskError, MissingExtraError."""
        if self.site in APPS:
            return None
        return archive_of(str(miniwob_folder(self.folder)) if self.site == "miniwob" else self.folder)

    def site_in(self, archive: str) -> dict[str, Any]:
        """The site as the guest expects it; `archive` is the path of the pages in the sandbox."""
        if self.site in APPS:
            return {"kind": "app", "name": self.site, "data": self.data}
        if self.site == "miniwob":
            return {"kind": "miniwob", "archive": archive, "name": self.page, "seed": self.seed}
        return {"kind": "folder", "archive": archive, "path": "/" + self.page.lstrip("/")}


def miniwob_folder(given: str | Path = "") -> Path:
    """The folder with MiniWoB++'s HTML: `given`, else $AGENTGYM_MINIWOB, else the installed package.

    Raises: TaskError for a folder that holds no such pages; MissingExtraError if none is given and none installed.
    """
    configured = str(given) or os.environ.get(MINIWOB, "")
    if not configured:
        spec = importlib.util.find_spec("miniwob")
        if spec is None or not spec.submodule_search_locations:
            raise MissingExtraError(
                "MiniWoB++ is not installed: pip install --no-deps miniwob (only its pages are read); or name a folder "
                f"with its HTML in ${MINIWOB}."
            )
        configured = str(Path(next(iter(spec.submodule_search_locations))) / "html")
    folder = Path(configured)
    for candidate in (folder, folder / "html", folder / "miniwob" / "html"):
        if (candidate / "core" / "core.js").is_file() and (candidate / "miniwob").is_dir():
            return candidate
    raise TaskError(f"{folder} does not hold MiniWoB++: its folder html has core/core.js and miniwob/*.html.")


@cache
def archive_of(folder: str) -> bytes:
    """A folder of pages as one zip, without the files that no MiniWoB++ task uses. Raises: TaskError."""
    root = Path(folder)
    if not root.is_dir():
        raise TaskError(f"The folder of pages {folder!r} does not exist.")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_file() and not name.startswith("flight/"):
                archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
            if packed.tell() > _MAX_ARCHIVE:
                raise TaskError(f"The folder of pages {folder!r} is larger than {_MAX_ARCHIVE >> 20} MiB.")
    return packed.getvalue()


def _app_data(task: Task, raw: Any, seed: int) -> Mapping[str, Any]:
    if isinstance(raw, Mapping):
        return raw
    if not isinstance(raw, str):
        raise TaskError(f"{task.id}: parameters['data'] is {raw!r}; give the application's data, or an asset.")
    factory = load("assets", raw)
    seeded = "seed" in inspect.signature(factory).parameters
    return _parse_json(factory(seed=seed) if seeded else factory(), raw)


def _parse_json(content: bytes, name: str) -> Mapping[str, Any]:
    data = json.loads(content)
    if not isinstance(data, dict):
        raise TaskError(f"The asset {name!r} is no JSON object.")
    return data
