"""The places that files are pushed to and pulled from: a folder, a git repository, a repository of Hugging Face."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from agentgym import AgentGymError, MissingExtraError, install_command

GIT_S = 1800.0
_SCHEMES = ("https", "http", "ssh", "git", "file")
_REVISION = re.compile(r"[\w.][\w./-]*")
_HF = re.compile(r"(?:(datasets|spaces|models)/)?([\w.-]+/[\w.-]+)")


class ExchangeError(AgentGymError, OSError):
    """Files cannot be pushed or pulled."""


@dataclass(frozen=True, slots=True)
class Address:
    """`REMOTE[@REVISION][#PATH]`, where REMOTE is `git+URL`, `hf:[datasets/]OWNER/NAME` or a folder.

    Attributes:
        revision: a branch, tag or commit; for a folder, the digest of its files. None for the newest.
        path: a file or folder in the remote; "" for all of it.
    """

    remote: str
    revision: str | None = None
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address. Raises: ExchangeError for another form, a path that leads out, or a bad revision."""
        address, _, path = text.partition("#")
        after_host = address.find("/", address.find("://") + 3) if "://" in address else 0
        at = address.rfind("@", max(after_host, 0))
        remote, revision = (address[:at], address[at + 1 :]) if at > 0 else (address, None)
        if not remote or ".." in PurePosixPath(path).parts or path.startswith("/"):
            raise ExchangeError(
                f"{text!r} cannot be an address. Write REMOTE[@REVISION][#PATH]: a folder, git+URL or hf:OWNER/NAME."
            )
        if revision is not None and not _REVISION.fullmatch(revision):
            raise ExchangeError(f"{text!r}: {revision!r} cannot be a branch, tag, commit or digest.")
        return cls(remote, revision, path)

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        return f"{self.remote}{revision}" + (f"#{self.path}" if self.path else "")

    @contextmanager
    def opened(self) -> Iterator[Remote]:
        """Yield the remote. Its temporary files are removed at the end. Raises: ExchangeError."""
        with tempfile.TemporaryDirectory(prefix="agentgym-exchange-") as scratch:
            if self.remote.startswith("git+"):
                yield GitRepository(self.remote.removeprefix("git+"), Path(scratch))
            elif self.remote.startswith("hf:"):
                yield HubRepository(self.remote.removeprefix("hf:"), Path(scratch))
            else:
                yield SharedFolder(Path(self.remote))


class Remote(ABC):
    """Holds files under revisions."""

    @abstractmethod
    def files(self, revision: str | None) -> tuple[Path, str]:
        """Return a folder with all files at a revision, and the exact revision. Raises: ExchangeError."""

    @abstractmethod
    def replace(self, files: Path, revision: str | None, message: str, *, private: bool) -> str:
        """Make the files of a folder the remote's newest ones. Returns: the new revision. Raises: ExchangeError.

        Args:
            revision: the branch, if the remote has branches. message: says what is new.
            private: a new repository can be read by its owner alone, where the remote can do so.
        """


