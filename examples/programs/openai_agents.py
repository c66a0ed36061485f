"""An agent of the OpenAI Agents SDK as a program: tools over its MCP client, messages over the responses API.

Needs the package openai-agents, in an environment of its own. Name this file in the command of `--program`, for example
"agents/bin/python openai_agents.py {task}" with their whole paths.
"""

import asyncio
import os
import sys

from agents import Agent, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp


async def main(task: str) -> None:
    set_tracing_disabled(True)  # traces would go to OpenAI
    headers = {"Authorization": f"Bearer {os.environ['AGENTGYM_TOKEN']}"}
    parameters = {"url": os.environ["AGENTGYM_MCP_URL"], "headers": headers}
    async with MCPServerStreamableHttp(params=parameters, client_session_timeout_seconds=60) as tools:
        agent = Agent(name="player", model="policy", mcp_servers=[tools])
        await Runner.run(agent, task, max_turns=32)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
