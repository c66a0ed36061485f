"""Call formats, written like a user's own format. Installed as agentgym.formats.

react.py, tags.py   belong to no family of models
blocks.py           calls between an opening and a closing mark, as most families write them
marked.py           arguments one by one between marks, as GLM, MiniMax and Qwen's coders write them
literals.py         values as Python or Gemma writes them

`hermes`, which the framework itself falls back to, is in agentgym.policy.formats.
"""
