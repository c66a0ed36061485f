"""Bundled environments, one folder each, written as a package of your own would be. Installed as agentgym.sandboxes."""
