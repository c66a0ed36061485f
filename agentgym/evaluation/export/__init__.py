"""Episodes in the formats of other tools: Parquet as `datasets` reads it, and conversations as chat messages.

A package adds a format of evaluations in the entry-point group `agentgym.exporters`: a function of an `Evaluation`, its
episodes and the path of the file to write, which returns how many episodes it wrote.
"""

from agentgym.evaluation.export.chat import ConversationEntry as ConversationEntry
from agentgym.evaluation.export.chat import conversation as conversation
from agentgym.evaluation.export.parquet import row_of_episode as row_of_episode
from agentgym.moved import moved_names

__getattr__ = moved_names(__name__)
