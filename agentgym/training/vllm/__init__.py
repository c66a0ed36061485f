"""A vLLM server samples the model that is trained.

check.py       whether the server can do what training asks of it
base_model.py  whether it has the base model of the adapter that is trained
engine.py      the server's weights follow those of this process
"""
