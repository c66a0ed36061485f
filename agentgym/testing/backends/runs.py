"""Running the checks: all of them over a backend, or one by one."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection

from agentgym.registry import shared_backend
from agentgym.sandbox import Backend, Capabilities, SandboxSpec
from agentgym.testing.backends import (
    against_exhaustion,
    against_the_files,
    against_the_guest,
    against_the_host,
    against_the_kernel,
    against_the_link,
    against_the_network,
    channels,
    commands,
    files,
    life,
    promises,
    python_calls,
    snapshots,
)
from agentgym.testing.backends.case import Breach, Case, NotApplicable, Verdict
from agentgym.testing.backends.ground import SPEC, Ground
from agentgym.testing.findings import Findings, short

Check = Callable[[Backend], Awaitable[None]]

CONTRACT: tuple[Case, ...] = (
    *promises.CASES, *commands.CASES, *python_calls.CASES, *files.CASES, *channels.CASES, *life.CASES, *snapshots.CASES,
)  # fmt: skip
ATTACKS: tuple[Case, ...] = (
    *against_exhaustion.CASES, *against_the_network.CASES, *against_the_kernel.CASES, *against_the_host.CASES,
    *against_the_guest.CASES, *against_the_files.CASES, *against_the_link.CASES,
)  # fmt: skip


async def check_backend(
    backend: str | Backend, *, attacks: bool = True, only: Collection[str] | None = None, spec: SandboxSpec = SPEC
) -> None:
    """Run every contract check, and every attack on what the backend says it enforces, each on a fresh sandbox.

    Args:
        backend: a registered name, or a Backend.
        only: names of the checks to run, as `checks` gives them; by default all.
        attacks: run hostile code too. All of it is bounded, but let it meet no backend that isolates nothing.
        spec: of the sandboxes to check, for example one with another image. Small limits make for quick checks.
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
) -> AsyncIterator[Verdict]:
    """The verdict on each check, one after the other, those that are left out among them.

    Raises: what the backend raises if it cannot even make the neighbour of the sandboxes under test.
    """
    capabilities = capabilities or await backend.probe()
    chosen = (*(CONTRACT if contract else ()), *(ATTACKS if attacks else ()))
    async with Ground(backend, spec) as ground:
        for case in chosen:
            if only is None or case.name in only:
                yield await _judged(ground, case, case.left_out(capabilities))


async def _judged(ground: Ground, case: Case, left_out: str) -> Verdict:
    told = (case.name, case.kind, case.theme, case.sentence)
    if left_out:
        return Verdict(*told, "left out", left_out)
    started = time.monotonic()
    try:
        await ground.make(case)
    except NotApplicable as reason:
        return Verdict(*told, "left out", str(reason), time.monotonic() - started)
    except Breach as breach:
        return Verdict(*told, "failed", short(breach, 600), time.monotonic() - started)
    except Exception as error:  # noqa: BLE001  a run must survive whatever it checks
        finding = f"raised {type(error).__name__}: {short(error, 500)}"
        return Verdict(*told, "failed", finding, time.monotonic() - started)
    return Verdict(*told, "passed", "", time.monotonic() - started)


def checks(capabilities: Capabilities, *, attacks: bool = True, spec: SandboxSpec = SPEC) -> dict[str, Check]:
    """The checks that a backend of these capabilities has to pass, by name; each raises Breach if it does not.

    One that raises NotApplicable makes no sense for this backend.
    """
    chosen = (*CONTRACT, *(ATTACKS if attacks else ()))
    return {case.name: _alone(case, spec) for case in chosen if not case.left_out(capabilities)}


def _alone(case: Case, spec: SandboxSpec) -> Check:
    async def check(backend: Backend) -> None:
        async with Ground(backend, spec) as ground:
            await ground.make(case)

    return check
