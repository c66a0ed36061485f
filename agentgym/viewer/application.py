"""The requests of the page: the runs, one run, its episodes, one episode, its tokens, images and notes."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Body, FastAPI, Header, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from agentgym.errors import AgentGymError
from agentgym.evaluation.report import page, policy
from agentgym.evaluation.report.assets import MEDIA_TYPES, served
from agentgym.messages import ImagePart
from agentgym.storage.notes import read_notes, why_not_writable, write_note
from agentgym.viewer.opened_run import OpenedRun
from agentgym.viewer.shelf import find_runs

READ_S = 0.3
"""For how long an answer with all runs reads the files of runs that were not read before."""


class Viewer:
    """The runs under some paths. Each listing searches again, so new runs appear."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)
        self._opened: dict[Path, OpenedRun] = {}
        self._keys: dict[str, Path] = {}

    def runs(self) -> list[OpenedRun]:
        """Return every run that exists now."""
        self._keys = find_runs(self._paths)
        return [self._open(key, path) for key, path in self._keys.items()]

    def summaries(self) -> list[dict[str, Any]]:
        """Return the entry of every run, newest first. Runs that take too long to read are read by later calls."""
        pulses = sorted(((run, run.pulse()) for run in self.runs()), key=lambda pair: -pair[1]["updated"])
        deadline = time.monotonic() + READ_S  # begins here, so that each answer reads some on a slow disk too
        return [_summary(run, pulse, deadline) for run, pulse in pulses]

    def run(self, key: str) -> OpenedRun:
        """Return a run by its key. The key is looked up, never used as a path. Raises: LookupError."""
        if key not in self._keys:
            self._keys = find_runs(self._paths)
        if key not in self._keys:
            raise LookupError(key)
        return self._open(key, self._keys[key])

    def close(self) -> None:
        """Close every ledger."""
        for run in self._opened.values():
            run.close()

    def _open(self, key: str, path: Path) -> OpenedRun:
        run = self._opened.setdefault(path, OpenedRun(path, key))
        run.key = key
        return run


def application(paths: Sequence[Path], token: str | None = None) -> FastAPI:
    """Return the application without its guard: see agentgym.viewer.serving. Only requests with `token` write notes."""
    viewer = Viewer(paths)

    @asynccontextmanager
    async def alive(_: FastAPI) -> AsyncIterator[None]:
        yield
        viewer.close()

    app = FastAPI(title="agentgym view", openapi_url=None, docs_url=None, redoc_url=None, lifespan=alive)

    @app.exception_handler(AgentGymError)
    async def error_answer(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status_code=404)

    def opened(key: str) -> OpenedRun:
        try:
            return viewer.run(key)
        except LookupError:
            raise HTTPException(404, f"There is no longer a run {key!r}.") from None

    @app.get("/")
    def index() -> Response:
        return HTMLResponse(served()["index.html"])

    @app.get("/page/{name}")
    def asset(name: str) -> Response:
        if name not in served():
            raise HTTPException(404, "The page has no such file.")
        return Response(served()[name], media_type=MEDIA_TYPES[name.rpartition(".")[2]])

    @app.get("/api/runs")
    def runs() -> JSONResponse:  # FastAPI would check each value of it anew
        return JSONResponse(viewer.summaries())

    @app.get("/api/runs/{key}")
    def run(key: str) -> dict[str, Any]:
        return opened(key).overview()

    @app.get("/api/runs/{key}/pulse")
    def pulse(key: str) -> dict[str, Any]:
        return opened(key).pulse()

    @app.get("/api/runs/{key}/report")
    def report(key: str) -> Response:
        return HTMLResponse(page(opened(key).path), headers={"content-security-policy": policy()})

    @app.get("/api/runs/{key}/episodes")
    def episodes(
        key: str,
        request: Request,
        sort: str = "episode",
        descending: bool = False,
        offset: int = Query(0, ge=0),
        limit: int = Query(200, ge=1, le=500),
    ) -> dict[str, Any]:
        parameters = request.query_params
        names = ("only", "phase", "run", "task", "stop", "failure", "tag", "text")
        where = {name: parameters[name] for name in names if parameters.get(name)}
        return opened(key).episodes(where, sort=sort, descending=descending, offset=offset, limit=limit)

    @app.get("/api/runs/{key}/episode")
    def episode(key: str, id: str) -> dict[str, Any]:  # noqa: A002 - the parameter's name in the URL
        return opened(key).episode(id, _image_link(key, id))

    def why_read_only(key: str, sent: str) -> str:
        if token is None or not secrets.compare_digest(sent.encode(), token.encode()):
            return "To write notes, open the address that agentgym view printed."
        return why_not_writable(opened(key).path)

    @app.get("/api/runs/{key}/notes")
    def notes(key: str, agentgym_token: str = Header("")) -> dict[str, Any]:
        return {"notes": read_notes(opened(key).path), "read_only": why_read_only(key, agentgym_token)}

    @app.post("/api/runs/{key}/note")
    def note(
        key: str,
        text: str = Body(),
        episode: str = Body(""),
        agentgym_token: str = Header(""),
    ) -> dict[str, Any]:
        if reason := why_read_only(key, agentgym_token):
            raise HTTPException(403, reason)
        if episode:
            opened(key).check_has(episode)
        try:
            return {"text": write_note(opened(key).path, text, episode)}
        except AgentGymError as error:
            raise HTTPException(400, str(error)) from error

    @app.get("/api/runs/{key}/tokens")
    def tokens(key: str, id: str) -> dict[str, Any]:  # noqa: A002
        return opened(key).tokens(id)

    @app.get("/api/runs/{key}/image")
    def image(key: str, id: str, at: str) -> Response:  # noqa: A002
        position = tuple(int(part) for part in at.split(".") if part.isascii() and part.isdigit())
        image_data = opened(key).image(id, position)
        if image_data is None:
            raise HTTPException(404, "There is no such image.")
        return Response(image_data[1], media_type=image_data[0])

    return app


def _summary(run: OpenedRun, pulse: dict[str, Any], deadline: float) -> dict[str, Any]:
    """Return a run's summary, or for an unreadable run the reason, so that it does not hide the others."""
    try:
        return run.summary(pulse, deadline)
    except AgentGymError as error:
        return {"key": run.key, "name": run.path.name, "path": str(run.path), "broken": str(error), **pulse}


def _image_link(key: str, episode: str) -> Callable[[ImagePart, tuple[int, ...]], str]:
    def link(_: ImagePart, position: tuple[int, ...]) -> str:
        query = urlencode({"id": episode, "at": ".".join(map(str, position))})
        return f"/api/runs/{quote(key, safe='')}/image?{query}"

    return link
