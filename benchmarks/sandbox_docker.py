"""The docker backend: calls through the guest beside `docker exec` by the SDK, on containers of the same image."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from sandbox_calls import done, live
from sandbox_measuring import SPEC, Row, in_turn, timing, unmeasured

from agentgym.errors import SandboxError
from agentgym.sandbox import Backend

_ROWS = [
    "docker: warm run_python through the guest",
    "  one right after the other",
    "docker: exec(true) through the guest",
    "docker: create + close",
]


async def docker(rounds: int) -> list[Row]:
    """Measure the docker backend. Rows are empty, with the reason, if the SDK, the daemon or the image is missing."""
    try:
        import docker as sdk

        from agentgym.sandbox import DockerBackend
    except ImportError as error:
        return unmeasured(_ROWS, f"{error}: pip install agentgym-core[docker]")
    backend = DockerBackend()
    try:
        capabilities = await backend.probe()
        if not capabilities.available:
            return unmeasured(_ROWS, capabilities.reason)
        return await _measured(backend, sdk.from_env(), rounds)
    except (SandboxError, sdk.errors.DockerException) as error:
        return unmeasured(_ROWS, str(error))
    finally:
        await backend.close()


async def _measured(backend: Backend, client: Any, rounds: int) -> list[Row]:
    with contextlib.closing(client):
        box = await backend.create(SPEC)
        image = next(running.image for running in await backend.running() if not running.orphaned)
        image = "agentgym/base" if image == "host" else image
        plain = client.containers.run(image, ["sleep", "infinity"], detach=True, network_mode="none")

        async def python() -> None:
            done(await box.run_python("pass"))

        async def program() -> None:
            done(await box.exec(["true"]))

        async def exec_true() -> None:
            await asyncio.to_thread(executed, plain, ["true"])

        async def exec_python() -> None:
            await asyncio.to_thread(executed, plain, ["python3", "-c", "pass"])

        async def container() -> None:
            await asyncio.to_thread(lived, client, image)

        try:
            times = await in_turn({"python": python, "exec python": exec_python}, rounds)
            times |= await in_turn({"at once": python}, rounds)
            times |= await in_turn({"program": program, "exec true": exec_true}, rounds)
            lives = await in_turn({"ours": lambda: live(backend, call=False), "plain": container}, max(rounds // 8, 3))
        finally:
            plain.remove(force=True)
    return [
        timing(_ROWS[0], times["python"], 3.0, "docker exec python3 -c pass", times["exec python"]),
        timing(_ROWS[1], times["at once"]),
        timing(_ROWS[2], times["program"], None, "docker exec true", times["exec true"]),
        timing(_ROWS[3], lives["ours"], None, "a plain container: run, remove", lives["plain"]),
    ]


def executed(container: Any, argv: list[str]) -> None:
    """Raises: RuntimeError if it went wrong."""
    if (code := container.exec_run(argv).exit_code) != 0:
        raise RuntimeError(f"docker exec {argv} ended with {code}, so its time says nothing.")


def lived(client: Any, image: str) -> None:
    client.containers.run(image, ["sleep", "infinity"], detach=True, network_mode="none").remove(force=True)
