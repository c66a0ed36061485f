"""A person as the policy: reads calls from standard input, shows results."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from agentgym.cli.tables import message_panel, result_text
from agentgym.messages import Call, Message, Result, ResultStatus
from agentgym.policy import Reply, Request
from agentgym.policy.contract import Policy
from agentgym.text import counted
from agentgym.tools.definition import Tool

HELP = """Type a call:  query(sql="SELECT 1")   or as JSON  {"name": "query", "arguments": {"sql": "SELECT 1"}}
A string over several lines stands between triple quotes.   say TEXT  speaks without a call.
:tools  lists the tools.   :quit  or the end of the input ends the episode."""
_WORDS = {"true": True, "false": False, "null": None, "none": None}


class Unreadable(Exception):
    """A line cannot be read as a call; the message says why. `more`: whether further lines could complete the call."""

    def __init__(self, why: str, *, more: bool = False) -> None:
        self.more = more
        super().__init__(why)


class HumanPolicy(Policy):
    """Asks a person for every turn.

    Args:
        console: the console to print on. `read`: returns one line, or None at the end of the input.
    Attributes:
        left: whether the person has left. `interrupted`: whether the person left by Ctrl-C.
    """

    name = "human"

    def __init__(self, console: Console, read: Callable[[str], str | None] | None = None) -> None:
        self._console, self._read = console, read or read_line
        self._tools: dict[str, Tool] = {}
        self._messages_printed = 0
        self.left = self.interrupted = False

    async def generate(self, request: Request) -> Reply:
        """Return the person's next message. Reading blocks the event loop, which has nothing else to do."""
        self._tools = {schema["function"]["name"]: _described(schema["function"]) for schema in request.tools}
        for message in request.messages[self._messages_printed :]:
            if message.role == "tool":
                self._console.print(Text("  ->"), result_text(Result(message.content, ResultStatus.OK)))
            elif message.role != "assistant":
                self._console.print(message_panel(message))
        self._messages_printed = len(request.messages)
        if request.turn == 0:
            self.show_tools()
        return Reply(self._ask())

    def show_tools(self) -> None:
        """Print one line per tool, and the help."""
        for tool in self._tools.values():
            self._console.print(Text.assemble("  ", (tool.signature(), "cyan"), f"  {tool.description}"))
        self._console.print(Text(HELP, style="dim"))

    def _ask(self) -> Message:
        pending = ""
        while not self.left:
            try:
                line = self._read("... " if pending else "> ")
            except KeyboardInterrupt:
                self.interrupted, line = True, None
            if line is None or (not pending and line.strip() in (":quit", ":q", ":exit")):
                self.left = True
                break
            if not pending and not line.strip():
                continue
            if not pending and line.strip() in (":tools", ":help"):
                self.show_tools()
                continue
            if not pending and line.strip().startswith("say "):
                return Message("assistant", line.strip()[4:].strip())
            pending = f"{pending}\n{line}" if pending else line
            try:
                return Message("assistant", "", (parse_call(pending, self._tools),))
            except Unreadable as error:
                if error.more:
                    continue
                self._console.print(Text(str(error), style="yellow"))
                pending = ""
        self._console.print(Text("You leave; the episode ends here.", style="dim"))
        return Message("assistant", "I stop here.")


def _described(function: Mapping[str, Any]) -> Tool:
    """Return a tool from a request's description, for display only."""
    return Tool.from_schema(function["name"], function["description"], function["parameters"], lambda arguments: None)


def parse_call(text: str, tools: Mapping[str, Tool]) -> Call:
    """Parse a call typed by a person: Python-like, JSON, or the bare name of a tool without arguments.

    Positional arguments follow the tool's order. Nothing in the text is ever executed.
    Raises: Unreadable.
    """
    text = text.strip()
    if text.startswith("{"):
        return _from_json(text)
    if text.isidentifier() and text in tools:
        return Call(text)
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        open_string = text.count('"""') % 2 == 1 or text.count("'''") % 2 == 1
        raise Unreadable(
            f"This is not a call: {error}. Type :help to see how to write one.", more=open_string
        ) from error
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise Unreadable('This is not a call. Write tool(argument="value"), or say TEXT to speak.')
    name = node.func.id
    order = list(tools[name].parameters["properties"]) if name in tools else []
    if len(node.args) > len(order):
        known = ", ".join(tools) or "none"
        raise Unreadable(
            f"{name} takes at most {counted(len(order), 'argument')}."
            if name in tools
            else f"No tool has this name. Tools: {known}."
        )
    arguments = {order[i]: _value(argument) for i, argument in enumerate(node.args)}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise Unreadable("Give every argument by its name, and only once.")
        arguments[keyword.arg] = _value(keyword.value)
    return Call(name, arguments)


def read_line(prompt: str) -> str | None:
    """Return one line of standard input without its line end; None at the end of input."""
    if sys.stdin.isatty():
        try:
            return input(prompt)
        except EOFError:
            return None
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


def _from_json(text: str) -> Call:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"This is not valid JSON: {error}.") from error
    if not isinstance(row.get("name"), str) or not isinstance(row.get("arguments", {}), dict):
        raise Unreadable('Write a call in JSON as {"name": "tool", "arguments": {"argument": "value"}}.')
    return Call(row["name"], row.get("arguments", {}))


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id.lower() in _WORDS:
        return _WORDS[node.id.lower()]
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise Unreadable(f"{ast.unparse(node)} is not a plain value. Put text in quotes.") from error
