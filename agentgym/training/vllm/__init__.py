"""Sample from the trained model through a vLLM server.

check.py       checks that the server supports what training needs
engine.py      updates the server's weights from this process, and checks the base model of an adapter
"""
