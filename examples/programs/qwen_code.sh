#!/bin/sh
# Qwen Code as a program: npm install @qwen-code/qwen-code (tried with 0.15), then --program "sh qwen_code.sh {task}"
# with whole paths. Its shell runs here, with your own rights.
export HOME="$PWD" OPENAI_MODEL=policy
mkdir -p .qwen
cat >.qwen/settings.json <<END
{"mcpServers": {"gym": {"httpUrl": "$AGENTGYM_MCP_URL", "trust": true,
                        "headers": {"Authorization": "Bearer $AGENTGYM_TOKEN"}}}}
END
exec "${QWEN:-qwen}" --auth-type openai --yolo --prompt "$1"
