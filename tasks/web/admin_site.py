"""Django's own administration of users and groups as a site: the few files around it, and the users of a seed."""

from __future__ import annotations

import io
import json
import random
import zipfile
from functools import cache
from typing import Any

from agentgym import seed_of

from .words import address_of, words_of

USERS, GROUPS = 7, 4
SITE: dict[str, Any] = {
    "site": "server",
    "folder": "web/django-admin",
    "packages": ["django"],
    "command": [
        "sh",
        "-c",
        "exec python3 -m django runserver --settings site_settings --noreload --insecure 127.0.0.1:{port}",
    ],
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

os.environ["DJANGO_SETTINGS_MODULE"] = "site_settings"

import django

django.setup()

from django.contrib.auth.models import Group, User
from django.core.management import call_command

call_command("migrate", verbosity=0)
with open("data.json", encoding="utf-8") as file:
    data = json.load(file)
User.objects.create_superuser("admin", "admin@site.test", "admin")
groups = {name: Group.objects.create(name=name) for name in data["groups"]}
for user in data["users"]:
    member = User.objects.create(**{key: value for key, value in user.items() if key != "groups"})
    member.groups.set([groups[name] for name in user["groups"]])
"""
_STATE = """\
'''Prints the users and the groups as JSON, read from the database.'''

import json
import sqlite3

database = sqlite3.connect("site.db")
groups = dict(database.execute("SELECT id, name FROM auth_group"))
members = database.execute("SELECT user_id, group_id FROM auth_user_groups").fetchall()
columns = "id, username, email, first_name, last_name, is_active, is_staff, is_superuser"
users = {}
for number, username, email, first, last, active, staff, superuser in database.execute(
    f"SELECT {columns} FROM auth_user"
):
    users[username] = {
        "email": email,
        "name": f"{first} {last}",
        "active": active,
        "staff": staff,
        "superuser": superuser,
        "groups": sorted(groups[group] for user, group in members if user == number),
    }
print(json.dumps({"users": users, "groups": dict.fromkeys(sorted(groups.values()), 1)}))
"""


def django_admin() -> bytes:
    """The folder of the site as a zip: settings, addresses, and the commands that make and print its database."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in (
            ("site_settings.py", _SETTINGS),
            ("site_urls.py", _URLS),
            ("prepare.py", _PREPARE),
            ("state.py", _STATE),
        ):
            archive.writestr(zipfile.ZipInfo(name), text)
    return packed.getvalue()


def users(seed: int = 0) -> bytes:
    """The users and the groups of a seed as JSON."""
    return (json.dumps(users_data(seed), sort_keys=True) + "\n").encode()


@cache
def users_data(seed: int) -> dict[str, Any]:
    """Users, of whom some are inactive, and groups. The last group has no members."""
    rng, words = random.Random(seed_of("web/users", seed)), words_of(seed)
    groups = rng.sample([f"{place} team" for place in words.places], GROUPS)
    made = []
    for person in rng.sample(words.people, USERS):
        first, last = person.split()
        made.append(
            {
                "username": f"{first[0]}{last}{rng.randint(10, 99)}".lower(),
                "email": address_of(person, words),
                "first_name": first,
                "last_name": last,
                "is_active": rng.random() < 0.7,
                "groups": rng.sample(groups[:-1], rng.randint(0, 2)),
            }
        )
    return {"groups": groups, "users": made}
