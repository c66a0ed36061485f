"""Contract: what a backend reports about itself and about running sandboxes."""

from __future__ import annotations

import asyncio
import dataclasses
import os

from agentgym import LimitUnenforceable, SandboxSpec, SandboxUnavailable
from agentgym.sandbox import LIMITS

from .check import check_equal, check_raises, checks_of
from .testbed import Target, settled


async def capabilities_say_what_is_missing(target: Target) -> None:
    """A backend that is available names its level, and gives a remedy for each limit it cannot enforce."""
    capabilities = await target.backend.probe()
    check_equal(bool(capabilities.level), True, "a backend that is available names its level")
    for name, remedy in capabilities.missing:
        check_equal(bool(remedy.strip()), True, f"{name} is missing and has a remedy")


async def every_limit_is_either_enforced_or_missing(target: Target) -> None:
    """Each limit of a spec is named once: as enforced, or as missing."""
    capabilities = await target.backend.probe()
    named = [*capabilities.enforced, *dict(capabilities.missing)]
    check_equal(sorted(named), sorted(LIMITS), "limits named")


async def a_limit_that_is_missing_is_refused_unless_accepted(target: Target) -> None:
    """A spec that accepts no weaker limits gets every limit, or LimitUnenforceable names the missing ones."""
    strict = dataclasses.replace(target.spec, accept_weaker=())
    missing = [name for name, _ in (await target.backend.probe()).missing]
    if strict.accepts(missing):  # none is missing, or this process accepts them
        async with target.another(strict) as sandbox:
            check_equal((await sandbox.exec(["true"])).exit_code, 0, "a sandbox with every limit enforced works")
        return
    error = await check_raises(LimitUnenforceable, target.backend.create(strict), "a spec whose limits are missing")
    for name in missing:
        check_equal(name in str(error), True, f"the refusal names {name}")


async def an_image_that_does_not_exist_is_refused_by_name(target: Target) -> None:
    """A spec with an unknown image raises SandboxUnavailable, which names the image."""
    name = "no-such-image-of-agentgym"
    spec = dataclasses.replace(target.spec, image=name)
    error = await check_raises(SandboxUnavailable, target.backend.create(spec), "create with an unknown image")
    check_equal(name in str(error), True, f"the error names the image ({error})")


async def running_lists_a_sandbox_until_it_is_closed(target: Target) -> None:
    """`running` shows each live sandbox once, with its owner, and no closed sandbox."""
    before = (await settled(target.backend))["sandboxes"]
    check_equal(before >= 2, True, f"the sandboxes of this check are listed ({before})")
    async with target.another() as sandbox:
        await sandbox.exec(["true"])
        check_equal((await settled(target.backend))["sandboxes"], before + 1, "sandboxes listed with one more")
        own = [entry for entry in await target.backend.running() if entry.owner == os.getpid()]
        check_equal(len({entry.id for entry in own}), len(own), "ids that are listed once")
        for entry in own:
            check_equal(entry.orphaned, False, "a sandbox whose owner lives is an orphan")
            check_equal(
                (bool(entry.backend), entry.age_s >= 0, entry.memory_mib >= 0), (True, True, True), "it is described"
            )
    check_equal((await settled(target.backend))["sandboxes"], before, "sandboxes listed after one was closed")


async def clean_spares_the_living(target: Target) -> None:
    """`clean` reports in lines of text what it removed, and ends no sandbox that is in use."""
    removed = await target.backend.clean()
    check_equal(
        all(isinstance(line, str) and line for line in removed), True, f"what was removed is said ({removed!r})"
    )
    check_equal((await target.sandbox.exec(["echo", "alive"])).stdout, b"alive\n", "a living sandbox after clean")


async def the_environment_of_a_spec_reaches_every_command(target: Target) -> None:
    """The spec's variables are set in commands and in Python; a call's variables are added to them."""
    spec = dataclasses.replace(target.spec, environment=(("FIRST", "1"), ("SECOND", "2")))
    async with target.another(spec) as sandbox:
        result = await sandbox.exec(["sh", "-c", "echo $FIRST $SECOND"], env={"SECOND": "two"})
        check_equal(result.stdout, b"1 two\n", "variables of a command")
        result = await sandbox.run_python("import os; print(os.environ['FIRST'], os.environ['SECOND'])")
        check_equal(result.stdout, b"1 2\n", "variables in Python")


async def many_sandboxes_at_once_are_each_their_own(target: Target) -> None:
    """Eight sandboxes made at the same moment work side by side and share nothing."""

    async def use(number: int) -> bytes:
        async with target.another() as sandbox:
            await sandbox.write("own", b"%d" % number)
            await asyncio.sleep(0.05)
            return (await sandbox.exec(["sh", "-c", "cat own; ls | wc -l"])).stdout

    answers = await asyncio.gather(*(use(number) for number in range(8)))
    check_equal(answers, [b"%d1\n" % number for number in range(8)], "what each found")


async def usage_counts(target: Target) -> None:
    """Processor time and bytes on disk are counted, and the time never decreases."""
    await target.sandbox.write("file", bytes(2**20))
    result = await target.sandbox.run_python("x = sum(range(3_000_000))")
    first = await target.sandbox.usage()
    check_equal(result.usage.cpu_s > 0 and first.cpu_s > 0, True, "processor time is counted")
    check_equal(first.disk_bytes >= 2**20, True, "disk use is counted")
    await target.sandbox.run_python("x = sum(range(1_000_000))")
    check_equal((await target.sandbox.usage()).cpu_s >= first.cpu_s, True, "processor time does not fall")


async def the_small_spec_is_no_special_case(target: Target) -> None:
    """A sandbox with the default spec works as one with small limits does."""
    image, writable_root = target.spec.image, target.spec.writable_root
    async with target.another(SandboxSpec(image=image, writable_root=writable_root, accept_weaker=("all",))) as sandbox:
        check_equal((await sandbox.run_python("print(1)")).stdout, b"1\n", "an answer")


CHECKS = checks_of(
    "contract",
    "What a backend promises",
    capabilities_say_what_is_missing,
    every_limit_is_either_enforced_or_missing,
    a_limit_that_is_missing_is_refused_unless_accepted,
    an_image_that_does_not_exist_is_refused_by_name,
    running_lists_a_sandbox_until_it_is_closed,
    clean_spares_the_living,
    the_environment_of_a_spec_reaches_every_command,
    many_sandboxes_at_once_are_each_their_own,
    usage_counts,
    the_small_spec_is_no_special_case,
)
