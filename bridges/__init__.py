"""Bridges: exchange with other systems, one system a folder.

Installed as `agentgym.bridges`. The files import public names of agentgym alone, and need the extra of their system.
"""
