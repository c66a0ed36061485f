#!/bin/sh
# Claude Code as a program: npm install @anthropic-ai/claude-code (tried with 2.1), then --program
# "sh claude_code.sh {task}" with whole paths. Its shell runs here, with your own rights.
export HOME="$PWD" IS_SANDBOX=1 DISABLE_TELEMETRY=1
cat >mcp.json <<END
{"mcpServers": {"gym": {"type": "http", "url": "$AGENTGYM_MCP_URL",
                        "headers": {"Authorization": "Bearer $AGENTGYM_TOKEN"}}}}
END
exec "${CLAUDE:-claude}" -p "$1" --model policy --mcp-config mcp.json --allowedTools mcp__gym Bash