class SharedFolder(Remote):
    """A folder, whose revision is the digest of its files: if they have changed, what was pinned is refused."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self, revision: str | None) -> tuple[Path, str]:
        if not self._folder.is_dir():
            raise ExchangeError(f"There is no folder {self._folder}. Check the address.")
        digest = digest_of(self._folder)
        if revision not in (None, digest):
            raise ExchangeError(f"{self._folder} has changed: its digest is {digest}, not {revision}.")
        return self._folder, digest

    def replace(self, files: Path, revision: str | None, message: str, *, private: bool) -> str:
        if revision is not None:
            raise ExchangeError(f"{self._folder}@{revision}: a folder has no branches. Leave out @{revision}.")
        if self._folder.exists():
            raise ExchangeError(f"{self._folder} exists already. Name a new folder, or remove it.")
        partial = self._folder.with_name(f".{self._folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(files, partial)
        partial.rename(self._folder)
        return digest_of(self._folder)


class GitRepository(Remote):
    """A git repository: the program git reaches it with this user's own keys and passwords."""

    def __init__(self, url: str, scratch: Path) -> None:
        scheme = url.partition("://")[0] if "://" in url else "file"
        if scheme not in _SCHEMES or url.startswith("-") or "::" in url:
            raise ExchangeError(f"git+{url}: git is used with {', '.join(_SCHEMES)} and local paths only.")
        if shutil.which("git") is None:
            raise ExchangeError(f"git+{url} needs the program git, which is not installed.")
        self._url = url if "://" in url else str(Path(url).absolute())
        self._clone = scratch / "clone"

    def files(self, revision: str | None) -> tuple[Path, str]:
        try:
            self._fetch(revision or "HEAD")
        except ExchangeError as error:
            if revision is not None or "find remote ref HEAD" not in str(error):
                raise
            self._fetch("refs/heads/main")  # which `replace` makes, whatever HEAD names in a repository that was empty
        self._git("checkout", "--quiet", "--detach", "FETCH_HEAD")
        commit = self._git("rev-parse", "HEAD")
        shutil.rmtree(self._clone / ".git")
        return self._clone, commit

    def replace(self, files: Path, revision: str | None, message: str, *, private: bool) -> str:
        branch = revision or self._default_branch()
        try:
            self._fetch(f"refs/heads/{branch}")
            self._git("checkout", "--quiet", "--detach", "FETCH_HEAD")
        except ExchangeError:
            if self._git("ls-remote", "--heads", "--", self._url, branch):
                raise
        for path in self._clone.iterdir():
            if path.name != ".git":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(files, self._clone, dirs_exist_ok=True)
        self._git("add", "--all", "--force")
        if self._git("status", "--porcelain"):
            who = [] if self._git("config", "--get", "user.email", may_fail=True) else _NOBODY
            self._git(*who, "commit", "--quiet", "--message", message)
            self._git("push", "--quiet", "--", self._url, f"HEAD:refs/heads/{branch}")
        return self._git("rev-parse", "HEAD")

    def _default_branch(self) -> str:
        head = self._git("ls-remote", "--symref", "--", self._url, "HEAD")
        named = re.match(r"ref: refs/heads/(\S+)", head)
        return named[1] if named else "main"

    def _fetch(self, revision: str) -> None:
        try:
            self._git("fetch", "--quiet", "--depth=1", "--no-tags", "--", self._url, revision)
        except ExchangeError:  # an older server gives away no commit by its hash alone
            if not re.fullmatch(r"[0-9a-f]{7,40}", revision):
                raise
            self._git("fetch", "--quiet", "--", self._url, "+refs/heads/*:refs/remotes/origin/*")
            self._git("fetch", "--quiet", ".", self._git("rev-parse", "--verify", f"{revision}^{{commit}}"))

    def _git(self, *words: str, may_fail: bool = False) -> str:
        """Run git in the clone, which the first call creates. The repository's configuration cannot start a program."""
        if not self._clone.exists():
            self._clone.mkdir()
            self._git("init", "--quiet")
        command = ["git", "-c", "core.symlinks=false", "-c", "core.hooksPath=/dev/null", *words]
        allowed = {"GIT_ALLOW_PROTOCOL": ":".join(_SCHEMES), "GIT_TERMINAL_PROMPT": "0"}
        options: dict[str, Any] = dict(capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
        try:
            done = subprocess.run(
                command, cwd=self._clone, env={**os.environ, **allowed}, timeout=GIT_S, check=False, **options
            )
        except subprocess.TimeoutExpired as error:
            raise ExchangeError(f"git {words[0]} of {self._url} took more than {GIT_S:g} s.") from error
        if done.returncode and not may_fail:
            last = " ".join(done.stderr.strip().splitlines()[-3:])
            raise ExchangeError(f"git {words[0]} of {self._url} failed: {last or f'exit code {done.returncode}'}")
        return str(done.stdout).strip()


_NOBODY = ["-c", "user.name=agentgym", "-c", "user.email=agentgym@localhost"]


class HubRepository(Remote):
    """A repository of Hugging Face, of a model unless its name begins with `datasets/` or `spaces/`.

    HF_TOKEN and HF_ENDPOINT are those of the package huggingface_hub.
    """

    def __init__(self, name: str, scratch: Path) -> None:
        known = _HF.fullmatch(name)
        if known is None:
            raise ExchangeError(f"hf:{name} does not name a repository. Write hf:OWNER/NAME or hf:datasets/OWNER/NAME.")
        if find_spec("huggingface_hub") is None:
            raise MissingExtraError(
                f"hf:{name} needs the package huggingface_hub, which is not installed. Run: {install_command('hub')}"
            )
        self._kind, self._name, self._scratch = (known[1] or "models").removesuffix("s"), known[2], scratch

    def files(self, revision: str | None) -> tuple[Path, str]:
        from huggingface_hub import HfApi

        with self._named_errors("pulled"):
            api = HfApi()
            exact = api.repo_info(self._name, repo_type=self._kind, revision=revision).sha
            folder = self._scratch / "files"  # not the package's cache, whose files are links
            api.snapshot_download(self._name, repo_type=self._kind, revision=exact, local_dir=folder)
        shutil.rmtree(folder / ".cache", ignore_errors=True)
        return folder, str(exact)

    def replace(self, files: Path, revision: str | None, message: str, *, private: bool) -> str:
        from huggingface_hub import HfApi

        api = HfApi()
        with self._named_errors("pushed"):
            api.create_repo(self._name, repo_type=self._kind, private=private, exist_ok=True)
            if revision is not None:
                api.create_branch(self._name, repo_type=self._kind, branch=revision, exist_ok=True)
            done = api.upload_folder(
                repo_id=self._name,
                repo_type=self._kind,
                folder_path=files,
                revision=revision,
                commit_message=message,
                delete_patterns="*",
            )
        return str(done.oid)

    @contextmanager
    def _named_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, RuntimeError) as error:  # the package's errors, httpx's among them
            raise ExchangeError(f"hf:{self._name} cannot be {what}: {type(error).__name__}: {error}") from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(folder: Path) -> str:
    """Return `sha256-` and 32 hexadecimal digits of the names and contents of all files."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = _sha256(path)
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return f"sha256-{digest.hexdigest()[:32]}"
