"""A vLLM server samples the model that is trained.

check.py       whether the server can do what training asks of it
engine.py      the server's weights follow those of this process, and whether it has the base model of an adapter
"""
