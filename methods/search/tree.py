"""The tree of one searched episode.

Every kind of search uses it to add nodes, to have them valued, and to count what they cost.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol

from agentgym import Checkpoint, EpisodeManager, Policy, SearchError, StopReason, Task, Trajectory, Turn, seed_of
from agentgym.rollout import Checkpoints, Fork, ReplayPolicy


@dataclass(slots=True)
class TreeCost:
    """Cost of a search beyond the resulting episode.

    Attributes:
        nodes: nodes of the tree. rollouts: episodes played from nodes to the end, to value the nodes.
        calls: messages of the policy, including rollouts. tokens: tokens in these messages.
        duplicates: nodes left out because their state was already in the tree, or because the budget allowed no further
            turn.
        failed: nodes and rollouts that failed in the infrastructure. They have no value.
    """

    nodes: int = 0
    rollouts: int = 0
    calls: int = 0
    tokens: int = 0
    duplicates: int = 0
    failed: int = 0

    def usage(self) -> dict[str, float]:
        """Return the nonzero counts by name, as in `Turn.usage`."""
        return {f"search_{name}": count for name, count in asdict(self).items() if count}


@dataclass(eq=False, slots=True)
class Node:
    """A state of an episode that the search reached.

    Attributes:
        trajectory: the turns up to here; None for the root.
        parent: the node one turn before; None for the root.
        depth: number of turns up to here.
        ended: whether the episode is over here.
        checkpoint: the environment's checkpoint, or None.
        value: the search's value of the node; tree search later replaces it by the mean of what followed.
        children: nodes grown from this one, without failed ones.
    """

    trajectory: Trajectory | None = None
    parent: Node | None = None
    depth: int = 0
    ended: bool = False
    checkpoint: Checkpoint | None = None
    value: float = 0.0
    children: list[Node] = field(default_factory=list)

    @property
    def turn(self) -> Turn:
        """Return the turn that leads here. Raises: SearchError for the root."""
        if self.trajectory is None:
            raise SearchError("The root of a search has no turn that leads to it.")
        return self.trajectory.turns[-1]

    @property
    def key(self) -> Hashable:
        """Return a key of the state; without a state key, of the messages, calls and results."""
        end = self.trajectory.end_state if self.trajectory else None
        if end is not None and end.state_key is not None:
            return end.state_key, self.ended
        turns = self.trajectory.turns if self.trajectory else []
        return repr([(t.message, [r.content for r in t.results], list(t.replies)) for t in turns]), self.ended

    def path(self) -> list[Node]:
        """Return the nodes from the root to this one, both included."""
        return [*(self.parent.path() if self.parent is not None else ()), self]

    def descendants(self) -> Iterator[Node]:
        """Yield every node below this one, parents first."""
        for child in self.children:
            yield child
            yield from child.descendants()


class TreeOwner(Protocol):
    """Interface of the search that a tree belongs to."""

    @property
    def nodes(self) -> int:
        """Return how many nodes the tree may have."""
        ...

    @property
    def calls(self) -> int | None:
        """Return how many messages the policy may write for the tree; None if only the nodes limit them."""
        ...

    @property
    def temperature(self) -> float:
        """Return the sampling temperature of all candidates but the first."""
        ...

    async def value_of(self, tree: SearchTree, nodes: Sequence[Node]) -> list[float | None]:
        """Return the values of nodes, higher is better; None if the infrastructure failed."""
        ...


class SearchTree:
    """Grows the tree of one episode.

    Args:
        manager: plays the nodes. Its policy makes the moves.
        task, sample: the searched episode's task and number.
        search: limits the tree and values its nodes.
        label: the label of the searched episode. Labels of nodes are prefixed `nodes-`, labels of rollouts `rollouts-`.
        judged: whether rewards are asked at the nodes.
    Attributes:
        root: the node before the first turn.
        cost: the cost so far.
    """

    def __init__(
        self, manager: EpisodeManager, task: Task, sample: int, search: TreeOwner, *, label: str, judged: bool
    ) -> None:
        self.root, self.cost = Node(), TreeCost()
        self.task = task
        self._manager, self._sample, self._search, self._label, self._judged = manager, sample, search, label, judged
        self._seed = seed_of(manager.config.seed, task.id)
        self._keys: set[Hashable] = set()

    @property
    def nodes_left(self) -> int:
        """Return how many nodes the budget still allows."""
        calls = self._search.calls
        left = self._search.nodes - self.cost.nodes
        return max(0, left if calls is None else min(left, calls - self.cost.calls))

    async def expand(self, node: Node, count: int) -> list[Node]:
        """Let the policy move from a node, `count` times within the budget, and value the results.

        The first move is sampled as the policy plays by itself, the others at the temperature of the search.

        Returns: the new nodes, without failed ones and those that took no turn. Nodes with equal states may be among
            them.
        Raises: SearchError if a node cannot be valued; errors of EpisodeManager.run.
        """
        count = min(count, self.nodes_left)
        fork = None if node.trajectory is None else Fork(node.trajectory, node.depth, node.checkpoint)
        episodes = [(self._episode("nodes", self.cost.nodes + number), fork) for number in range(count)]
        self.cost.nodes += count
        checkpoints: Checkpoints = {(self.task.id, episode.sample, node.depth + 1): None for episode, _ in episodes}
        last = self._manager.config.budgets.max_turns
        trajectories = await self._play(episodes[:1], "nodes", None, node.depth + 1, checkpoints)
        trajectories += await self._play(episodes[1:], "nodes", self._search.temperature, node.depth + 1, checkpoints)
        children = []
        for trajectory in trajectories:
            self._count(trajectory, node.depth)
            if trajectory.valid and len(trajectory.turns) > node.depth:
                paused = trajectory.stop_reason is StopReason.MAX_TURNS and len(trajectory.turns) < last
                checkpoint = checkpoints[self.task.id, trajectory.sample, node.depth + 1]
                children.append(Node(trajectory, node, node.depth + 1, not paused, checkpoint))
            elif trajectory.valid:
                self.cost.duplicates += 1
        values = await self._search.value_of(self, children)
        valued = []
        for child, value in zip(children, values, strict=True):
            if value is not None:
                child.value = value
                valued.append(child)
        node.children += valued
        return valued

    def fresh(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes whose states the tree does not have yet."""
        fresh = []
        for node in nodes:
            if node.key in self._keys:
                self.cost.duplicates += 1
                continue
            self._keys.add(node.key)
            fresh.append(node)
        return fresh

    async def rollouts(self, node: Node, count: int) -> list[Trajectory]:
        """Play from a node to the end, at the search's temperature, and judge. Returns: the valid episodes."""
        assert node.trajectory is not None
        fork = Fork(node.trajectory, node.depth, node.checkpoint)
        episodes = [(self._episode("rollouts", self.cost.rollouts + number), fork) for number in range(count)]
        self.cost.rollouts += count
        trajectories = await self._play(episodes, "rollouts", self._search.temperature, None, None, judged=True)
        for trajectory in trajectories:
            self._count(trajectory, node.depth)
        return [trajectory for trajectory in trajectories if trajectory.valid]

    async def finish(self, node: Node) -> Trajectory:
        """Play from a node to the end with the policy, and return the whole episode, judged."""
        plain = self._manager.policy
        policy = plain if isinstance(plain, Policy) else plain(self.task)
        trajectory, fork = Trajectory(f"{self._label}/{self.task.id}#{self._sample}", self.task, self._sample), None
        trajectory.seed = self._seed
        if node.trajectory is not None:
            fork = Fork(node.trajectory, node.depth, node.checkpoint)
            if node.ended and node.parent is not None:  # its last turn is replayed and judged
                policy = ReplayPolicy(fork, policy)
                fork = Fork(node.trajectory, node.depth - 1, node.parent.checkpoint)
        return (await self._manager.play_prepared([(trajectory, fork)], label=self._label, policy=policy))[0]

    def _episode(self, kind: str, number: int) -> Trajectory:
        """Make the trajectory of an episode of this tree. The number gives each such episode of a task its own seed."""
        number += self._sample * self._search.nodes
        name = f"{self._label_of(kind)}/{self.task.id}#{number}"
        return Trajectory(name, self.task, number, self._seed)

    def _label_of(self, kind: str) -> str:
        """Return the label, which names the task, so that a lookup in the ledger finds the nodes of this tree only."""
        return f"{kind}-{self._label}/{self.task.id}"

    async def _play(
        self,
        episodes: Sequence[tuple[Trajectory, Fork | None]],
        kind: str,
        temperature: float | None,
        max_turns: int | None,
        checkpoints: Checkpoints | None,
        *,
        judged: bool = False,
    ) -> list[Trajectory]:
        return await self._manager.play_prepared(
            episodes,
            label=self._label_of(kind),
            temperature=temperature,
            max_turns=max_turns,
            judged=judged or self._judged,
            checkpoints=checkpoints,
        )

    def _count(self, trajectory: Trajectory, depth: int) -> None:
        turns = trajectory.turns[depth:]
        self.cost.calls += len(turns)
        self.cost.tokens += sum(len(t.token_ids) or int(t.usage.get("completion_tokens", 0)) for t in turns)
        self.cost.failed += not trajectory.valid
