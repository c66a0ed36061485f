"""Django's own administration of users and groups, turned into a site by a few files; its users come from a seed."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

from agentgym import seed_of

from .site_archive import site_archive
from .words import address_of, words_of

USERS, GROUPS = 7, 4
_RUN = ["--settings", "site_settings", "--noreload", "--skip-checks", "--insecure"]  # insecure: serve style sheets
SITE: dict[str, Any] = {
    "site": "server",
    "folder": "web/django-admin",
    "packages": ["django"],
    "command": ["python3", "-m", "django", "runserver", *_RUN, "127.0.0.1:{port}"],
    "setup": ["python3", "prepare.py"],
    "state": ["python3", "state.py"],
    "page": "admin/",
    "viewport": [1000, 700],
}
"""The parameters that all tasks share."""
_SETTINGS = """\
'''Settings of a Django site that is nothing but Django's own administration of users and groups.'''

SECRET_KEY = "only for episodes"
DEBUG = True
ALLOWED_HOSTS = ["app.test"]
ROOT_URLCONF = "site_urls"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "site_urls.SignedIn",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.db"}}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STATIC_URL = "/static/"
USE_TZ = True
"""
_URLS = """\
'''The addresses of the site, and the signing in of the one who administers it.'''

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls)]


class SignedIn:
    '''Middleware that signs every request in as the superuser `admin`.'''

    def __init__(self, get_response):
        self._get_response = get_response

    def __call__(self, request):
        request.user = get_user_model().objects.get(username="admin")
        return self._get_response(request)
"""
_PREPARE = """\
'''Creates the database and puts the users and groups of data.json into it.'''

import json
import os
from datetime import datetime, timezone

os.environ["DJANGO_SETTINGS_MODULE"] = "site_settings"

import django

django.setup()

from django.contrib.auth.models import Group, User
from django.core.management import call_command

call_command("migrate", verbosity=0)
with open("data.json", encoding="utf-8") as file:
    data = json.load(file)
joined = datetime(2025, 1, 1, 12, tzinfo=timezone.utc)
User.objects.create_superuser("admin", "admin@site.test", date_joined=joined)
groups = {name: Group.objects.create(name=name) for name in data["groups"]}
for user in data["users"]:
    fields = {key: value for key, value in user.items() if key != "groups"}
    member = User.objects.create(date_joined=joined, **fields)
    member.groups.set([groups[name] for name in user["groups"]])
"""
_STATE = """\
'''Prints the users and the groups as JSON, read from the database.'''

import json
import sqlite3

database = sqlite3.connect("site.db")


def linked(table, owner, other):
    '''The names of what each row is linked to, by its number.'''
    rows = database.execute(f"SELECT l.{owner}_id, o.name FROM {table} l JOIN {other} o ON o.id = l.{other[5:]}_id")
    names = {}
    for number, name in sorted(rows):
        names.setdefault(number, []).append(name)
    return names


groups_of = linked("auth_user_groups", "user", "auth_group")
user_permissions = linked("auth_user_user_permissions", "user", "auth_permission")
group_permissions = linked("auth_group_permissions", "group", "auth_permission")
columns = "id, username, email, first_name, last_name, is_active, is_staff, is_superuser, password, date_joined"
users = {}
for number, username, email, first, last, active, staff, superuser, password, joined in database.execute(
    f"SELECT {columns} FROM auth_user"
):
    users[username] = {
        "email": email,
        "name": f"{first} {last}",
        "active": active,
        "staff": staff,
        "superuser": superuser,
        "password": password,
        "joined": joined[:19],
        "groups": groups_of.get(number, []),
        "permissions": user_permissions.get(number, []),
    }
rows = database.execute("SELECT id, name FROM auth_group")
groups = {name: group_permissions.get(number, []) for number, name in rows}
print(json.dumps({"users": users, "groups": groups}))
"""


def django_admin() -> bytes:
    """The folder of the site as a zip: settings, addresses, and the commands that make and print its database."""
    return site_archive(
        {"site_settings.py": _SETTINGS, "site_urls.py": _URLS, "prepare.py": _PREPARE, "state.py": _STATE}
    )


def users(seed: int = 0) -> bytes:
    """The users and the groups of a seed as JSON."""
    return (json.dumps(users_data(seed), sort_keys=True) + "\n").encode()


@cache
def users_data(seed: int) -> dict[str, Any]:
    """Return users, some of them inactive, and groups. The last group has no members."""
    rng, words = random.Random(seed_of("web/users", seed)), words_of(seed)
    groups = rng.sample([f"{location} team" for location in words.places], GROUPS)
    members = []
    for person in rng.sample(words.people, USERS):
        first, last = person.split()
        members.append(
            {
                "username": f"{first[0]}{last}{rng.randint(10, 99)}".lower(),
                "email": address_of(person, words),
                "first_name": first,
                "last_name": last,
                "is_active": rng.random() < 0.7,
                "groups": rng.sample(groups[:-1], rng.randint(0, 2)),
            }
        )
    return {"groups": groups, "users": members}
