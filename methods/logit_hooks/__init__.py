"""Logit hooks: restrict which tokens may be sampled next.

known_tools.py  calls must name existing tools
protocol.py     calls and answers in an order that a formula allows (see methods/protocol)
nlpo.py         only tokens that a slow copy of the policy considers likely
"""
