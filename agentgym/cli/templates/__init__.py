"""The files that `agentgym new environment` writes, with $names to fill in."""
