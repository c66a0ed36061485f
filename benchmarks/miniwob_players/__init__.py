"""Scripted players of MiniWoB++: each reads the request and solves its page with the tools of web-v1 or web-v2.

A player may read the page's elements by a script (and the pixels of a picture, if there is nothing else), but acts only
with an agent's tools. `PLAYERS` names the player of each task.
"""

from __future__ import annotations

from . import buttons, choices, drags, errands, fields, mail, menus, shapes, timing
from .page import Page, Stuck, Unclear
from .table import PLAYERS, Player, environment_of

__all__ = ["PLAYERS", "Page", "Player", "Stuck", "Unclear", "environment_of"]

FAMILIES = (buttons, choices, drags, errands, fields, mail, menus, shapes, timing)
"""Modules that register their players when imported."""
