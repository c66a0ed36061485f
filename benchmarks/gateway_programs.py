"""The programs of benchmarks/gateway.py, in a separate process. Arguments: URL, token, number of episodes.

Each has a bare connection: the clients of the package index take longer for a request than the gateway does, and 64 of
them share one processor here, which would be most of what is measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any
from urllib.parse import urlsplit


class Connection:
    """HTTP/1.1 to one server, one request after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self._reader, self._writer, self.token = reader, writer, token

    async def post(self, path: str, body: Any) -> Any:
        """Returns: the JSON of the answer. Raises: RuntimeError if its status is not 200."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {self.token}\r\n"
        self._writer.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        status, *headers = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(line for line in headers if line.startswith("content-length:"))
        answer = await self._reader.readexactly(int(length.partition(":")[2]))
        if " 200 " not in status:
            raise RuntimeError(f"{path}: {status} {answer.decode()}")
        return json.loads(answer)


async def play(http: Connection) -> None:
    """Take an episode and play it to its end."""
    episode = await http.post("/episodes", {})
    http.token = episode["token"]
    messages: list[dict[str, Any]] = episode["messages"]
    while True:
        answer = await http.post("/v1/chat/completions", {"messages": messages, "tools": episode["tools"]})
        message = answer["choices"][0]["message"]
        messages.append(message)
        for call in message["tool_calls"]:
            arguments = json.loads(call["function"]["arguments"])
            result = await http.post(f"/episode/tools/{call['function']['name']}", arguments)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result["text"]})
            if result["final"]:
                return


async def main(url: str, token: str, count: int) -> None:
    """Play `count` episodes at once."""
    address = urlsplit(url)
    programs = [Connection(*await asyncio.open_connection(address.hostname, address.port), token) for _ in range(count)]
    print("ready", flush=True)
    await asyncio.gather(*map(play, programs))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
