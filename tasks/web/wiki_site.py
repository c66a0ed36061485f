"""The wiki Flask-Wiki, turned into a site by a few files; its pages come from a seed."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

from agentgym import seed_of

from .site_archive import site_archive
from .words import words_of

HOME = "home"
SITE: dict[str, Any] = {
    "site": "server",
    "folder": "web/flask-wiki",
    "packages": ["flask-wiki"],
    "command": ["python3", "-m", "flask", "--app", "site_app", "run", "--port", "{port}"],
    "setup": ["python3", "prepare.py"],
    "state": ["python3", "state.py"],
    "page": "wiki/home/",
    "viewport": [1000, 700],
}
"""The parameters that all tasks share."""
_APP = """\
'''A Flask application that is nothing but the wiki.'''

import os

from flask import Flask
from flask_babel import Babel
from flask_bootstrap import Bootstrap4
from flask_wiki import Wiki

app = Flask(__name__)
app.config.update(
    SECRET_KEY="only for episodes",
    BOOTSTRAP_SERVE_LOCAL=True,
    WIKI_URL_PREFIX="/wiki",
    WIKI_LANGUAGES={"en": "English"},
    WIKI_CONTENT_DIR=os.path.abspath("pages"),
    WIKI_UPLOAD_FOLDER=os.path.abspath("pages/files"),
    WIKI_INDEX_DIR=os.path.abspath("index"),
)
Babel(app)
Bootstrap4(app)
Wiki(app)


@app.context_processor
def language():
    return {"CURRENT_LANGUAGE": "en"}
"""
_PREPARE = """\
'''Writes the pages of data.json and their index for the search.'''

import json
import os

from flask_wiki.api import get_wiki
from site_app import app

with open("data.json", encoding="utf-8") as file:
    pages = json.load(file)["pages"]
os.makedirs("pages/files")
for name, page in pages.items():
    path = f"pages/{name}.md"
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"title: {page['title']}\\ntags: {page['tags']}\\n\\n{page['body']}")
    os.utime(path, (1735732800, 1735732800))  # pages show it: the same in every episode
with app.test_request_context():  # pages are rendered, and their links need one
    get_wiki().init_search_index()
    get_wiki().index_all_pages()
"""
_STATE = """\
'''Prints the pages and the names of the uploaded files as JSON, read from the folder of the wiki.'''

import json
from pathlib import Path

root = Path("pages")
pages = {}
for path in root.rglob("*.md"):
    head, _, body = path.read_text(encoding="utf-8").partition("\\n\\n")
    fields = dict(line.partition(": ")[::2] for line in head.splitlines())
    pages[path.relative_to(root).as_posix()[:-3]] = {
        "title": fields.get("title", ""),
        "tags": fields.get("tags", ""),
        "body": body.strip(),
    }
print(json.dumps({"pages": pages, "files": {path.name: 1 for path in (root / "files").iterdir()}}))
"""


def flask_wiki() -> bytes:
    """Return the site's folder as a zip: the application, and the commands that write and print its pages."""
    return site_archive({"site_app.py": _APP, "prepare.py": _PREPARE, "state.py": _STATE})


def wiki_pages(seed: int = 0) -> bytes:
    """The pages of a seed as JSON."""
    return (json.dumps(wiki_data(seed), sort_keys=True) + "\n").encode()


@cache
def wiki_data(seed: int) -> dict[str, Any]:
    """Return pages by name: `home` links to places, which link to matters and to one page that does not exist yet.

    A page has `title`, `tags` and `body`. `places` maps a place's name to the names of its matters, `missing` a place's
    name to the title of the page that does not exist yet, and `keeper` a page's name to the person that the page names.
    """
    rng, words = random.Random(seed_of("web/wiki-pages", seed)), words_of(seed)
    pages: dict[str, dict[str, str]] = {}
    places: dict[str, list[str]] = {}
    missing: dict[str, str] = {}
    keepers: dict[str, str] = {}
    matters = rng.sample(words.matters, 8)
    occasions = rng.sample(words.occasions, 4)
    for title in rng.sample(words.places, 4):
        own = [matters.pop(), matters.pop()]
        name, occasion = _name_of(title), occasions.pop()
        places[name], missing[name] = [_name_of(matter) for matter in own], occasion
        keepers[name] = rng.choice(words.people)
        links = "\n".join(f"- [[{_name_of(linked)}|{linked[0].upper()}{linked[1:]}]]" for linked in (*own, occasion))
        pages[name] = {
            "title": title,
            "tags": rng.choice(words.topics),
            "body": f"{keepers[name]} has the key. It seats {rng.randint(10, 90)}.\n\n{links}",
        }
        for matter in own:
            person = keepers[_name_of(matter)] = rng.choice(words.people)
            pages[_name_of(matter)] = {
                "title": f"{matter[0].upper()}{matter[1:]}",
                "tags": rng.choice(words.topics),
                "body": f"Ask {person} about {matter}. Its file has the number {rng.randint(100, 999)}.",
            }
    links = "\n".join(f"- [[{name}|{pages[name]['title']}]]" for name in places)
    pages[HOME] = {"title": "Home", "tags": "", "body": f"What we know about our places:\n\n{links}"}
    return {"pages": pages, "places": places, "missing": missing, "keepers": keepers}


def _name_of(title: str) -> str:
    return title.lower().replace(" ", "-")
