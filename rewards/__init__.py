"""Bundled rewards, one judge a file. Installed as agentgym.rewards."""
