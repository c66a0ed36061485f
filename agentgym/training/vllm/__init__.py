"""Samples from the trained model through a vLLM server."""
