"""Logit hooks: which tokens may be sampled next.

known_tools.py  calls name tools that exist
protocol.py     calls and answers in an order that a formula allows (see methods/protocol)
nlpo.py         tokens that a slow copy of the policy holds likely
"""
