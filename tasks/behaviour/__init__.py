"""The task set `behaviour/shopping-v1`: what a shopper with habits does next. See CARD.md.

words.py     brands, kinds and colours
shop.py      products, pages, and the pages that actions lead to
shopper.py   habits, and whether a log reveals them
task_set.py  the tasks and their scripted players
"""

from .task_set import task_set

__all__ = ["task_set"]
