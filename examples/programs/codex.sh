#!/bin/sh
# Codex as a program, unchanged. See programs.md in docs/how-to for its package, and how each of these files is used.
export CODEX_HOME="$AGENTGYM_HOME/codex"
mkdir -p "$CODEX_HOME"
cat >"$CODEX_HOME/config.toml" <<END
model = "policy"
model_provider = "agentgym"
[model_providers.agentgym]
name = "agentgym"
base_url = "$OPENAI_BASE_URL"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
[mcp_servers.gym]
url = "$AGENTGYM_MCP_URL"
bearer_token_env_var = "AGENTGYM_TOKEN"
END
exec "${CODEX:-codex}" exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox "$1"
