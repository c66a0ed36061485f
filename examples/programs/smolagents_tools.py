"""A ToolCallingAgent of smolagents as a program: tools over MCP, messages over chat completions.

Needs the package smolagents with its extras openai and mcp, in an environment of its own; see openai_agents.py. It
writes what happened into every request in words of its own, so that each of its turns begins a row.
"""

import os
import sys

from smolagents import MCPClient, OpenAIModel, ToolCallingAgent


def main(task: str) -> None:
    headers = {"Authorization": f"Bearer {os.environ['AGENTGYM_TOKEN']}"}
    server = {"url": os.environ["AGENTGYM_MCP_URL"], "transport": "streamable-http", "headers": headers}
    with MCPClient(server) as tools:
        agent = ToolCallingAgent(tools=tools, model=OpenAIModel("policy"), max_steps=32, verbosity_level=0)
        agent.run(task)


if __name__ == "__main__":
    main(sys.argv[1])
