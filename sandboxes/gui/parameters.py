"""The parameters of a web task, parsed and validated."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import io
import json
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentgym import MissingExtraError, Task, TaskError, UnknownNameError, load

from .folders import folder_archive
from .packages import packages_archive

APPS = ("shop", "mail", "forum", "calendar", "form", "cards", "wizard")
MINIWOB = "AGENTGYM_MINIWOB"
_MAX_SIDE, _MAX_FILES, _MAX_START_S = 4_096, 2**20, 120
_FILE_NAME = re.compile(r"\w[\w .()-]{0,99}")
_HOSTS = {"folder": "pages.test", "server": "app.test"}
_WITH_HOST = re.compile(r"(\w+:)?//")
_SERVER_ONLY = {"command", "setup", "packages", "start_s"}
_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
# a name whose last label is digits would be an address
_HOST = re.compile(rf"(?=.{{1,253}}$)(?:{_LABEL}\.)*(?!\d+$){_LABEL}")


@dataclass(frozen=True, slots=True)
class WebParameters:
    """Task parameters of `agentgym/web-v1`.

    Attributes:
        site: a bundled application (`shop`, `mail`, `forum`, `calendar`, `form`, `cards` or `wizard`), `miniwob`,
            `folder`, or `server`, an application of your own.
        data: initial data of an application: a mapping, or the name of a JSON asset, which is given `seed`. For
            `server` it is optional, and written to its folder as `data.json`.
        page: for `miniwob` the task's name; for `folder` and `server` the path of the first page.
        folder: the folder with the pages or the application, for `folder`, `server` and (optional) `miniwob`; for the
            first two also the name of an asset that is a zip of such a folder.
        seed: the seed of MiniWoB++ or of the asset.
        command: for `server` the command that starts it in its folder; it must listen on `{port}`, also in $PORT.
        setup: for `server` a command that is run once in the folder, before any episode begins with a copy of it.
        state: for `server` a command that prints the state as a JSON object; the effects are the entries that changed.
            For `folder` a script that returns the effects as an object; it runs in the last page.
        packages: for `server` the installed Python packages that it needs.
        start_s: for `server` how long it may take to start, in seconds.
        host: for `folder` and `server` the host name of the pages. Browsers treat names below `.localhost` as secure.
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
    command: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    state: str | tuple[str, ...] = ""
    packages: tuple[str, ...] = ()
    start_s: float = 60.0
    host: str = ""

    @classmethod
    def of(cls, task: Task) -> WebParameters:
        """Return the parameters of a task. Raises: TaskError naming the parameter and its value."""
        raw = task.parameters
        site, seed, page = raw.get("site"), raw.get("seed", 0), raw.get("page", "")
        if site not in (*APPS, "miniwob", "folder", "server"):
            raise TaskError(
                f"{task.id}: parameters['site'] is {site!r}. Give {', '.join(APPS)}, miniwob, folder or server."
            )
        # task sets write the number of a form's steps into `horizon`
        if unknown := sorted(raw.keys() - {*cls.__slots__, "horizon"}):
            raise TaskError(f"{task.id}: unknown parameters {unknown}. Known: {', '.join(cls.__slots__)}.")
        if site != "server" and (misplaced := sorted(raw.keys() & _SERVER_ONLY)):
            raise TaskError(
                f"{task.id}: parameters {misplaced} apply only to the site 'server', not to {site!r}. Leave them out."
            )
        if site in _HOSTS and not (isinstance(raw.get("folder"), str) and raw["folder"]):
            raise TaskError(
                f"{task.id}: parameters['folder'] is {raw.get('folder')!r:.80}. Give the folder of the "
                f"{'application' if site == 'server' else 'pages'}, or an asset."
            )
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise TaskError(f"{task.id}: parameters['seed'] must be a whole number, not {seed!r}.")
        if not isinstance(page, str) or _WITH_HOST.match(page) or (not page and site in ("miniwob", "folder")):
            raise TaskError(
                f"{task.id}: parameters['page'] is {page!r:.80}. Give the address of the first page, without its host."
            )
        needs_data = site in APPS or (site == "server" and raw.get("data") is not None)
        data = _app_data(task, raw.get("data"), seed) if needs_data else None
        default = (500, 320) if site == "miniwob" else (800, 600)
        viewport = raw.get("viewport", default)
        if len(viewport) != 2 or not all(isinstance(side, int) and 50 <= side <= _MAX_SIDE for side in viewport):
            raise TaskError(f"{task.id}: parameters['viewport'] must be width and height in pixels, not {viewport!r}.")
        files = raw.get("files", {})
        if (
            not isinstance(files, Mapping)
            or not all(isinstance(text, str) and _FILE_NAME.fullmatch(name) for name, text in files.items())
            or sum(map(len, files.values())) > _MAX_FILES
        ):
            raise TaskError(
                f"{task.id}: parameters['files'] must map file names (without folders) to their contents (texts), at "
                f"most {_MAX_FILES >> 20} MiB in total, not {str(files)[:60]!r}."
            )
        own = _own_app(task) if site == "server" else {}
        if site == "folder":
            own = {"state": raw.get("state", "")}
            if not isinstance(own["state"], str):
                raise TaskError(
                    f"{task.id}: parameters['state'] must be the text of a JavaScript, not {own['state']!r:.80}."
                )
        if site in _HOSTS:
            own["host"] = host = raw.get("host", _HOSTS[site])
            if not isinstance(host, str) or not _HOST.fullmatch(host):
                raise TaskError(
                    f"{task.id}: parameters['host'] is {host!r:.80}. Give a host name in small letters, without a port."
                )
        return cls(site, data, page, str(raw.get("folder", "")), seed, (viewport[0], viewport[1]), files, **own)

    def archives(self) -> tuple[bytes, ...]:
        """Return the pages, or the application and its packages, as zips; empty for a bundled application.

        Raises: TaskError, also for a first page that is not in the folder; MissingExtraError.
        """
        if self.site in APPS:
            return ()
        if self.site == "miniwob":
            pages = folder_archive(str(miniwob_folder(self.folder)), left_out="flight/")  # no task uses these files
        else:
            pages = _asset_or_folder(self.folder, links=self.site == "server")
        if self.site == "server":
            return (pages, packages_archive(self.packages)) if self.packages else (pages,)
        if self.site == "folder":
            name = urlsplit(self.page).path.strip("/")
            files = zipfile.ZipFile(io.BytesIO(pages)).namelist()
            if not {name, f"{name}/index.html".lstrip("/"), f"{name}.html"} & set(files):
                raise TaskError(
                    f"The folder of pages {self.folder!r} has no page {self.page!r}. Give the path of the first page."
                )
        return (pages,)

    def site_in(self, archives: Sequence[str]) -> dict[str, Any]:
        """Return the site in the guest's format; `archives` are the paths of the archives in the sandbox."""
        if self.site in APPS:
            return {"kind": "app", "name": self.site, "data": self.data}
        if self.site == "miniwob":
            return {"kind": "miniwob", "archives": archives, "name": self.page, "seed": self.seed}
        path = "/" + self.page.lstrip("/")
        described: dict[str, Any] = {"kind": self.site, "archives": archives, "host": self.host, "path": path}
        described["state"] = self.state
        if self.site == "folder":
            return described
        described |= {"command": self.command, "setup": self.setup, "start_s": self.start_s, "data": self.data}
        prepared = [archives, self.setup, self.state, self.data]
        key = hashlib.sha256(json.dumps(prepared, sort_keys=True).encode()).hexdigest()[:16]
        return {**described, "key": key, "packages_key": archives[-1].rpartition("/")[2].removesuffix(".zip")}


