"""GGUF, the files of llama.cpp and Ollama: a model in one becomes a checkpoint that can be trained.

convert.py   reads the file and writes the checkpoint        command.py   `agentgym model convert`
"""
