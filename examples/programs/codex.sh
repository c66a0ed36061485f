#!/bin/sh
# Codex as a program: npm install @openai/codex (tried with 0.171), then --program "sh codex.sh {task}" with whole paths.
# Its shell runs here, with your own rights. Its home is the episode's folder, which is deleted.
export CODEX_HOME="$PWD/home"
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
