"""`agentgym/text-countdown-v1`: reach a target with the given numbers and + - * /."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from agentgym import Call, Message, Task, ToolError, tool

from .base import Axis, Puzzle, Script, TextEnvironment

Operator = Literal["+", "-", "*", "/"]
MAX_NUMBERS, MAX_VALUE, MAX_EXPRESSION = 8, 10**9, 200
EXACT = 4
"""The most numbers for which `nearness` checks whether the target can still be reached."""


class Countdown(TextEnvironment):
    """Numbers on a table that must be combined into a target. Everything is in memory, so nothing is isolated.

    Task parameters: `numbers`, positive whole numbers; `target`; `use_all`, true if every number must be used
        (optional).
    Differences are never negative, and a division leaves no remainder. The agent answers with one expression, or step
    by step.
    """

    task_set = "text/countdown-v1"

    id = "agentgym/text-countdown-v1"
    _target: int
    _use_all: bool
    axes = {
        "numbers": Axis(2, MAX_NUMBERS - 2, "numbers on the table"),
        "largest": Axis(5, 100, "the largest of them, at most"),
        "target": Axis(10, 10_000, "the target, at most"),
        "use_all": Axis(0, 1, "whether every number must be used"),
    }
    levels = (
        {"numbers": 3, "largest": 10, "target": 50},
        {"numbers": 3, "largest": 25, "target": 100},
        {"numbers": 4, "largest": 10, "target": 100},
        {"numbers": 4, "largest": 25, "target": 200},
        {"numbers": 4, "largest": 50, "target": 500, "use_all": 1},
        {"numbers": 5, "largest": 50, "target": 500},
        {"numbers": 5, "largest": 100, "target": 999, "use_all": 1},
        {"numbers": 6, "largest": 100, "target": 999},
    )

    def begin(self) -> dict[str, Any]:
        numbers, self._target = self.parameter("numbers", list), self.parameter("target", int)
        if not all(type(number) is int and 0 < number <= MAX_VALUE for number in numbers) or not (
            2 <= len(numbers) <= MAX_NUMBERS
        ):
            raise self.refuse(f"the numbers must be 2 to {MAX_NUMBERS} positive whole numbers, not {numbers!r}.")
        self._use_all = self.parameter("use_all", bool, False)
        return {"table": sorted(numbers), "answer": None}

    def solved(self) -> bool:
        state = self.state
        if state["answer"] is not None:
            return bool(state["answer"] == self._target)
        return self._target in state["table"] and (len(state["table"]) == 1 or not self._use_all)

    def lost(self) -> bool:
        return self.state["answer"] is not None and not self.solved()

    def nearness(self) -> float:
        """Return the share of the needed combinations that are done, if the target can still be reached.

        Return 0 if it cannot, or if there are more than four numbers, because the check would take too long.
        """
        table = self.state["table"]
        if self.solved() or self.lost():
            return float(self.solved())
        if len(table) > EXACT or not _reachable(tuple(table), self._target, self._use_all):
            return 0.0
        return 1 - len(table) / (len(self._parameters["numbers"]) + 1)

    @tool(inline=True)
    def combine(self, left: int, operator: Operator, right: int) -> str:
        """Take two numbers from the table and put back what they make."""
        self.check_open()
        table = list(self.state["table"])
        for number in (left, right):
            if number not in table:
                raise ToolError(f"There is no {str(number)[:20]} left on the table: {_listed(self.state['table'])}.")
            table.remove(number)
        self.state["table"] = sorted([*table, _result(left, operator, right)])
        self.settle()
        return f"Reached {self._target}." if self.solved() else f"On the table: {_listed(self.state['table'])}"

    @tool(inline=True)
    def answer(self, expression: str) -> str:
        """Give one expression of the numbers on the table, for example (3 + 4) * 5. There is one try."""
        self.check_open()
        value, used = evaluate(expression)
        table = list(self.state["table"])
        for number in used:
            if number not in table:
                raise ToolError(f"{number} is not on the table, or not as often: {_listed(self.state['table'])}.")
            table.remove(number)
        if table and self._use_all:
            raise ToolError(f"Every number must be used; left are {_listed(table)}.")
        self.state["answer"] = value
        self.settle()
        return f"That is {value}."

    @classmethod
    def invent(cls, rng: random.Random, axes: Mapping[str, int]) -> Puzzle:
        use_all = bool(axes["use_all"])
        while True:
            numbers = [rng.randint(1, axes["largest"]) for _ in range(axes["numbers"])]
            expressions = [(number, str(number)) for number in numbers]
            for _ in range(len(numbers) - 1 if use_all else rng.randint(max(1, len(numbers) - 2), len(numbers) - 1)):
                (left, left_text), (right, right_text) = rng.sample(expressions, 2)
                value = None
                operator = rng.choice("+-*/")
                if possible(left, operator, right):
                    value = combined(left, operator, right)
                if not value or value > 10 * axes["target"]:
                    continue
                expressions = [item for item in expressions if item[1] is not left_text and item[1] is not right_text]
                expressions.append((value, f"({left_text} {operator} {right_text})"))
            target, solution = expressions[-1]
            enough = solution.count("(") >= len(numbers) - (1 if use_all else 2)
            if enough and target <= axes["target"] and target not in numbers and "(" in solution:
                break
        rule = "Use every number exactly once." if use_all else "Use each number at most once."
        listed = _listed(numbers)
        return Puzzle(
            f"Make {target} from {listed} with + - * /. {rule} Differences are not negative, divisions are exact.",
            {"numbers": numbers, "target": target, **({"use_all": True} if use_all else {})},
            {"solution": solution},
        )

    @staticmethod
    def gold(task: Task) -> Message:
        """Return a right answer, from the truth."""
        return Message("assistant", "", (Call("answer", {"expression": task.truth["solution"]}),))

    @staticmethod
    def oracle(task: Task) -> Script:
        """Search for a solution, and combine one pair per turn. The truth is not read."""
        parameters = task.parameters
        steps = search(tuple(sorted(parameters["numbers"])), parameters["target"], parameters.get("use_all", False))

        def script(messages: Sequence[Message]) -> Message:
            turn = sum(message.role == "assistant" for message in messages)
            if steps is None or turn >= len(steps):
                return Message("assistant", "I found no way.")
            left, operator, right = steps[turn]
            arguments = {"left": left, "operator": operator, "right": right}
            return Message("assistant", "", (Call("combine", arguments),))

        return script

    @staticmethod
    def imperfect_oracle(task: Task) -> Script:
        """Add all numbers, two at a time."""

        def script(messages: Sequence[Message]) -> Message:
            table = sorted(task.parameters["numbers"])
            for _ in range(sum(message.role == "assistant" for message in messages)):
                table = sorted([*table[2:], table[0] + table[1]])
            if len(table) < 2:
                return Message("assistant", "That did not work.")
            return Message("assistant", "", (Call("combine", {"left": table[0], "operator": "+", "right": table[1]}),))

        return script


def possible(left: int, operator: str, right: int) -> bool:
    """Return whether an operation's result is an integer of at least 0."""
    if operator == "/":
        return right != 0 and left % right == 0
    return operator != "-" or left >= right


