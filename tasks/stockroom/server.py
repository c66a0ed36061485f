"""An MCP server over a small stockroom. It uses only the standard library, and reads stock.json in its folder.

This file is sent into a sandbox unchanged, and runs there without other files of the project.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

STATELESS, HANDSHAKE = "2026-07-28", "2025-11-25"
TEXT, COUNT = {"type": "string"}, {"type": "integer", "minimum": 1}


class WrongCall(Exception):
    """A call is not valid; the message is for the caller."""


class Stockroom:
    """Items on shelves.

    Args:
        shelves: the number of pieces by shelf and item.
    """

    def __init__(self, shelves: dict[str, dict[str, int]]) -> None:
        self.shelves = shelves

    def find(self, item: str) -> Any:
        """Return the pieces of an item, by shelf."""
        places = {shelf: held[item] for shelf, held in self.shelves.items() if item in held}
        if not places:
            raise WrongCall(f"There is no {item} on any shelf.")
        return places

    def look(self, shelf: str) -> Any:
        """Return the pieces on a shelf, by item."""
        return dict(sorted(self._shelf(shelf).items()))

    def move(self, item: str, pieces: int, source: str, target: str) -> Any:
        """Move pieces of an item from a shelf to another."""
        self._shelf(target)
        self._take(item, pieces, source)
        self._shelf(target)[item] = self._shelf(target).get(item, 0) + pieces
        return {"moved": pieces, "item": item, "to": target}

    def ship(self, item: str, pieces: int, shelf: str) -> Any:
        """Take pieces of an item from a shelf and send them out."""
        self._take(item, pieces, shelf)
        return {"shipped": pieces, "item": item}

    def inventory(self) -> Any:
        """Return the pieces of all items, by shelf."""
        return {shelf: self.look(shelf) for shelf in sorted(self.shelves)}

    def _shelf(self, name: str) -> dict[str, int]:
        if name not in self.shelves:
            raise WrongCall(f"There is no shelf {name}. There are {', '.join(sorted(self.shelves))}.")
        return self.shelves[name]

    def _take(self, item: str, pieces: int, shelf: str) -> None:
        held = self._shelf(shelf)
        if held.get(item, 0) < pieces:
            raise WrongCall(f"On shelf {shelf} are {held.get(item, 0)} pieces of {item}, not {pieces}.")
        held[item] -= pieces
        if not held[item]:
            del held[item]


ARGUMENTS: dict[str, dict[str, Any]] = {
    "find": {"item": TEXT},
    "look": {"shelf": TEXT},
    "move": {"item": TEXT, "pieces": COUNT, "source": TEXT, "target": TEXT},
    "ship": {"item": TEXT, "pieces": COUNT, "shelf": TEXT},
    "inventory": {},
}
TOOLS = [
    {
        "name": name,
        "description": getattr(Stockroom, name).__doc__,
        "inputSchema": {
            "type": "object",
            "properties": arguments,
            "required": [*arguments],
            "additionalProperties": False,
        },
    }
    for name, arguments in ARGUMENTS.items()
]


def answer(stockroom: Stockroom, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request. Raises: KeyError if the method is unknown."""
    cached = {"ttlMs": 3_600_000, "cacheScope": "public"}
    about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "stockroom", "version": "1"}}
    methods: dict[str, Callable[[], dict[str, Any]]] = {
        "server/discover": lambda: {"supportedVersions": [STATELESS, HANDSHAKE], **about, **cached},
        "initialize": lambda: {"protocolVersion": HANDSHAKE, **about},
        "ping": dict,
        "tools/list": lambda: {"tools": TOOLS, **cached},
        "tools/call": lambda: call(stockroom, params),
    }
    return {"resultType": "complete", **methods[method]()}


def call(stockroom: Stockroom, params: dict[str, Any]) -> dict[str, Any]:
    """Call a tool. If the call is not valid, the result says why."""
    name, arguments = params.get("name"), params.get("arguments") or {}
    try:
        if name not in ARGUMENTS:
            raise WrongCall(f"There is no tool {name}.")
        if sorted(arguments) != sorted(ARGUMENTS[name]):
            raise WrongCall(f"{name} takes {', '.join(ARGUMENTS[name]) or 'no arguments'}.")
        text = json.dumps(getattr(stockroom, name)(**arguments))
    except WrongCall as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    return {"content": [{"type": "text", "text": text}], "isError": False}


def main() -> None:
    with open("stock.json", encoding="utf-8") as file:
        stockroom = Stockroom(json.load(file))
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            reply["result"] = answer(stockroom, request["method"], request.get("params") or {})
        except KeyError:
            reply["error"] = {"code": -32601, "message": f"There is no method {request['method']}."}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
