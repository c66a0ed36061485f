"""Web tasks: on four applications, on Django's administration, on forms of one page and of many, on cards."""

from .admin_site import django_admin, users
from .admin_tasks import admin_task_set
from .app_data import calendar, forum, mail, shop
from .cards import cards_task_set
from .forms import forms_task_set
from .long_form import long_form_task_set
from .task_set import task_set, task_set_v2

__all__ = [
    "admin_task_set",
    "calendar",
    "cards_task_set",
    "django_admin",
    "forms_task_set",
    "forum",
    "long_form_task_set",
    "mail",
    "shop",
    "task_set",
    "task_set_v2",
    "users",
]
