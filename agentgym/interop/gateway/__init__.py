"""The policy gateway: external agent programs play our tasks, and their policy is trained.

gateway.py           PolicyGateway, an engine: listens, and plays episodes through programs
sessions.py          the open episodes, each under its own token
programs.py          a program that is run for each episode: host_program.py, sandbox_program.py, program_end.py
program_loop.py      an episode whose turns are a program's requests; a rewritten history starts a new row
open_row.py          one row (context) of an episode; batch_wait.py, whether batches wait for its requests
open_requests.py     the open requests of an episode; refusals.py, the refused ones
auxiliary.py         requests beside the task, such as for a title
fields.py            the fields of requests that are obeyed, have no effect, or are refused
application.py       access checks and answers of requests
api.py               the common parts of the four APIs; chat.py, the form they are parsed into
chat_completions.py, responses.py, anthropic_messages.py, generate_content.py  one API each
"""

from agentgym.moved import moved_names

from .gateway import PolicyGateway as PolicyGateway  # named by the entry point

__getattr__ = moved_names(__name__)
