"""Runs the tests of a step on submitted files, in a sandbox of their own."""

from __future__ import annotations

import asyncio
import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace

from agentgym import SandboxError, Task
from agentgym.reward import judge_submission
from agentgym.sandbox import Backend, Sandbox, Snapshot

from .artifacts import MAX_PACKED, collect, put
from .build_context import Files
from .downloads import with_downloads
from .folder import TaskStep
from .sandbox import folder_of, is_built_by_docker, open_task, playing, run_tests
from .submission import part_of, read_submission
from .task_network import check_reached, checked_network, network_of_tests

Keep = Callable[[str, str], bool]
REWARD_FILE = "/logs/verifier/reward"
MAX_REWARD = 2**16
UNUSABLE = (
    SandboxError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    RecursionError,
    zlib.error,
)
"""Errors of unpacking a submission that `done` did not write, or that does not fit into the sandbox."""


class Submission:
    """Submitted files, unpacked once however often they are judged. `text`: empty for none."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._snapshot: Snapshot | None = None

    async def changes(self, keep: Keep | None = None) -> Snapshot | None:
        """Return the changes that count; None for no files. Raises: as `read_submission`."""
        if not self.text:
            return None
        if self._snapshot is None:
            self._snapshot = await asyncio.to_thread(read_submission, self.text)
        return self._snapshot if keep is None else await asyncio.to_thread(part_of, self._snapshot, keep)

    async def loses(self, keep: Keep) -> bool:
        """Return whether some of the changes do not count."""
        part, every = await self.changes(keep), await self.changes()
        return part is not None and every is not None and part.id != every.id


async def rewards_of(
    backend: Backend,
    task: Task,
    index: int,
    submission: Submission,
    *,
    output: list[str] | None = None,
    tests: Files | None = None,
    keep: Keep | None = None,
) -> Mapping[str, float]:
    """Run the tests of a step once, and return the rewards that they write, by key.

    Args:
        index: which step of the task's folder.
        output: gets the last characters printed. tests: run instead of the step's.
        keep: which changes of the submission count, by path and kind; None for all.
    Returns: no reward for tests that are stopped or killed, or write nothing that is valid, and for a submission that
        no sandbox takes.
    Raises: TaskError; JudgeError if the tests cannot be run without a submission either.
    """
    return await judge_submission(
        lambda: _rewards(backend, task, index, submission, output, tests, keep),
        lambda: _rewards(backend, task, index, Submission(""), None, None, None),
        {},
        errors=UNUSABLE,
    )


def reward_in(rewards: Mapping[str, float]) -> float:
    """Return the reward, from 0 to 1: the entry `reward` or else the only one; 0 for another value, or none."""
    value = rewards.get("reward", next(iter(rewards.values())) if len(rewards) == 1 else 0.0)
    return value if 0 <= value <= 1 else 0.0


async def _rewards(
    backend: Backend,
    task: Task,
    index: int,
    submission: Submission,
    output: list[str] | None,
    tests: Files | None,
    keep: Keep | None,
) -> Mapping[str, float]:
    folder = folder_of(task)
    step = folder.steps[index]
    backend = playing(backend, task)
    image = await open_task(backend, task, step.verifier or folder)
    network = checked_network(task.parameters.get("network", "none"))
    if step.verifier is not None and not step.verifier.has_network:
        network = "none"
    reach = await network_of_tests(network, step.tests)
    snapshot, artifacts = await submission.changes(keep), b""
    if step.verifier is not None:
        artifacts, snapshot = await _artifacts(backend, task, step, snapshot), None
    spec = reach.spec(image.spec)
    if not is_built_by_docker(task):
        spec = await with_downloads(backend, spec, image, step, reach, snapshot)
    size = len(artifacts) * 2 if snapshot is None else snapshot.size_bytes
    sandbox = await backend.create(replace(spec, disk_mib=spec.disk_mib + size // 2**20), snapshot=snapshot)
    try:
        if artifacts:
            await put(sandbox, artifacts)
        await image.start(sandbox)
        result = await run_tests(sandbox, image, step, reach, tests)
        if output is not None:
            output.append((result.stderr + result.stdout).decode("utf-8", "replace").strip()[-300:] or "no output")
        if result.timed_out or result.oom_killed or result.exit_code < 0:
            return {}
        rewards = {"reward": float(result.exit_code == 0)} if folder.pays_by_status else await _written(sandbox)
        if not reward_in(rewards):
            check_reached(sandbox, "The test script")
        return rewards
    finally:
        await sandbox.close()


async def _artifacts(backend: Backend, task: Task, step: TaskStep, snapshot: Snapshot | None) -> bytes:
    """Return the archive of a step's artifacts, packed in a new sandbox with the agent's files."""
    image = await open_task(backend, task, folder_of(task))
    more = (MAX_PACKED + (0 if snapshot is None else snapshot.size_bytes)) // 2**20
    spec = replace(image.spec, disk_mib=image.spec.disk_mib + more, memory_mib=image.spec.memory_mib + more)
    sandbox = await backend.create(spec, snapshot=snapshot)
    try:
        return await collect(sandbox, step.artifacts, image.workdir)
    finally:
        await sandbox.close()


async def _written(sandbox: Sandbox) -> Mapping[str, float]:
    """Return the rewards that the tests wrote, by key. As in Harbor, reward.json decides if there is one."""
    for ending in (".json", ".txt"):
        try:
            text = (await sandbox.read(f"{REWARD_FILE}{ending}", max_bytes=MAX_REWARD)).decode("utf-8")
            return _numbers(float(text) if ending == ".txt" else json.loads(text))
        except FileNotFoundError:
            continue
        except SandboxError:
            raise
        except (OSError, ValueError, RecursionError, OverflowError):
            return {}
    return {}


def _numbers(data: object) -> Mapping[str, float]:
    """Return rewards by key; what is not a number is none. A number alone is the entry `reward`."""
    entries = data if isinstance(data, dict) else {"reward": data}
    return {str(key): float(value) if isinstance(value, int | float) else math.nan for key, value in entries.items()}
