"""Customer service: a policy document, tools over records, and a customer with a hidden goal.

retail.py, travel.py, telecom.py  one domain each: its policy and tools; in telecom the customer also has a telephone
customer.py                       the scripted customer
environment.py                    `agentgym/service-v1`
"""

from .environment import Service

__all__ = ["Service"]
