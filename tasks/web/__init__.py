"""Web tasks: `web/apps-v1` on four applications, `web/forms-v1` and `web/long-form-v1` on forms, `web/cards-v1`."""

from .app_data import calendar, forum, mail, shop
from .cards import cards_task_set
from .forms import forms_task_set
from .long_form import long_form_task_set
from .task_set import task_set

__all__ = ["calendar", "cards_task_set", "forms_task_set", "forum", "long_form_task_set", "mail", "shop", "task_set"]
