#!/bin/sh
# opencode as a program: npm install opencode-ai (tried with 1.18), then --program "sh opencode.sh {task}" with whole
# paths. Its shell runs here, with your own rights.
export HOME="$PWD" XDG_DATA_HOME="$PWD/data" XDG_CONFIG_HOME="$PWD/config" XDG_CACHE_HOME="$PWD/cache" XDG_STATE_HOME="$PWD/state"
cat >opencode.json <<END
{"provider": {"agentgym": {"npm": "@ai-sdk/openai-compatible", "name": "agentgym", "models": {"policy": {}},
                           "options": {"baseURL": "$OPENAI_BASE_URL", "apiKey": "$OPENAI_API_KEY"}}},
 "autoupdate": false, "share": "disabled", "permission": "allow",
 "mcp": {"gym": {"type": "remote", "url": "$AGENTGYM_MCP_URL", "oauth": false,
                 "headers": {"Authorization": "Bearer $AGENTGYM_TOKEN"}}}}
END
exec "${OPENCODE:-opencode}" run --model agentgym/policy "$1"
