"""A stream of counting episodes for tests, whose environments can be held back one by one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scripted_episodes import counting, task

from agentgym import Budgets, RolloutConfig, ScriptedPolicy, Task
from agentgym.errors import SandboxDied
from agentgym.messages import Message
from agentgym.rollout.rollouts import Rollouts
from agentgym.storage.ledger import Ledger
from agentgym.testing import ByteRenderer, Counter, TargetReached
from agentgym.training.asynchronous.stream import Capacity, GroupStream
from agentgym.training.gatherers import Gatherer, StepRequest

TASKS = [task(f"t{i}") for i in range(12)]


class Player(ScriptedPolicy):
    """Counts to two, by weights that are only a version."""

    def __init__(self) -> None:
        super().__init__(counting(2), ByteRenderer())
        self.requested: list[str] = []

    async def generate(self, request):
        self.requested.append(request.episode)
        return await super().generate(request)

    def take_weights(self, version: int) -> None:
        self.version = version


class Held:
    """Makes counters; the reset of those whose task is held waits until it is released, or fails."""

    def __init__(self) -> None:
        self.held: dict[str, asyncio.Event] = {}
        self.failing: set[str] = set()
        self.waits_once: set[str] = set()  # tasks of which the first episode alone waits

    def __call__(self) -> Counter:
        held = self

        class HeldCounter(Counter):
            async def reset(self, task: Task, *, seed: int) -> list[Message]:
                if task.id in held.failing:
                    raise SandboxDied("its machine is gone")
                event = held.held.get(task.id)
                if task.id in held.waits_once:
                    held.waits_once.remove(task.id)
                    await held.held[f"first of {task.id}"].wait()
                elif event is not None:
                    await event.wait()
                return await super().reset(task, seed=seed)

        return HeldCounter()


@contextmanager
def stream_of(
    folder: Path,
    held: Held | None = None,
    *,
    staleness: int = 1,
    groups: int = 2,
    group_size: int = 2,
    quorum: int | None = None,
    draw: Callable[[int, int], list[Task]] | None = None,
    state: dict | None = None,
) -> Iterator[tuple[GroupStream, Rollouts, Player]]:
    """Open a stream over TASKS, in their order, `groups` a step."""
    config = RolloutConfig(
        environment=held or Held(), reward=TargetReached(), concurrency=64, budgets=Budgets(infra_retries=0)
    )
    player = Player()
    with Rollouts(config, ledger=Ledger(folder / "ledger.sqlite")) as rollouts:
        stream = GroupStream(
            rollouts,
            player,
            player.take_weights,
            draw=draw or (lambda count, step: TASKS[step * count : (step + 1) * count]),
            label="train",
            capacity=Capacity(staleness, groups),
            group_size=group_size,
            quorum=quorum,
        )
        with rollouts.loop.in_thread():
            try:
                if state is not None:
                    stream.resume(state, TASKS)
                yield stream, rollouts, player
            finally:
                stream.close()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def gathered(
    stream: GroupStream,
    rollouts: Rollouts,
    player: Player,
    *,
    ready: int,
    count: int = 2,
    size: int = 2,
    gather: Gatherer | None = None,
):
    """The next groups, as a trainer asks for them, once so many are ready. `gather`: of the stream, with wrappers."""
    wait_until(lambda: sum(len(step.ready) for step in stream._steps) >= ready)
    gather = gather or stream.gather
    groups = gather(StepRequest(rollouts, player, TASKS[:count], f"train-{player.version:06d}", size))
    assert all(len(group.trained) == size for group in groups)
    return groups


def task_ids(groups) -> list[str]:
    return [group.trained[0].task.id for group in groups]


def trained(stream: GroupStream, player: Player) -> None:
    """A step of the trainer on the batch that it has."""
    stream.step_ended()
    stream.publish(player.version + 1)
