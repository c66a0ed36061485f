"""Simulates a training on a cluster from measured stage times: it shows what waits for what, before any machine is
rented.

Episodes replay the turns, tokens and tool times of recorded ones. Requests to one policy server share it; calls on one
node share its cores; the trainer takes whole steps of complete groups. As in training, a gate keeps groups from
starting too early: groups in flight + groups queued <= (staleness + version + 1) x groups per step - groups consumed.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from .stage_times import EpisodeTimes, StageTimes, TurnTimes

Work = Callable[[], None]
_MAX_NODES = 1024


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """The machines of a training.

    Attributes:
        nodes: machines that play episodes. `episodes_per_node`: most concurrent episodes of each.
        servers: copies of the policy that answer requests.
        trainer_gpus: GPUs of the trainer; n of them are taken to be n times as fast as one.
        cores: the cores of a node, for tools; infinite if tools only wait.
    """

    nodes: int = 1
    episodes_per_node: int = 64
    servers: int = 1
    trainer_gpus: int = 1
    cores: float = math.inf


@dataclass(frozen=True, slots=True)
class StepSchedule:
    """How much a step learns from, and how far episodes may run ahead of training.

    Attributes:
        groups: per step. `group_size`: episodes per group.
        staleness: versions that a group may be behind when it is trained; 0 is synchronous training.
    """

    groups: int
    group_size: int
    staleness: int = 0


@dataclass(frozen=True, slots=True)
class Throughput:
    """Throughput of a simulated training, after its first steps.

    Attributes:
        step_s: seconds between two steps. `episodes_per_s`: trained episodes.
        trainer_busy, servers_busy, slots_busy: shares of the time, 0 to 1. A server is busy with at least one request,
            a slot with an episode.
        token_s: seconds from a request to its answer, divided by the answer's tokens.
        age: number of versions published between a group's start and its training step, averaged over trained groups.
        too_old: share of trained groups whose age exceeds the bound, because other groups overtook them.
    """

    step_s: float
    episodes_per_s: float
    trainer_busy: float
    servers_busy: float
    slots_busy: float
    token_s: float
    age: float
    too_old: float


class SharedResource:
    """Serves all its requests at once at one speed, which depends on their number.

    `busy_s` integrates the time with at least one request.
    """

    def __init__(self, speed: Callable[[int], float]) -> None:
        self._speed = speed
        self._progress = 0.0  # work done by now on a hypothetical request that has been there from the start
        self._heap: list[tuple[float, int, Work]] = []
        self._now = self.busy_s = 0.0
        self._numbers = itertools.count()

    def advance(self, now: float) -> None:
        if self._heap:
            self._progress += (now - self._now) * self._speed(len(self._heap))
            self.busy_s += now - self._now
        self._now = now

    def add(self, work: float, done: Work) -> None:
        heapq.heappush(self._heap, (self._progress + work, next(self._numbers), done))

    def next_end(self) -> float:
        if not self._heap:
            return math.inf
        return self._now + max(0.0, self._heap[0][0] - self._progress) / self._speed(len(self._heap))

    def pop(self) -> Work:
        self._progress = max(self._progress, self._heap[0][0])
        return heapq.heappop(self._heap)[2]


@dataclass(slots=True)
class _Group:
    version: int
    remaining: int


@dataclass(slots=True)
class _Clock:
    """All future events, in order. A resource reports its next end again whenever it changes."""

    now: float = 0.0
    _events: list[tuple[float, int, Work | SharedResource, int]] = field(default_factory=list)
    _changes: dict[int, int] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def after(self, delay_s: float, work: Work) -> None:
        heapq.heappush(self._events, (self.now + delay_s, next(self._numbers), work, 0))

    def use(self, resource: SharedResource, amount: float, done: Work) -> None:
        resource.advance(self.now)
        resource.add(amount, done)
        self._announce(resource)

    def _announce(self, resource: SharedResource) -> None:
        changes = self._changes[id(resource)] = self._changes.get(id(resource), 0) + 1
        if (end := resource.next_end()) < math.inf:
            heapq.heappush(self._events, (end, next(self._numbers), resource, changes))

    def step(self) -> None:
        at, _, event, changes = heapq.heappop(self._events)
        if isinstance(event, SharedResource):
            if self._changes[id(event)] != changes:
                return
            self.now = at
            event.advance(at)
            done = event.pop()
            self._announce(event)
            done()
        else:
            self.now = at
            event()


class Simulation:
    """One simulated training run on a cluster. Can be used once."""

    def __init__(self, times: StageTimes, shape: ClusterShape, schedule: StepSchedule, seed: int) -> None:
        self._times, self._shape, self._schedule = times, shape, schedule
        self._random = random.Random(seed)
        self._clock = _Clock()
        self._servers = [SharedResource(self._token_speed) for _ in range(shape.servers)]
        self._nodes = [SharedResource(lambda n: min(1.0, shape.cores / n)) for _ in range(shape.nodes)]
        self._playing = [0] * shape.nodes
        self._waiting: deque[tuple[_Group, EpisodeTimes]] = deque()
        self._ready: deque[_Group] = deque()
        self._version = self._started = self._steps = 0
        self._learning = False
        self._numbers = itertools.count()
        self._learn_s = times.learn_s / shape.trainer_gpus
        self.ends: list[float] = []
        self.ages: list[int] = []
        self._slot_s = self._slots_since = 0.0
        self._tokens, self._token_s = 0, 0.0

    def run(self, steps: int) -> Throughput:
        """Simulate this many steps; the figures leave out the first quarter, in which queues fill."""
        self._open_gate()
        warm_up = max(1, steps // 4)
        while len(self.ends) < warm_up:
            self._clock.step()
        began = self._clock.now
        busy_before = [server.busy_s for server in self._servers]
        self._note_slots()
        slots_before, ages_before = self._slot_s, len(self.ages)
        while len(self.ends) < steps:
            self._clock.step()
        seconds = self._clock.now - began
        count = steps - warm_up
        for server in self._servers:
            server.advance(self._clock.now)
        self._note_slots()
        ages = self.ages[ages_before:]
        per_step = self._schedule.groups * self._schedule.group_size
        busy = sum(s.busy_s - before for s, before in zip(self._servers, busy_before, strict=True))
        return Throughput(
            step_s=seconds / count,
            episodes_per_s=per_step * count / seconds,
            trainer_busy=min(1.0, self._learn_s * count / seconds),
            servers_busy=busy / seconds / len(self._servers),
            token_s=self._token_s / max(self._tokens, 1),
            slots_busy=(self._slot_s - slots_before) / seconds / (self._shape.nodes * self._shape.episodes_per_node),
            age=sum(ages) / len(ages),
            too_old=sum(age > self._schedule.staleness for age in ages) / len(ages),
        )

    def _token_speed(self, requests: int) -> float:
        """Return the tokens per second of each request."""
        return 1 / (self._times.token_s + self._times.token_load_s * (requests - 1))

    def _open_gate(self) -> None:
        """Start every group that the gate lets start; see the module's docstring."""
        schedule = self._schedule
        while self._started < (schedule.staleness + self._version + 1) * schedule.groups:
            self._started += 1
            group = _Group(self._version, schedule.group_size)
            for _ in range(schedule.group_size):
                self._waiting.append((group, self._random.choice(self._times.episodes)))
        self._fill_nodes()

    def _fill_nodes(self) -> None:
        while self._waiting:
            node = min(range(len(self._playing)), key=self._playing.__getitem__)
            if self._playing[node] >= self._shape.episodes_per_node:
                return
            self._note_slots()
            self._playing[node] += 1
            self._play(*self._waiting.popleft(), node)

    def _play(self, group: _Group, episode: EpisodeTimes, node: int) -> None:
        server, turns = self._servers[next(self._numbers) % len(self._servers)], iter(episode.turns)
        clock = self._clock

        def next_turn() -> None:
            turn, sent_s = next(turns, None), clock.now
            if turn is None:
                clock.after(episode.other_s, ended)
            else:
                clock.use(server, turn.tokens, lambda: answered(turn, sent_s))

        def answered(turn: TurnTimes, sent_s: float) -> None:
            self._tokens += turn.tokens
            self._token_s += clock.now - sent_s
            clock.use(self._nodes[node], turn.tools_s, next_turn)

        def ended() -> None:
            self._note_slots()
            self._playing[node] -= 1
            group.remaining -= 1
            if group.remaining == 0:
                self._ready.append(group)
                self._learn()
            self._fill_nodes()

        next_turn()

    def _learn(self) -> None:
        if self._learning or len(self._ready) < self._schedule.groups:
            return
        self._learning = True
        for _ in range(self._schedule.groups):
            self.ages.append(self._version - self._ready.popleft().version)
        self._clock.after(self._learn_s + self._times.publish_s, self._learned)

    def _learned(self) -> None:
        self._learning = False
        self._version += 1
        self.ends.append(self._clock.now)
        self._open_gate()
        self._learn()

    def _note_slots(self) -> None:
        self._slot_s += sum(self._playing) * (self._clock.now - self._slots_since)
        self._slots_since = self._clock.now


def simulate(
    times: StageTimes, shape: ClusterShape, schedule: StepSchedule, *, steps: int = 24, seed: int = 0
) -> Throughput:
    """Simulate a training of `steps` steps. The same seed gives the same result."""
    return Simulation(times, shape, schedule, seed).run(steps)


def fewest_nodes(times: StageTimes, shape: ClusterShape, schedule: StepSchedule, *, share: float = 0.95) -> int:
    """Return the fewest nodes with which a step takes at most 1/share of the shortest possible time."""
    most = min((schedule.staleness + 1) * schedule.groups * schedule.group_size, _MAX_NODES)  # one episode per node
    bound_s = simulate(times, replace(shape, nodes=most), schedule).step_s / share
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if simulate(times, replace(shape, nodes=middle), schedule).step_s <= bound_s:
            high = middle
        else:
            low = middle + 1
    return low
