"""Bundled rewards, one judge per file. Installed as agentgym.rewards."""
