#!/bin/sh
# Gemini CLI as a program: npm install @google/gemini-cli (tried with 0.61), then --program "sh gemini_cli.sh {task}"
# with whole paths. Its shell runs here, with your own rights.
export HOME="$PWD" GEMINI_CLI_TRUST_WORKSPACE=true
mkdir -p .gemini
cat >.gemini/settings.json <<END
{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false},
 "mcpServers": {"gym": {"httpUrl": "$AGENTGYM_MCP_URL", "trust": true,
                        "headers": {"Authorization": "Bearer $AGENTGYM_TOKEN"}}}}
END
exec "${GEMINI:-gemini}" --model policy --approval-mode yolo --prompt "$1"
