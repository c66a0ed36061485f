"""Bundled task sets, one folder each: a generator or data, its splits, and a card. Installed as agentgym.tasks."""
