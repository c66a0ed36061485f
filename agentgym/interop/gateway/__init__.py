"""The policy gateway: agent programs that others wrote play our tasks, and are trained.

gateway.py           PolicyGateway, an engine: listens, and plays episodes through programs
sessions.py          the open episodes, each under a token of its own
programs.py          a program that is run for each episode
program_loop.py      an episode whose turns are a program's requests; rows where it rewrites its history
open_row.py          one of its contexts
application.py       which requests are let in, and what they are answered
api.py               what the three APIs have in common; chat.py, what they are read into
chat_completions.py, responses.py, anthropic_messages.py  one API each
"""

from .gateway import PolicyGateway
from .programs import AgentProgram

__all__ = ["AgentProgram", "PolicyGateway"]
