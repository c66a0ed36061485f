"""Workers that play episodes for benchmarks/driver.py, and servers that answer them, each in a process of its own.

    python benchmarks/driver_workers.py workers 32      # the key on standard input, the ports on standard output
    python benchmarks/driver_workers.py server 200      # answers as vLLM does, with 200 tokens a turn

The workers are real: each is an EpisodeWorker that listens as the one of a node does. What they play needs neither a
sandbox nor a model.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

from agentgym import Call, Environment, Message, Task, tool
from agentgym.cluster.call_stream import KEY_BYTES, CallServer
from agentgym.cluster.episode_worker import EpisodeWorker
from agentgym.policy.formats.hermes import Hermes
from agentgym.testing.byte_renderer import END, ByteRenderer

CHARACTERS_PER_TOKEN = 4
RESULT = "a line of a file " * 47
"""The result of each call: 200 tokens."""
FIRST, VOCABULARY = 1_000, 150_000
"""The first token of text from outside, and the number of such tokens: ids as long as those of real models."""


class Reading(Environment):
    """A file that is read a page at a time. In memory, nothing to isolate."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        return task.opening()

    @tool(inline=True)
    def read(self) -> str:
        """Return the next page."""
        return RESULT


class WideRenderer(ByteRenderer):
    """Has one token for four characters that the agent reads. What the agent writes has one for each byte."""

    call_format, begun_thought, end_ids = Hermes(), "", frozenset({END})

    def parse(self, token_ids: Sequence[int], tools: Sequence[dict[str, Any]] = ()) -> Message:
        return super().parse(token_ids)

    @staticmethod
    def _outside(messages: Sequence[Message]) -> list[int]:
        data = "".join(message.written for message in messages).encode()
        starts = range(0, len(data), CHARACTERS_PER_TOKEN)
        return [FIRST + int.from_bytes(data[at : at + CHARACTERS_PER_TOKEN]) % VOCABULARY for at in starts]


def reply_ids(tokens: int) -> list[int]:
    """Return the tokens of a message of this length that reads the next page."""
    message = Message("assistant", "", (Call("read", {}),))
    return WideRenderer().encode(
        Message("assistant", "x" * (tokens - len(WideRenderer().encode(message))), message.calls)
    )


async def work(count: int) -> None:
    """Run workers until standard input ends."""
    key = sys.stdin.buffer.read(KEY_BYTES)
    ports = [await CallServer(EpisodeWorker(), key).listen("127.0.0.1") for _ in range(count)]
    print(json.dumps(ports), flush=True)
    await asyncio.to_thread(sys.stdin.buffer.read)


async def serve(tokens: int) -> None:
    """Answer completions at once until standard input ends."""
    ids = reply_ids(tokens)
    logprobs = [-0.123456789 - token / 1000 for token in ids]

    def answer(content: bytes) -> Any:
        if not content:
            return {"data": [{"id": "m", "max_model_len": 1 << 20}]}
        prompt = json.loads(content)["prompt"]
        choice = {"index": 0, "text": "x" * tokens, "finish_reason": "stop", "token_ids": ids}
        choice |= {"prompt_token_ids": prompt, "logprobs": {"token_logprobs": logprobs, "tokens": ["x"] * tokens}}
        usage = {"prompt_tokens": len(prompt), "completion_tokens": tokens}
        return {"id": "cmpl", "object": "text_completion", "model": "m", "choices": [choice], "usage": usage}

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await _head(reader):
            sizes = [
                line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
            ]
            data = json.dumps(answer(await reader.readexactly(int(sizes[0]) if sizes else 0))).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
            writer.write(b"content-length: %d\r\n\r\n%b" % (len(data), data))
        writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    print(json.dumps([server.sockets[0].getsockname()[1]]), flush=True)
    await asyncio.to_thread(sys.stdin.buffer.read)


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


async def echo() -> None:
    """Send back what arrives until standard input ends."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 18):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    print(json.dumps([server.sockets[0].getsockname()[1]]), flush=True)
    await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    part, *numbers = sys.argv[1:]
    asyncio.run({"workers": work, "server": serve, "echo": echo}[part](*map(int, numbers)))
