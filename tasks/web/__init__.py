"""Web tasks: on four applications of our own, on two from the package index, on forms of one or many pages, on cards,
and on a help desk.
"""

from .admin_site import django_admin, users
from .admin_tasks import admin_task_set
from .app_data import calendar, forum, mail, shop
from .cards import cards_task_set
from .desk import desk_task_set, help_desk
from .forms import forms_task_set
from .long_form import long_form_task_set
from .task_set import task_set, task_set_v2
from .wiki_site import flask_wiki, wiki_pages
from .wiki_tasks import wiki_task_set

__all__ = [
    "admin_task_set",
    "calendar",
    "cards_task_set",
    "desk_task_set",
    "django_admin",
    "flask_wiki",
    "forms_task_set",
    "forum",
    "help_desk",
    "long_form_task_set",
    "mail",
    "shop",
    "task_set",
    "task_set_v2",
    "users",
    "wiki_pages",
    "wiki_task_set",
]
