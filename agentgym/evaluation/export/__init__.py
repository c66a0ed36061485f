"""Write episodes in the formats of other tools: Parquet files for `datasets`, and conversations as chat messages.

A package adds a format under the entry-point group `agentgym.exporters`: a function that takes an `Evaluation`, its
episodes and the path of the file to write, and returns the number of episodes written.
"""

from agentgym.evaluation.export.chat import ConversationEntry as ConversationEntry
from agentgym.evaluation.export.chat import conversation as conversation
from agentgym.evaluation.export.parquet import row_of_episode as row_of_episode
from agentgym.moved import moved_names

__getattr__ = moved_names(__name__)
