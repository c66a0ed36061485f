"""A protocol: a formula over the turns of an episode, and the turns that it allows next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentgym import Message, StopReason, Trajectory

from .formulas import State, accepts, atoms_of, parse, start, step

CALL, FINAL = "call", "final"
Letter = frozenset[str]
MAX_STATES = 1_000


def step_of(message: Message) -> Letter | None:
    """Return a turn's step: the tools that it calls, and `call`. None if no call could be parsed."""
    names = {call.name for call in message.calls if call.error is None}
    return frozenset({CALL, *names}) if names else None


class Protocol:
    """The order in which an agent may call tools and answer.

    A turn with calls is a step in which `call` and its tools' names hold. A message without a call that ends the
    episode is a step in which `final` holds. Turns without a parsable call are not steps.

    Args:
        formula: see `parse`. ending_tools: tools whose call ends the episode, as `submit` does.
    Raises: ValueError for a formula that cannot be read, or that needs too many states.
    """

    def __init__(self, formula: str, *, ending_tools: Iterable[str] = ()) -> None:
        parsed = parse(formula)
        self.formula, self.names, self.start = formula, atoms_of(parsed) - {CALL, FINAL}, start(parsed)
        self._ending = {FINAL, *ending_tools}
        # by the set of possible letters: the explored states, and those from which the formula can still be kept
        self._known: dict[frozenset[Letter], tuple[set[State], set[State]]] = {}

    def steps(self, episode: Trajectory) -> list[Letter | None]:
        """Return one entry per turn, None if the turn is not a step."""
        steps = [step_of(turn.message) for turn in episode.turns]
        if steps and steps[-1] is None and episode.stop_reason is StopReason.ANSWERED:
            steps[-1] = frozenset({FINAL})
        return steps

    def after(self, steps: Iterable[Letter | None], state: State | None = None) -> State:
        """Return the state after some steps, from the start or another state."""
        current = self.start if state is None else state
        for letter in steps:
            current = current if letter is None else step(current, letter)
        return current

    def is_kept_by(self, steps: Sequence[Letter | None]) -> bool:
        """Return whether a finished episode with these steps keeps the protocol.

        An episode without steps satisfies only G, R and WX.
        """
        return accepts(self.after(steps))

    def can_be_kept(self, state: State) -> bool:
        """Return whether the protocol can still be kept, by ending here or by further steps with one call each."""
        tools = {*self.names, *self._ending, "another tool"} - {FINAL}
        explored, waiting = set[State](), [state]
        while waiting:
            current = waiting.pop()
            if accepts(current):
                return True
            if current not in explored:
                explored.add(current)
                waiting += [step(current, letter) for letter in self._letters(tools)]
            self._bound(len(explored))
        return False

    def allowed(self, state: State, tools: Iterable[str]) -> tuple[frozenset[str], bool]:
        """Return the tools that may be called next, one in a turn, and whether the agent may answer instead."""
        letters = self._letters(tools)
        living = self._living(letters, state)
        allowed = {
            name
            for letter in letters
            for name in letter - {CALL}
            if (accepts(step(state, letter)) if name in self._ending else step(state, letter) in living)
        }
        return frozenset(allowed - {FINAL}), FINAL in allowed

    def _letters(self, tools: Iterable[str]) -> frozenset[Letter]:
        return frozenset([frozenset({FINAL}), *(frozenset({CALL, name}) for name in tools)])

    def _living(self, letters: frozenset[Letter], state: State) -> set[State]:
        """Return the reachable states from which the episode can still end in a way that keeps the protocol."""
        explored, alive = self._known.setdefault(letters, (set(), set()))
        if state in explored:
            return alive
        following: dict[State, dict[Letter, State]] = {}
        waiting = [state]
        while waiting:
            current = waiting.pop()
            if current not in following:
                following[current] = {letter: step(current, letter) for letter in letters}
                waiting += following[current].values()
            self._bound(len(following))
        explored |= following.keys()
        while more := {
            current
            for current, successors in following.items()
            if current not in alive
            and any(
                accepts(successor) if letter & self._ending else successor in alive
                for letter, successor in successors.items()
            )
        }:
            alive |= more
        return alive

    def _bound(self, states: int) -> None:
        if states > MAX_STATES:
            raise ValueError(f"the formula {self.formula!r} needs more than {MAX_STATES} states. Write a simpler one")
