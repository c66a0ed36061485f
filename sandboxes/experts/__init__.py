"""Questions of several fields, and models that may be asked, each at a price. See docs/environments/text-and-apps.md.

environment.py `agentgym/experts-v1`
models.py      the models: what each knows, and what it costs
knowledge.py   the fields: their questions and right answers
"""

from .environment import AskExperts
from .knowledge import Field
from .models import Expert

__all__ = ["AskExperts", "Expert", "Field"]
