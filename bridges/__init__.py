"""Bridges: exchange with other systems, one file or folder per system.

Installed as `agentgym.bridges`. The files import only public names of agentgym, and need the extra of their system.
"""