def combined(left: int, operator: str, right: int) -> int:
    """Return the result of a `possible` operation."""
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    return left * right if operator == "*" else left // right


def evaluate(expression: str) -> tuple[int, list[int]]:
    """Return the value of an expression of whole numbers, + - * / and brackets, and the numbers in it.

    Raises: ToolError for anything else, and for an intermediate value above 10^9. Nothing is executed.
    """
    if len(expression) > MAX_EXPRESSION:
        raise ToolError(f"The expression is {len(expression)} characters long; {MAX_EXPRESSION} are allowed.")
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ToolError("That is no expression. Write for example (3 + 4) * 5, without an equals sign.") from error
    used: list[int] = []
    return _value(tree, used), used


_SIGNS: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def _value(node: ast.expr, used: list[int]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value <= MAX_VALUE:
        used.append(node.value)
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        return _result(_value(node.left, used), _SIGNS[type(node.op)], _value(node.right, used))
    raise ToolError("Only the numbers, + - * / and brackets may stand in the expression.")


def _result(left: int, operator: str, right: int) -> int:
    if not possible(left, operator, right):
        why = "is negative" if operator == "-" else "is no whole number"
        raise ToolError(f"{left} {operator} {right} {why}, which is not allowed.")
    value = combined(left, operator, right)
    if value > MAX_VALUE:
        raise ToolError(f"{left} {operator} {right} is more than {MAX_VALUE}, which is too much.")
    return value


def search(table: tuple[int, ...], target: int, use_all: bool) -> list[tuple[int, str, int]] | None:
    """Return steps that make the target from a sorted table, or None. Tries all steps, but no table twice."""
    return _search(table, target, use_all, set())


def _search(
    table: tuple[int, ...], target: int, use_all: bool, tried: set[tuple[int, ...]]
) -> list[tuple[int, str, int]] | None:
    if target in table and (len(table) == 1 or not use_all):
        return []
    for step, after in _pairs(table):
        if after in tried:
            continue
        tried.add(after)
        rest = _search(after, target, use_all, tried)
        if rest is not None:
            return [step, *rest]
    return None


def _pairs(table: tuple[int, ...]) -> Iterator[tuple[tuple[int, str, int], tuple[int, ...]]]:
    """Yield every possible step from a table, with the resulting sorted table."""
    for first in range(len(table)):
        for second in range(first + 1, len(table)):
            small, large = table[first], table[second]
            rest = table[:first] + table[first + 1 : second] + table[second + 1 :]
            for operator in "+*-/":
                if possible(large, operator, small) and combined(large, operator, small) <= MAX_VALUE:
                    step = (large, operator, small)
                    yield step, tuple(sorted((*rest, combined(large, operator, small))))


@lru_cache(maxsize=20_000)
def _reachable(table: tuple[int, ...], target: int, use_all: bool) -> bool:
    return search(table, target, use_all) is not None


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
