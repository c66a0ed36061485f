"""How calls are written in an agent's text. Each is registered in `agentgym.call_formats`; see contract.py."""
