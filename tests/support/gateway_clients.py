"""Programs that play over the policy gateway: in this process with httpx, so that tests see both ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx
from scripted_episodes import make_manager, task

from agentgym import Policy, ScriptedPolicy, Trajectory
from agentgym.interop.gateway.gateway import PolicyGateway
from agentgym.testing import ByteRenderer, Counter, TargetReached

TOKEN = "the-servers-own-token"
Client = Callable[[httpx.AsyncClient, dict[str, Any]], Awaitable[None]]


class EscapingClient(httpx.AsyncClient):
    """Sends JSON in ASCII, as other clients do: so half of a surrogate pair can be sent."""

    def build_request(self, *arguments: Any, **options: Any) -> httpx.Request:
        if (data := options.pop("json", None)) is not None:
            options["content"] = json.dumps(data)
        return super().build_request(*arguments, **options)


class Program:
    """An agent program: chat completions with the environment's tools, its history sent back as it stands."""

    def __init__(self, http: httpx.AsyncClient, episode: dict[str, Any]) -> None:
        self.http, self.episode = http, episode
        self.messages: list[dict[str, Any]] = list(episode["messages"])

    async def ask(self, messages: Sequence[dict[str, Any]] | None = None, **options: Any) -> dict[str, Any]:
        """The next message, added to the history if that is what was asked about."""
        body = {"messages": messages or self.messages, "tools": self.episode["tools"], **options}
        answer = await self.http.post("/v1/chat/completions", json=body)
        answer.raise_for_status()
        message: dict[str, Any] = answer.json()["choices"][0]["message"]
        if messages is None:
            self.messages.append(message)
        return message

    async def answer_calls(self, message: dict[str, Any]) -> bool:
        """Run the calls of a message. Returns: whether one ended the episode."""
        is_over = False
        for call in message.get("tool_calls", ()):
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            result = (await self.http.post(f"/episode/tools/{name}", json=arguments)).json()
            is_over = is_over or result["final"]
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result["text"]})
        return is_over

    async def play(self) -> None:
        while not await self.answer_calls(await self.ask()):
            pass


async def usual(http: httpx.AsyncClient, episode: dict[str, Any]) -> None:
    await Program(http, episode).play()


async def through_gateway(
    script: Policy | Any,
    clients: Client | Sequence[Client] = usual,
    *,
    target: int = 2,
    silence_s: float = 60,
    **options: Any,
) -> list[Trajectory]:
    """Play one episode for each client over one gateway. Episodes are handed out in the order of the clients."""
    clients = clients if isinstance(clients, Sequence) else [clients]
    policy = script if isinstance(script, Policy) else ScriptedPolicy(script, ByteRenderer())
    gateway = PolicyGateway(tokens=[TOKEN], silence_s=silence_s)
    options = {"environment": Counter, "reward": TargetReached(), **options}
    manager = make_manager(policy, engine=gateway, **options)
    tasks = [task(f"t{number}", target) for number in range(len(clients))]

    in_order = asyncio.Lock()

    async def run(client: Client) -> None:
        async with EscapingClient(base_url=gateway.listen(), timeout=30) as http:
            async with in_order:
                claimed = await http.post("/episodes", headers={"authorization": f"Bearer {TOKEN}"})
            episode = claimed.json()
            http.headers["authorization"] = f"Bearer {episode['token']}"
            await client(http, episode)

    running = [asyncio.create_task(run(client)) for client in clients]
    try:
        trajectories = await manager.collect(tasks)
        await asyncio.gather(*running)
        return trajectories
    finally:
        for client in running:
            client.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        gateway.close()
