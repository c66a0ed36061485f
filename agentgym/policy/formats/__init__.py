"""Call formats: how an agent's text writes calls. Each is registered in `agentgym.call_formats`; see contract.py."""
