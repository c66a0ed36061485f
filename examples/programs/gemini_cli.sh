#!/bin/sh
# Gemini CLI as a program, unchanged. See programs.md in docs/how-to for its package, and how each of these files is used.
export HOME="$AGENTGYM_HOME" GEMINI_CLI_TRUST_WORKSPACE=true
mkdir -p "$HOME/.gemini"
cat >"$HOME/.gemini/settings.json" <<END
{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false},
 "mcpServers": {"gym": {"httpUrl": "$AGENTGYM_MCP_URL", "trust": true,
                        "headers": {"Authorization": "Bearer $AGENTGYM_TOKEN"}}}}
END
exec "${GEMINI:-gemini}" --model policy --approval-mode yolo --prompt "$1"
