"""A counter behind the published SDK of MCP, of its first or second line: `python mcp_sdk_server.py [PORT]`."""

import sys

try:
    from mcp.server import MCPServer
except ImportError:
    from mcp.server.fastmcp import FastMCP as MCPServer

port = int(sys.argv[1]) if len(sys.argv) > 1 else None
is_first = MCPServer.__name__ == "FastMCP"
server = MCPServer("counter", instructions="Count.", **({"port": port} if port and is_first else {}))
count = 0


@server.tool()
def add(by: int) -> int:
    """Add to the counter."""
    global count
    count += by
    return count


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("It fails.")


if port is None:
    server.run("stdio")
else:
    server.run("streamable-http", **({} if is_first else {"port": port}))
