#!/bin/sh
# opencode as a program, unchanged. See programs.md in docs/how-to for its package, and how each of these files is used.
export HOME="$AGENTGYM_HOME" OPENCODE_CONFIG="$AGENTGYM_HOME/opencode.json" OPENCODE_DISABLE_MODELS_FETCH=true
unset XDG_DATA_HOME XDG_CONFIG_HOME XDG_CACHE_HOME XDG_STATE_HOME
export OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER=true # it would wait for inotify, which sandboxes lack, for ever
cat >"$OPENCODE_CONFIG" <<END
{"provider": {"agentgym": {"npm": "@ai-sdk/openai-compatible", "name": "agentgym", "models": {"policy": {}},
                           "options": {"baseURL": "$OPENAI_BASE_URL", "apiKey": "$OPENAI_API_KEY"}}},
 "agent": {"title": {"disable": true}}, "autoupdate": false, "share": "disabled", "permission": "allow",
 "mcp": {"gym": {"type": "remote", "url": "$AGENTGYM_MCP_URL", "oauth": false,
                 "headers": {"Authorization": "Bearer $AGENTGYM_TOKEN"}}}}
END
exec "${OPENCODE:-opencode}" run --model agentgym/policy "$1"
