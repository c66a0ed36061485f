#!/bin/sh
# Codex as a program (tried with 0.171). In the sandbox of its episode: agentgym sandbox program npm:@openai/codex, then
# --program-where sandbox --program-package npm:@openai/codex --program-file codex.sh --program "sh {home}/codex.sh {task}".
# On this host its shell has your own rights: npm install @openai/codex, then --program "sh codex.sh {task}" with whole
# paths.
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
