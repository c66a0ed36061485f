"""Web tasks: `web/apps-v1` on four applications, `web/forms-v1` on single forms, `web/cards-v1` on cards."""

from .app_data import calendar, forum, mail, shop
from .cards import cards_task_set
from .forms import forms_task_set
from .task_set import task_set

__all__ = ["calendar", "cards_task_set", "forms_task_set", "forum", "mail", "shop", "task_set"]
