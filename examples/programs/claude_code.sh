#!/bin/sh
# Claude Code as a program, unchanged. See programs.md in docs/how-to for its package, and how each of these files is used.
export HOME="$AGENTGYM_HOME" IS_SANDBOX=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
cat >"$HOME/mcp.json" <<END
{"mcpServers": {"gym": {"type": "http", "url": "$AGENTGYM_MCP_URL",
                        "headers": {"Authorization": "Bearer $AGENTGYM_TOKEN"}}}}
END
exec "${CLAUDE:-claude}" -p "$1" --model policy --mcp-config "$HOME/mcp.json" --dangerously-skip-permissions
