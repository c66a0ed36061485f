"""Files are pushed to and pulled from folders, git repositories and Hugging Face, and a revision is what it was."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from agentgym import Task, TaskSet
from agentgym.bridges.exchange.files import pull, push
from agentgym.bridges.exchange.remotes import Address, ExchangeError
from agentgym.cli.app import app


@pytest.fixture
def tasks(tmp_path) -> Path:
    """A task set whose tasks name a file and a folder beside it."""
    (tmp_path / "data" / "pages").mkdir(parents=True)
    (tmp_path / "data" / "shop.sqlite").write_bytes(b"\0rows")
    (tmp_path / "data" / "pages" / "a.txt").write_text("a page")
    (tmp_path / "data" / "not-named.txt").write_text("stays")
    parameters = [{"database": "data/shop.sqlite"}, {"corpus": "data/pages"}]
    rows = [Task(f"t{n}", "agentgym/sql-v1", f"Question {n}?", parameters=p) for n, p in enumerate(parameters)]
    TaskSet("shop", {"train": rows}).to_jsonl(tmp_path / "shop.jsonl")
    return tmp_path / "shop.jsonl"


@pytest.fixture
def repository(tmp_path) -> str:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "there.git")], check=True)
    return f"git+file://{tmp_path / 'there.git'}"


@pytest.mark.parametrize("remote", ["folder", "git"])
def test_a_task_set_goes_and_comes_with_the_files_that_it_names(remote, tasks, repository, tmp_path):
    pushed = push(tasks, repository if remote == "git" else str(tmp_path / "there"))
    assert pushed.revision
    tasks.unlink()
    shutil.rmtree(tmp_path / "data")
    assert pull(str(pushed), tmp_path / "here") == pushed
    names = sorted(path.relative_to(tmp_path / "here").as_posix() for path in (tmp_path / "here").rglob("*.*"))
    assert names == ["README.md", "data/pages/a.txt", "data/shop.sqlite", "shop.jsonl"]
    task = TaskSet.from_jsonl(tmp_path / "here" / "shop.jsonl")["train"][0]
    assert Path(task.parameters["database"]).read_bytes() == b"\0rows"
    alone = pull(f"{pushed}#shop.jsonl", tmp_path / "alone.jsonl")
    assert (tmp_path / "alone.jsonl").read_text() == (tmp_path / "here" / "shop.jsonl").read_text()
    assert alone.revision == pushed.revision


def test_a_revision_of_git_stays_what_it_was(tmp_path, repository):
    source = tmp_path / "package"
    source.mkdir()
    for hidden in (".env", ".git/config", "__pycache__/a.pyc", "dist/a.whl"):
        (source / hidden).parent.mkdir(exist_ok=True)
        (source / hidden).write_text("secret")
    (source / "a.py").write_text("1")
    first = push(source, repository)
    assert push(source, repository) == first, "nothing has changed"
    (source / "a.py").write_text("2")
    (source / "b.py").write_text("new")
    second = push(source, repository, message="Add b")
    other = push(source / "b.py", f"{repository}@other/branch")
    seen = {}
    for name, address in {"first": str(first), "second": repository, "other": f"{repository}@other/branch"}.items():
        pinned = pull(address, tmp_path / name)
        files = {path.name: path.read_text() for path in (tmp_path / name).iterdir()}
        seen[name] = (pinned.revision, {key: text for key, text in files.items() if key != "README.md"})
    assert seen == {
        "first": (first.revision, {"a.py": "1"}),
        "second": (second.revision, {"a.py": "2", "b.py": "new"}),
        "other": (other.revision, {"b.py": "new"}),
    }
    listed = ["git", "--git-dir", repository.removeprefix("git+file://"), "log", "--all", "--format=%s"]
    log = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    assert "Add b" in log.splitlines()


def test_a_folder_that_has_changed_is_not_what_was_pinned(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.txt").write_text("1")
    pinned = push(tmp_path / "source", str(tmp_path / "there"))
    (tmp_path / "there" / "a.txt").write_text("2")
    with pytest.raises(ExchangeError, match="has changed: its digest is sha256-"):
        pull(str(pinned), tmp_path / "here")
    with pytest.raises(ExchangeError, match="exists already"):
        push(tmp_path / "source", str(tmp_path / "there"))
    assert not (tmp_path / "here").exists()


def test_a_run_is_pushed_as_its_final_checkpoint_with_its_recipe_and_results(tmp_path):
    run = tmp_path / "run"
    (run / "checkpoints" / "final").mkdir(parents=True)
    (run / "evaluation").mkdir()
    (run / "recipe.toml").write_text('name = "a"\n')
    with pytest.raises(ExchangeError, match="There is no file or folder"):
        push(tmp_path / "nothing", str(tmp_path / "there"))
    (run / "checkpoints" / "final" / "model.safetensors").write_bytes(b"weights")
    (run / "ledger.sqlite").write_bytes(b"episodes stay here")
    (run / "evaluation" / "after.json").write_text(json.dumps({"rows": [{"success": [1.0, 0.0]}]}))
    push(run, str(tmp_path / "there"))
    there = {path.relative_to(tmp_path / "there").as_posix() for path in (tmp_path / "there").rglob("*.*")}
    assert there == {"README.md", "evaluation/after.json", "model.safetensors", "recipe.toml"}
    assert "after: 50.0% of 1 held-out tasks" in (tmp_path / "there" / "README.md").read_text()


def test_a_folder_is_not_taken_for_a_run_because_of_the_name_of_a_subfolder(tmp_path):
    for name in ("evaluation/a.py", "checkpoints/b.py", "pyproject.toml"):
        (tmp_path / "package" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "package" / name).write_text("")
    push(tmp_path / "package", str(tmp_path / "there"))
    there = {path.relative_to(tmp_path / "there").as_posix() for path in (tmp_path / "there").rglob("*.*")}
    assert there == {"README.md", "evaluation/a.py", "checkpoints/b.py", "pyproject.toml"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("git+ext::sh -c 'touch /tmp/owned'", "git is used with https, http, ssh, git, file and local paths only"),
        ("git+--upload-pack=touch", "local paths only"),
        ("hf:nobody", "Write hf:OWNER/NAME"),
        ("shared@--output=x", "cannot be a branch"),
        ("shared#../secret", "cannot be an address"),
        ("git+file:///nowhere.git", "git fetch of file:///nowhere.git failed"),
        ("nowhere", "There is no folder nowhere"),
    ],
)
def test_a_bad_address_is_one_message(text, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(app, ["pull", text, "--out", "here"], env={"COLUMNS": "300"})
    assert answer.exit_code == 2
    assert complaint in answer.output
    assert not (tmp_path / "here").exists()


def test_links_that_lead_out_are_neither_pushed_nor_pulled(tmp_path, repository):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    source = tmp_path / "source"
    source.mkdir()
    (source / "link").symlink_to(secret)
    with pytest.raises(ExchangeError, match="leads out of"):
        push(source, repository)
    clone = tmp_path / "clone"
    git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "clone", "--quiet", repository.removeprefix("git+"), str(clone)], check=True)
    (clone / "link").symlink_to(secret)
    for words in (["add", "."], ["commit", "--quiet", "-m", "a link"], ["push", "--quiet", "origin", "HEAD:main"]):
        subprocess.run([*git, *words], check=True)
    pull(f"{repository}@main", tmp_path / "here")
    assert (tmp_path / "here" / "link").read_text() == str(secret), "the link's text, not the file"


class Hub(BaseHTTPRequestHandler):
    """The part of Hugging Face's API that a push and a pull of small files use."""

    files: dict[str, bytes] = {}
    created: list[dict[str, object]] = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/api/repos/create":
            self.created.append(json.loads(body))
            self._answer({"url": f"http://{self.headers['Host']}/datasets/me/tasks"})
        elif self.path == "/api/validate-yaml":
            self._answer({"errors": [], "warnings": []})
        elif self.path.endswith("/preupload/main"):
            files = [
                {"path": row["path"], "uploadMode": "regular", "shouldIgnore": False}
                for row in json.loads(body)["files"]
            ]
            self._answer({"files": files})
        elif self.path.endswith("/commit/main"):
            rows = [json.loads(line) for line in body.splitlines()]
            for row in rows:
                if row["key"] == "file":
                    self.files[row["value"]["path"]] = base64.b64decode(row["value"]["content"])
            url = f"http://{self.headers['Host']}/datasets/me/tasks/commit/{'c' * 40}"
            self._answer({"commitUrl": url, "commitOid": "c" * 40})
        else:
            self._answer({}, 404)

    def do_GET(self):
        path = self.path.partition("?")[0]
        siblings = [{"rfilename": name, "size": len(data)} for name, data in self.files.items()]
        info = {"id": "me/tasks", "sha": "c" * 40, "siblings": siblings, "private": True, "tags": [], "downloads": 0}
        name = path.partition(f"/resolve/{'c' * 40}/")[2]
        if name in self.files:
            self._answer(self.files[name], headers={"X-Repo-Commit": "c" * 40})
        elif "/tree/" in path:
            rows = [
                {"type": "file", "path": row["rfilename"], "size": row["size"], "oid": "0" * 40} for row in siblings
            ]
            self._answer(rows)
        else:
            self._answer(info if "/api/datasets/me/tasks" in path else {}, 200 if "/api/" in path else 404)

    do_HEAD = do_GET

    def _answer(self, answer, status=200, headers=None):
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for key, value in {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', **(headers or {})}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_):
        pass


def test_a_repository_of_hugging_face_is_private_and_comes_back_at_its_commit(tasks, tmp_path):
    """Through the package huggingface_hub, in a process of its own: it reads its settings when it is imported."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        settings = {"HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "0", "HF_TOKEN": "t", "HF_HOME": str(tmp_path / "hf")}
        answers = []
        for words in (["push", str(tasks), "hf:datasets/me/tasks"], ["pull", "hf:datasets/me/tasks", "--out", "here"]):
            answers.append(run_command(words, tmp_path, settings))
        server.shutdown()
    assert answers == [f"hf:datasets/me/tasks@{'c' * 40}"] * 2
    assert [(row["name"], row["visibility"]) for row in Hub.created] == [("tasks", "private")]
    assert (tmp_path / "here" / "shop.jsonl").read_text() == tasks.read_text()
    assert (tmp_path / "here" / "data" / "shop.sqlite").read_bytes() == b"\0rows"


def run_command(words: list[str], folder: Path, settings: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "agentgym", *words],
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_an_address_is_read_and_written():
    for text in ("shared/tasks", "git+ssh://git@host/me/x.git@v1#a/b.jsonl", "hf:me/x@main", "git+https://host/x#p"):
        assert str(Address.parse(text)) == text
    assert Address.parse("git+ssh://git@host/me/x.git").revision is None
