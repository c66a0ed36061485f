"""`agentgym/text-fiction-v1`: interactive fiction whose rooms, things and rules are part of the task."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import Call, Message, Outlook, Split, Task, ToolError, seed_of, tool
from agentgym.text import counted

from .base import Axis, Puzzle, Script, TextEnvironment
from .fiction_builder import build
from .fiction_game import FictionState, Game, game_of


class Fiction(TextEnvironment):
    """Interactive fiction: generated, or written by hand or by a model. In memory, so nothing is isolated.

    Task parameters: `game`, an object as for `fiction_game.Game`. A reset searches for a way to win, and refuses a game
    without one. In some games the player can get stuck; the potential of a state without a way to the goal is 0.
    Source: games that a model writes and an engine checks: STARLING, arXiv:2406.05872; the format, rules and generator
    are our own.
    """

    task_set = "text/fiction-v1"

    id = "agentgym/text-fiction-v1"
    _game: Game
    _length: int  # number of commands in the shortest way to win
    axes = {
        "rooms": Axis(2, 8, "rooms"),
        "obstacles": Axis(1, 5, "obstacles"),
        "others": Axis(0, 4, "things that nobody needs"),
        "traps": Axis(0, 1, "1: one can get stuck"),
        "new_places": Axis(0, 1, "1: in places that are found nowhere else"),
        "new_kinds": Axis(0, 1, "1: with a kind of obstacle that is found nowhere else"),
    }
    levels = (
        {"rooms": 2},
        {"rooms": 3, "obstacles": 2, "others": 1},
        {"rooms": 5, "obstacles": 3, "others": 2},
        {"rooms": 7, "obstacles": 4, "others": 3, "traps": 1},
        {"rooms": 5, "obstacles": 3, "others": 2, "new_places": 1},
        {"rooms": 5, "obstacles": 3, "others": 2, "new_kinds": 1},
        {"rooms": 8, "obstacles": 5, "others": 3, "traps": 1, "new_places": 1, "new_kinds": 1},
    )

    def begin(self) -> dict[str, Any]:
        try:
            self._game = game_of(json.dumps(self.parameter("game", dict)))
            length = self._game.commands_left()
        except (ValueError, RecursionError) as error:
            raise self.refuse(f"the game cannot be used: {error}.") from error
        if length is None:
            raise self.refuse("the game cannot be won.")
        self._length = length
        return _data(self._game.beginning)

    def solved(self) -> bool:
        return self._game.is_solved(_state(self.state))

    def nearness(self) -> float:
        """Return L / (L + remaining commands), with L commands in the shortest way from the start; 0 without a way."""
        remaining = self._game.commands_left(_state(self.state))
        return 0.0 if remaining is None else self._length / (self._length + remaining)

    async def outlook(self) -> Outlook:
        return Outlook(hopeless="the goal cannot be reached any more" if self.nearness() == 0 else None)

    @tool(inline=True)
    def act(self, command: str) -> str:
        """Do something: look, inventory, go north, take lamp, examine lamp, or what the game has commands for."""
        self.check_open()
        try:
            state, text = self._game.do(command, _state(self.state))
        except ValueError as error:
            raise ToolError(str(error)) from error
        self.state = _data(state)
        self.settle()
        return f"{text} You have done it." if self.solved() else text

    @classmethod
    def invent(cls, rng: random.Random, axes: Mapping[str, int]) -> Puzzle:
        wish, game = build(rng, axes)
        return _puzzle(wish, game)

    @classmethod
    def task_of(cls, name: str, wish: str, game: Any, *, split: Split = "train", least: int = 3) -> Task:
        """Return the task of a given game.

        Args:
            name: the id of the task.
            wish: a sentence that says what to do.
            least: the least number of commands that its shortest solution may have.
        Raises: ValueError if the game is invalid, cannot be won, or has a shorter solution.
        """
        puzzle = _puzzle(wish, game)
        solution = puzzle.truth["solution"]
        if len(solution) < least:
            raise ValueError(
                f"its shortest solution has only {counted(len(solution), 'command')} ({', '.join(solution)}), but "
                f"at least {least} are needed"
            )
        return Task(
            name,
            cls.id,
            puzzle.prompt,
            parameters=puzzle.parameters,
            truth=puzzle.truth,
            split=split,
            difficulty=float(len(solution)),
        )

    @staticmethod
    def oracle(task: Task) -> Script:
        """Play the shortest way to win, found by search; the truth is not read."""
        return _player(_game(task).solution() or [])

    @staticmethod
    def imperfect_oracle(task: Task) -> Script:
        """Use the commands correctly, but give up part of the way."""
        solution = _game(task).solution() or []
        return _player(solution[: random.Random(seed_of("imperfect", task.id)).randrange(len(solution) + 1)])


def _puzzle(wish: str, data: Mapping[str, Any]) -> Puzzle:
    """Return the puzzle of a game.

    Raises: ValueError if the game is invalid, cannot be won, or is won at the start.
    """
    game = Game.read(data)
    solution = game.solution()
    if not solution:
        raise ValueError("it is already won at the start" if solution == [] else "it cannot be won")
    own = ", ".join(rule.command for rule in game.rules)
    commands = f" Besides look, inventory, go, take and examine there is: {own}." if own else ""
    return Puzzle(f"{wish}{commands} {game.look(game.beginning)}", {"game": dict(data)}, {"solution": solution})


def _game(task: Task) -> Game:
    return game_of(json.dumps(task.parameters["game"]))


def _data(state: FictionState) -> dict[str, Any]:
    return {"at": state.at, "places": list(state.places), "flags": sorted(state.flags)}


def _state(data: Mapping[str, Any]) -> FictionState:
    return FictionState(data["at"], tuple(data["places"]), frozenset(data["flags"]))


def _player(commands: Sequence[str]) -> Script:
    def script(messages: Sequence[Message]) -> Message:
        turn = sum(message.role == "assistant" for message in messages)
        return Message("assistant", "", (Call("act", {"command": commands[turn]}),)) if turn < len(commands) else _DONE

    return script


_DONE = Message("assistant", "Done.")
