"""Web tasks: `web/apps-v1` and `-v2` on four applications, `web/forms-v1`, `web/long-form-v1`, `web/cards-v1`."""

from .app_data import calendar, forum, mail, shop
from .cards import cards_task_set
from .forms import forms_task_set
from .long_form import long_form_task_set
from .task_set import task_set, task_set_v2

__all__ = [
    "calendar",
    "cards_task_set",
    "forms_task_set",
    "forum",
    "long_form_task_set",
    "mail",
    "shop",
    "task_set",
    "task_set_v2",
]
