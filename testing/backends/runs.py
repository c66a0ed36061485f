"""Run the checks on a backend: all of them, or one by one."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection

from agentgym import SandboxSpec, shared_backend
from agentgym.sandbox import Backend, Capabilities

from ..findings import Findings, short
from . import (
    against_exhaustion,
    against_later_calls,
    against_snapshots,
    against_the_channel,
    against_the_episode,
    against_the_files,
    against_the_guest,
    against_the_host,
    against_the_kernel,
    against_the_link,
    against_the_network,
    against_what_all_share,
    channels,
    commands,
    files,
    life,
    promises,
    python_calls,
    snapshots,
)
from .check import BackendCheck, Breach, CheckVerdict, NotApplicable
from .testbed import SPEC, TestBed

Check = Callable[[Backend], Awaitable[None]]

CONTRACT: tuple[BackendCheck, ...] = (
    *promises.CHECKS,
    *commands.CHECKS,
    *python_calls.CHECKS,
    *files.CHECKS,
    *channels.CHECKS,
    *life.CHECKS,
    *snapshots.CHECKS,
)
ATTACKS: tuple[BackendCheck, ...] = (
    *against_exhaustion.CHECKS,
    *against_the_network.CHECKS,
    *against_the_kernel.CHECKS,
    *against_what_all_share.CHECKS,
    *against_the_host.CHECKS,
    *against_the_guest.CHECKS,
    *against_the_episode.CHECKS,
    *against_later_calls.CHECKS,
    *against_snapshots.CHECKS,
    *against_the_channel.CHECKS,
    *against_the_files.CHECKS,
    *against_the_link.CHECKS,
)


async def check_backend(
    backend: str | Backend, *, attacks: bool = True, only: Collection[str] | None = None, spec: SandboxSpec = SPEC
) -> None:
    """Run every contract check, and every attack on what the backend says it enforces, each on a fresh sandbox.

    Args:
        backend: a registered name, or a Backend.
        only: names of the checks to run, as in `checks`; by default all.
        attacks: run hostile code too. All of it is bounded, but do not run it on a backend without isolation.
        spec: the spec of the sandboxes to check, for example one with another image. Small limits make checks
            quick.
    Raises: ConformanceError with one finding per check that failed; UnknownNameError.
    """
    backend = shared_backend(backend)
    findings = Findings(f"backend {backend.name!r}")
    capabilities = await backend.probe()
    if not capabilities.available:
        findings.add(f"it is not available here: {capabilities.reason}")
        findings.conclude()
    async for verdict in run_checks(backend, attacks=attacks, only=only, spec=spec, capabilities=capabilities):
        if verdict.outcome == "failed":
            findings.add(f"{verdict.name.replace('_', ' ')}: {verdict.finding}")
    findings.conclude()


async def run_checks(
    backend: Backend,
    *,
    attacks: bool = True,
    contract: bool = True,
    only: Collection[str] | None = None,
    spec: SandboxSpec = SPEC,
    capabilities: Capabilities | None = None,
) -> AsyncIterator[CheckVerdict]:
    """Yield the verdict on each check, including the checks that are left out.

    Raises: the backend's error if it cannot make the neighbour of the sandboxes under test.
    """
    capabilities = capabilities or await backend.probe()
    chosen = (*(CONTRACT if contract else ()), *(ATTACKS if attacks else ()))
    async with TestBed(backend, spec) as testbed:
        for check in chosen:
            if only is None or check.name in only:
                yield await _judged(testbed, check, check.left_out(capabilities))


async def _judged(testbed: TestBed, check: BackendCheck, left_out: str) -> CheckVerdict:
    about = (check.name, check.kind, check.theme, check.sentence)
    if left_out:
        return CheckVerdict(*about, "left out", left_out)
    started = time.monotonic()
    try:
        await testbed.make(check)
    except NotApplicable as reason:
        return CheckVerdict(*about, "left out", str(reason), time.monotonic() - started)
    except Breach as breach:
        return CheckVerdict(*about, "failed", short(breach, 600), time.monotonic() - started)
    except Exception as error:  # noqa: BLE001  a run must survive whatever it checks
        finding = f"raised {type(error).__name__}: {short(error, 500)}"
        return CheckVerdict(*about, "failed", finding, time.monotonic() - started)
    return CheckVerdict(*about, "passed", "", time.monotonic() - started)


def checks(capabilities: Capabilities, *, attacks: bool = True, spec: SandboxSpec = SPEC) -> dict[str, Check]:
    """Return the checks that a backend of these capabilities has to pass, by name; each raises Breach if it does not.

    A check that raises NotApplicable does not apply to this backend.
    """
    chosen = (*CONTRACT, *(ATTACKS if attacks else ()))
    return {check.name: _alone(check, spec) for check in chosen if not check.left_out(capabilities)}


def _alone(check: BackendCheck, spec: SandboxSpec) -> Check:
    async def run_alone(backend: Backend) -> None:
        async with TestBed(backend, spec) as testbed:
            await testbed.make(check)

    return run_alone
