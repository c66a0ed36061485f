"""Call formats of model families, written like a user's own format. Installed as agentgym.formats.

blocks.py     calls between an opening and a closing mark, as most families write them
marked.py     arguments one by one between marks, as GLM, MiniMax and Qwen's coders write them
literals.py   values as Python or Gemma writes them

The framework's own formats, which belong to no family, are in agentgym.policy.formats: hermes, react, tags.
"""
