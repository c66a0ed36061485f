"""Customer service: a policy document, tools over records, and a customer with a hidden goal.

retail.py, travel.py, telecom.py  a domain each: its policy and its tools; telecom has a device in the customer's hand
customer.py                       the scripted customer
environment.py                    `agentgym/service-v1`
"""

from .environment import Service

__all__ = ["Service"]
