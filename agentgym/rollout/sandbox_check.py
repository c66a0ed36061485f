"""Check, before a model is loaded, that this machine enforces the limits of the sandboxes that tasks need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from agentgym import registry
from agentgym.environment.contract import Environment
from agentgym.errors import LimitUnenforceable, SandboxError
from agentgym.rollout.config import RolloutConfig
from agentgym.rollout.engine import LocalEngine
from agentgym.sandbox.limits import SandboxSpec
from agentgym.task.definition import Task


async def check_limits(tasks: Iterable[Task], config: RolloutConfig) -> None:
    """Open a sandbox as the tasks' environments ask for it. Their episodes use what its backend has then started.

    Nodes of a cluster and environment servers check themselves. Any other failure of a sandbox is left to the episodes.
    Raises: LimitUnenforceable.
    """
    if getattr(config.engine, "name", LocalEngine.name) not in (LocalEngine.name, "gateway"):
        return
    environments = dict.fromkeys(config.environment_for(task) for task in tasks)
    await check_enforced((it for it in environments if not isinstance(it, str) or "://" not in it), config)


async def check_enforced(environments: Iterable[str | Callable[..., Environment]], config: RolloutConfig) -> None:
    """Open a sandbox as environments ask for it, once for what they accept. Raises: LimitUnenforceable."""
    backend = registry.shared_backend(config.backend or registry.DEFAULT_BACKEND)
    specs: dict[tuple[str, ...], SandboxSpec] = {}
    for source in environments:
        spec = getattr(registry.load("environments", source) if isinstance(source, str) else source, "sandbox", None)
        if isinstance(spec, SandboxSpec):
            specs.setdefault(spec.accept_weaker, spec)
    for accepted, spec in specs.items():
        own = replace(spec, network=False) if spec.image == "host" else SandboxSpec(accept_weaker=accepted)
        try:
            sandbox = await backend.create(own)
        except LimitUnenforceable:
            raise
        except SandboxError:
            continue
        with suppress(SandboxError):
            await sandbox.close()
