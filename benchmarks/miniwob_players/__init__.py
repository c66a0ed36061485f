"""Scripted players of MiniWoB++: each reads what is asked and solves its page by the tools of web-v1 or web-v2.

A player may look at the page's elements by a script (and, where a picture is all there is, at its pixels); what it
does, it does by the tools that an agent has. `PLAYERS` names the player of each task.
"""

from __future__ import annotations

from . import buttons, choices, drags, errands, fields, mail, menus, shapes, timing
from .page import Page, Stuck, Unclear
from .table import PLAYERS, Player, environment_of

__all__ = ["PLAYERS", "Page", "Player", "Stuck", "Unclear", "environment_of"]

FAMILIES = (buttons, choices, drags, errands, fields, mail, menus, shapes, timing)
"""Importing one registers its players."""
