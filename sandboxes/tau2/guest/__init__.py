"""Runs inside the sandbox, in place of the packages that the domains of tau2-bench import. Standard library only.

models.py     the part of pydantic that they use
values.py     the values of its fields
schemas.py    what a model is told of their tools
framework.py  the part of tau2 itself, and of loguru
tools.py      Tau2Tools: a domain as one object whose methods are called
"""
