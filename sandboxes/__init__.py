"""Bundled environments, one folder each, written like a user's own package. Installed as agentgym.sandboxes."""
