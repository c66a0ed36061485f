"""Runs inside the sandbox, instead of the packages that tau2-bench's domains import. Standard library only.

models.py     the part of pydantic that they use
values.py     the values of its fields
schemas.py    the descriptions of their tools for a model
framework.py  the part of tau2 itself, and of loguru
knowledge.py  search in a domain's documents
tools.py      Tau2Tools: a domain as one object whose methods are called
"""