def miniwob_folder(given: str | Path = "") -> Path:
    """Return the folder with MiniWoB++'s HTML: `given`, else $AGENTGYM_MINIWOB, else the installed package.

    Raises: TaskError for a folder without such pages; MissingExtraError if no folder is given and no package installed.
    """
    configured = str(given) or os.environ.get(MINIWOB, "")
    if not configured:
        spec = importlib.util.find_spec("miniwob")
        if spec is None or not spec.submodule_search_locations:
            raise MissingExtraError(
                "MiniWoB++ is not installed. Run pip install --no-deps miniwob (only its pages are used), or name a "
                f"folder with its HTML in ${MINIWOB}."
            )
        configured = str(Path(next(iter(spec.submodule_search_locations))) / "html")
    folder = Path(configured)
    for candidate in (folder, folder / "html", folder / "miniwob" / "html"):
        if (candidate / "core" / "core.js").is_file() and (candidate / "miniwob").is_dir():
            return candidate
    raise TaskError(
        f"{folder} does not contain MiniWoB++: its folder html should have core/core.js and miniwob/*.html."
    )


def _asset_or_folder(name: str, links: bool) -> bytes:
    """Return the content of an asset, or the archive of a folder, of this name. Raises: TaskError if neither exists."""
    try:
        factory = load("assets", name)
    except UnknownNameError:
        return folder_archive(name, links=links)
    pages: bytes = factory()
    return pages


def _own_app(task: Task) -> dict[str, Any]:
    """Return the parameters of the task's own application. Raises: TaskError."""
    raw, own = task.parameters, dict[str, Any]()
    for name in ("command", "setup", "state", "packages"):
        value = raw.get(name, ())
        if not isinstance(value, (list, tuple)) or not all(isinstance(part, str) for part in value):
            raise TaskError(f"{task.id}: parameters[{name!r}] must be a list of texts, not {value!r:.80}.")
        own[name] = tuple(value)
    if not own["command"]:
        raise TaskError(f"{task.id}: parameters['command'] is missing. Give the command that starts the application.")
    own["start_s"] = raw.get("start_s", 60.0)
    if type(own["start_s"]) not in (int, float) or not 0 < own["start_s"] <= _MAX_START_S:
        raise TaskError(
            f"{task.id}: parameters['start_s'] must be seconds, above 0 and at most {_MAX_START_S}, not "
            f"{own['start_s']!r}."
        )
    return own


def _app_data(task: Task, raw: Any, seed: int) -> Mapping[str, Any]:
    if isinstance(raw, Mapping):
        try:
            json.dumps(raw, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise TaskError(f"{task.id}: parameters['data'] has a value that JSON does not have: {error}.") from error
        return raw
    if not isinstance(raw, str):
        raise TaskError(f"{task.id}: parameters['data'] must be a mapping or the name of an asset, not {raw!r:.80}.")
    factory = load("assets", raw)
    seeded = "seed" in inspect.signature(factory).parameters
    return _parse_json(factory(seed=seed) if seeded else factory(), raw)


def _parse_json(content: bytes, name: str) -> Mapping[str, Any]:
    data = json.loads(content)
    if not isinstance(data, dict):
        raise TaskError(f"The asset {name!r} is not a JSON object.")
    return data
