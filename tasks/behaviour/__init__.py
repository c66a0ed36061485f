"""The task set `behaviour/shopping-v1`: what a shopper with habits does next. See CARD.md.

words.py     brands, kinds and colours
shop.py      products, pages, and where actions lead
shopper.py   habits, and whether a log gives them away
task_set.py  the tasks, and who plays them
"""

from .task_set import task_set

__all__ = ["task_set"]
