"""Check, before a model is loaded, that sandboxes can be made and that their limits are enforced where tasks play."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from agentgym import registry
from agentgym.environment.contract import Environment
from agentgym.errors import LimitUnenforceable, SandboxError, SandboxUnavailable
from agentgym.rollout.config import RolloutConfig
from agentgym.rollout.engine import CheckingEngine, LocalEngine
from agentgym.sandbox import Backend, Capabilities
from agentgym.sandbox.limits import SandboxSpec
from agentgym.task.definition import Task

PROBE_S = 20.0
"""How long another backend may take to say whether it works."""

ELSEWHERE = ("kubernetes", "ray")
"""Backends that make sandboxes on other hosts: naming them would not help on this one."""


async def check_limits(tasks: Iterable[Task], config: RolloutConfig) -> None:
    """Open a sandbox as the tasks' environments ask for it, here or on each node of the engine's cluster.

    Their episodes use what the backend has then started. Environment servers check themselves. A sandbox that is only
    short of something, such as its image, is left to the episodes.
    Raises: LimitUnenforceable; SandboxUnavailable if the backend makes no sandbox at all; ClusterError.
    """
    environments = dict.fromkeys(config.environment_for(task) for task in tasks)
    await check_enforced((it for it in environments if not isinstance(it, str) or "://" not in it), config)


async def check_enforced(environments: Iterable[str | Callable[..., Environment]], config: RolloutConfig) -> None:
    """Open a sandbox as environments ask for it, once for what they accept. Raises: as `check_limits`."""
    specs: dict[tuple[str, ...], SandboxSpec] = {}
    for source in environments:
        spec = getattr(registry.load("environments", source) if isinstance(source, str) else source, "sandbox", None)
        if isinstance(spec, SandboxSpec):
            accepted = spec.accept_weaker
            own = replace(spec, network=False) if spec.image == "host" else SandboxSpec(accept_weaker=accepted)
            specs.setdefault(accepted, own)
    backend = config.backend or registry.DEFAULT_BACKEND
    if isinstance(config.engine, CheckingEngine):
        if specs:
            await config.engine.check([*specs.values()], backend)
    elif getattr(config.engine, "name", LocalEngine.name) in (LocalEngine.name, "gateway"):
        await check_specs([*specs.values()], backend)


async def check_specs(specs: Sequence[SandboxSpec], name: str | Backend) -> None:
    """Open a sandbox for each spec in this process. Raises: LimitUnenforceable, SandboxUnavailable."""
    backend = registry.shared_backend(name)
    for spec in specs:
        try:
            sandbox = await backend.create(spec)
        except LimitUnenforceable:
            raise
        except SandboxError:
            if not (capabilities := await backend.probe()).available:
                raise await _no_sandbox(backend.name, capabilities.reason) from None
            continue
        with suppress(SandboxError):
            await sandbox.close()


async def _no_sandbox(name: str, reason: str) -> SandboxUnavailable:
    """Return the error for a backend that makes no sandbox, with the backends that do, or what each of them lacks."""
    others = [other for other in registry.names("backends") if other not in (name, *ELSEWHERE)]
    reports = dict(zip(others, await asyncio.gather(*map(_probe, others)), strict=True))
    options = [
        f"add --backend {other}" + (f" --accept-weaker {','.join(dict(report.missing))}" if report.missing else "")
        for other, report in reports.items()
        if report.available
    ]
    lacks = "".join(
        f"\n{other}: {'the same.' if report.reason == reason else report.reason}"
        for other, report in reports.items()
        if not report.available
    )
    hint = f"For one that does, {', or '.join(options)}." if options else "No other backend makes one here either:"
    return SandboxUnavailable(f"The backend {name!r} makes no sandbox here. {reason}\n{hint}{lacks}")


async def _probe(name: str) -> Capabilities:
    try:
        async with asyncio.timeout(PROBE_S):
            return await registry.shared_backend(name).probe()
    except TimeoutError:
        return Capabilities(False, reason=f"It did not answer within {PROBE_S:g} s.")
    except Exception as error:  # noqa: BLE001  a user's backend may raise anything
        return Capabilities(False, reason=f"{type(error).__name__}: {error}")
