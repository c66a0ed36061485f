"""Monte Carlo tree search: visit promising and rarely tried nodes."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from .contract import TurnSearch
from .tree import Node, SearchTree


@dataclass(slots=True)
class Outcome:
    """A state that an action led to.

    Attributes:
        node: the node of the state. others: further nodes with an equal state. times: how often the action led to this
            state.
        visits, total: visits of the node and its descendants, and the sum of their values.
    """

    node: Node
    others: list[Node] = field(default_factory=list)
    times: int = 0
    visits: int = 0
    total: float = 0.0

    def add(self, values: list[float]) -> None:
        self.visits += len(values)
        self.total += math.fsum(values)

    @property
    def mean(self) -> float:
        return self.total / self.visits


@dataclass(slots=True)
class Action:
    """One move of the policy at a node, with an outcome for each state that followed it.

    In a deterministic environment there is only one.
    """

    outcomes: dict[Hashable, Outcome] = field(default_factory=dict)

    @property
    def times(self) -> int:
        """Return how often the policy chose the action."""
        return sum(outcome.times for outcome in self.outcomes.values())

    @property
    def visits(self) -> int:
        return sum(outcome.visits for outcome in self.outcomes.values())

    @property
    def mean(self) -> float:
        """Return the mean value over its outcomes, weighted by their frequency."""
        return math.fsum(outcome.times * outcome.mean for outcome in self.outcomes.values()) / self.times

    def next_outcome(self) -> Outcome:
        """Return the outcome with the fewest visits relative to its frequency, without a random draw."""
        return min(self.outcomes.values(), key=lambda outcome: outcome.visits / outcome.times)


Actions = dict[Hashable, Action]


class TreeSearch(TurnSearch):
    """Monte Carlo tree search over turns. Its leaves are valued, not played to the end, unless value='rollouts'.

    From the root it follows the action with the highest sum of mean value and bonus, to a node that has no children
    yet, and adds its children. Each child counts as one visit, with its value, of all nodes on the way. If the reached
    node ends an episode, that counts as another visit of it. Values are scaled so that those of the tree lie between 0
    and 1. An action's value is the mean over its random outcomes.

    Source: UCT, Kocsis and Szepesvari 2006; PUCT as in AlphaGo Zero, Silver et al. 2017, with sampled priors; the scale
    as in MuZero, Schrittwieser et al. 2020.
    """

    rule: Literal["puct", "uct"] = "puct"
    """`puct` has the bonus exploration * p * sqrt(N) / (1 + n), where p is the share of the policy's moves that are
    this action, n its visits and N those of all; `uct` has exploration * sqrt(ln N / n)."""
    exploration: Annotated[float, Field(ge=0)] = 1.25
    """The factor of the bonus."""
    take: Literal["visits", "best"] = "visits"
    """After the search, `visits` follows the most visited nodes; `best` takes the best node that ends an episode, if
    there is one."""

    async def choose(self, tree: SearchTree) -> Node:
        """Grow the tree and return the most visited node.

        Afterwards the value of each node except the root is the mean over its descendants.
        """
        grown: dict[Node, Actions] = {}
        low, high = math.inf, -math.inf
        for _ in range(self.nodes):  # a small tree may be fully known; then rounds use no nodes
            node = tree.root
            way: list[Outcome] = []
            while grown.get(node):
                outcome = self._chosen(grown[node], low, high).next_outcome()
                way.append(outcome)
                node = outcome.node
            if node.ended or node in grown:
                values = [node.value]
            elif tree.nodes_left:
                children = await tree.expand(node, self.candidates)
                grown[node] = _actions(children)
                values = [child.value for child in children]
            else:
                break
            low, high = min([low, *values]), max([high, *values])
            for outcome in way:
                outcome.add(values)
        for actions in grown.values():
            for action in actions.values():
                for outcome in action.outcomes.values():
                    for node in (outcome.node, *outcome.others):
                        node.value = outcome.mean
        return self._taken(tree.root, grown)

    def _chosen(self, actions: Actions, low: float, high: float) -> Action:
        visits, times = sum(a.visits for a in actions.values()), sum(a.times for a in actions.values())

        def score(action: Action) -> float:
            mean = (action.mean - low) / (high - low) if high > low else 0.0
            if self.rule == "uct":
                return mean + self.exploration * math.sqrt(math.log(visits) / action.visits)
            return mean + self.exploration * action.times / times * math.sqrt(visits) / (1 + action.visits)

        return max(actions.values(), key=score)

    def _taken(self, root: Node, grown: dict[Node, Actions]) -> Node:
        ended = [node for node in root.descendants() if node.ended]
        if self.take == "best" and ended:
            return max(ended, key=lambda node: node.value)
        node = root
        while actions := grown.get(node):
            most = max(actions.values(), key=lambda action: (action.visits, action.mean))
            node = max(most.outcomes.values(), key=lambda outcome: outcome.visits).node
        return node


def _actions(children: list[Node]) -> Actions:
    """Return the actions that led to these nodes; each node counts as one visit."""
    actions: Actions = {}
    for child in children:
        message = child.turn.message
        key = message.text, str([(call.name, call.arguments) for call in message.calls])
        outcome = actions.setdefault(key, Action()).outcomes.setdefault(child.key, Outcome(child))
        if outcome.node is not child:
            outcome.others.append(child)
        outcome.times += 1
        outcome.add([child.value])
    return actions
