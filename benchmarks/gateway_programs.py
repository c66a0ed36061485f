"""The programs of benchmarks/gateway.py, in a process of their own. Arguments: URL, token, number of episodes."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx


async def program(http: httpx.AsyncClient, token: str) -> None:
    """Take an episode and play it to its end."""
    claimed = await http.post("/episodes", headers={"Authorization": f"Bearer {token}"})
    episode = claimed.json()
    headers = {"Authorization": f"Bearer {episode['token']}"}
    messages: list[dict[str, Any]] = episode["messages"]
    while True:
        body = {"messages": messages, "tools": episode["tools"]}
        answer = (await http.post("/v1/chat/completions", json=body, headers=headers)).json()
        message = answer["choices"][0]["message"]
        messages.append(message)
        for call in message["tool_calls"]:
            path = f"/episode/tools/{call['function']['name']}"
            arguments = json.loads(call["function"]["arguments"])
            result = (await http.post(path, json=arguments, headers=headers)).json()
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result["text"]})
            if result["final"]:
                return


async def main(url: str, token: str, count: int) -> None:
    """Play so many episodes at once."""
    limits = httpx.Limits(max_connections=count, max_keepalive_connections=count)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as http:
        print("ready", flush=True)
        await asyncio.gather(*(program(http, token) for _ in range(count)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
