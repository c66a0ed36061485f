"""Web tasks: `web/apps-v1` on a shop, a mailbox, a forum and a calendar; `web/forms-v1` on single forms."""

from .forms import forms_task_set
from .task_set import task_set
from .worlds import calendar, forum, mail, shop

__all__ = ["calendar", "forms_task_set", "forum", "mail", "shop", "task_set"]
