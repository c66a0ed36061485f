#!/bin/sh
# Qwen Code as a program, unchanged. See programs.md in docs/how-to for its package, and how each of these files is used.
export HOME="$AGENTGYM_HOME" OPENAI_MODEL=policy
mkdir -p "$HOME/.qwen"
cat >"$HOME/.qwen/settings.json" <<END
{"privacy": {"usageStatisticsEnabled": false},
 "mcpServers": {"gym": {"httpUrl": "$AGENTGYM_MCP_URL", "trust": true,
                        "headers": {"Authorization": "Bearer $AGENTGYM_TOKEN"}}}}
END
exec "${QWEN:-qwen}" --auth-type openai --yolo --prompt "$1"
