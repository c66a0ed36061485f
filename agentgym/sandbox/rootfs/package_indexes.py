"""The package indexes that this host is set up to use, for the sandboxes in which images are built.

apt, pip and npm are asked for their indexes, so every form of configuration counts that they read. Their hosts make an
allow list. A host's own index often has a private address; it may be reached, because this host's owner named it, but
only at the addresses that its name has now. A Dockerfile cannot add to the list.
"""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from agentgym.errors import SandboxError
from agentgym.sandbox.allow_list import Address, AllowList
from agentgym.sandbox.network.addresses import addresses_of, is_own, why_not_public

INDEX_FOLDER = "/tmp/package-indexes"
"""The folder of `PackageIndexes.files` in a sandbox. Remove it before the sandbox's files are kept."""
_ASK_S = 60.0
_DEFAULT_INDEX = re.compile(r"\(default\s+(https?://\S+?)\)")
_HREF = re.compile(r"""href\s*=\s*["']([^"'#]+)""", re.I)
_BUNDLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
_BUNDLE_VARIABLES = (*_BUNDLES, "GIT_SSL_CAINFO")
_MAX_BUNDLE = 8 << 20
_MAX_FILE_HOSTS = 8


@dataclass(frozen=True, slots=True)
class AptSource:
    """One component of an apt source: such as the component main of the suite bookworm at a URI."""

    uri: str
    suite: str
    component: str


@dataclass(frozen=True, slots=True)
class PackageIndexes:
    """What a sandbox needs to install packages as this host does.

    Attributes:
        network: the rules for `SandboxSpec.network`.
        environment: the variables of every command that installs.
        files: the files that the variables name, by path.
    """

    network: tuple[str, ...]
    environment: Mapping[str, str]
    files: Mapping[str, bytes]


def package_indexes(allow: Sequence[str] = ()) -> PackageIndexes:
    """Ask apt, pip and npm of this host for their indexes. Takes about two seconds.

    User names and passwords in URLs are not passed on, because a sandbox's code could read them.

    Args:
        allow: further rules, as `SandboxSpec.network` has them.
    Raises: SandboxError for an invalid rule.
    """
    AllowList.parse(allow)
    settings = _pip_settings()
    bundle = _certificates(settings)
    indexes = _pip_indexes(settings)
    registry = _web_urls([_answer(["npm", "config", "get", "registry"])])
    named = [*_web_urls(source.uri for source in apt_sources()), *indexes, *registry]
    rules = [rule for url in named for rule in _rules(url)]
    rules += [rule for index in indexes for rule in _file_rules(index, bundle)]
    environment = {"APT_CONFIG": f"{INDEX_FOLDER}/apt.conf", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if indexes:
        environment["PIP_INDEX_URL"] = indexes[0].geturl()
        environment["PIP_EXTRA_INDEX_URL"] = " ".join(url.geturl() for url in indexes[1:])
        environment["UV_DEFAULT_INDEX"] = indexes[0].geturl()
    if trusted := settings.get("trusted-host"):
        environment["PIP_TRUSTED_HOST"] = trusted
    if registry:
        environment["NPM_CONFIG_REGISTRY"] = registry[0].geturl()
    lines = ['APT::Sandbox::User "root";', 'Acquire::Retries "3";', 'DPkg::Use-Pty "0";']
    files = {}
    if bundle is not None:
        path = f"{INDEX_FOLDER}/certificates.pem"
        files[path] = bundle.read_bytes()
        environment |= dict.fromkeys(_BUNDLE_VARIABLES, path)
        lines.append(f'Acquire::https::CAInfo "{path}";')
    files[environment["APT_CONFIG"]] = "".join(f"{line}\n" for line in lines).encode()
    return PackageIndexes(tuple(dict.fromkeys([*rules, *allow])), environment, files)


def apt_sources() -> list[AptSource]:
    """Return the sources of packages that apt of this host is set up to use; empty without apt."""
    with tempfile.TemporaryDirectory() as lists:  # apt lists what it would fetch, so it needs no list it has fetched
        (Path(lists) / "partial").mkdir()
        template = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
        command = ["apt-get", "indextargets", "--no-release-info", "--format", template, "Created-By: Packages"]
        answer = _answer([*command, "-o", f"Dir::State::Lists={lists}"])
    rows = (line.split(" ") for line in answer.splitlines())
    return list(dict.fromkeys(AptSource(*row) for row in rows if len(row) == 3))


def _pip_indexes(settings: Mapping[str, str]) -> list[SplitResult]:
    """Return the URLs of pip's index and of its extra indexes; empty without pip. Those of files are left out."""
    default = _DEFAULT_INDEX.search(_answer([*_pip(), "install", "--help"], COLUMNS="1000"))
    first = settings.get("index-url") or (default[1] if default else "")
    return _web_urls([first, *settings.get("extra-index-url", "").split()])


def _pip() -> list[str]:
    own = [sys.executable, "-m", "pip"]
    return own if _answer([*own, "--version"]) else [shutil.which("pip3") or "pip"]


def _pip_settings() -> dict[str, str]:
    """Return pip's settings by name; of several places those count that pip itself prefers."""
    ranked: list[tuple[int, str, str]] = []
    for line in _answer([*_pip(), "config", "list"]).splitlines():
        source, _, rest = line.partition(".")
        name, _, value = rest.partition("=")
        if source in ("global", "install", ":env:"):
            ranked.append((("global", "install", ":env:").index(source), name, value.strip("'\"").replace("\\n", " ")))
    return {name: value for _, name, value in sorted(ranked)}


def _certificates(settings: Mapping[str, str]) -> Path | None:
    """Return the file of certificate authorities that this host's owner has named for downloads; None for none."""
    named = [settings.get("cert", ""), *(os.environ.get(name, "") for name in _BUNDLES)]
    for path in map(Path, filter(None, named)):
        if path.is_file() and path.stat().st_size <= _MAX_BUNDLE:
            return path
    return None


def _file_rules(index: SplitResult, bundle: Path | None) -> list[str]:
    """Return the rules for the hosts at which an index of pip keeps its files, which its pages name.

    They may lead to public addresses, and to those of the index itself.
    """
    import httpx

    page = f"{index.geturl().rstrip('/')}/pip/"
    accepted = "application/vnd.pypi.simple.v1+json, text/html;q=0.1"
    context = ssl.create_default_context(cafile=bundle)
    try:
        answer = httpx.get(page, headers={"Accept": accepted}, verify=context, timeout=20, follow_redirects=True)
        if "json" in answer.headers.get("content-type", ""):
            links = [str(file["url"]) for file in answer.json()["files"]]
        else:
            links = _HREF.findall(answer.text)
        own = addresses_of(index.hostname or "", index.port or 443)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, KeyError, TypeError):
        return []
    hosts = {url.netloc: url for url in _web_urls(links)}
    return [rule for url in list(hosts.values())[:_MAX_FILE_HOSTS] for rule in _rules(url, among=own)]


def _rules(url: SplitResult, among: Sequence[Address] | None = None) -> list[str]:
    """Return the rules for a host. `among`: the addresses that it may lead to although they are not public; without
    it, all but those that are this machine's or a cloud's own.
    """
    host, port = url.hostname or "", f":{url.port}" if url.port else ""
    try:
        addresses = addresses_of(host, url.port or 443)
        literal = AllowList.parse([f"[{host}]" if ":" in host else host]).entries[0].address
    except OSError:
        return [f"{host}{port}"]
    except SandboxError:
        return []
    if literal is not None:
        is_allowed = among is None or literal in among or not why_not_public(literal)
        return [f"{f'[{host}]' if ':' in host else host}{port}"] if is_allowed else []
    if any(not why_not_public(address) for address in addresses):
        return [f"{host}{port}"]
    allowed = [address for address in addresses if (address in among if among is not None else _may_serve(address))]
    return [f"{host}{port}={address}" for address in allowed] or [f"{host}{port}"]


def _may_serve(address: Address) -> bool:
    """Return whether a name of an index may lead here: not to this machine, nor to a cloud's metadata service."""
    inside = address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast
    return not (inside or is_own(address))


def _web_urls(texts: Iterable[str]) -> list[SplitResult]:
    """Return the URLs of HTTP and HTTPS among texts, without user names and passwords.

    `localhost` is written as its address, because in a sandbox the name means the sandbox.
    """
    urls = []
    for text in texts:
        try:
            url = urlsplit(text.strip())
            host, port = url.hostname, url.port
        except ValueError:
            continue
        if url.scheme in ("http", "https") and host:
            host = "127.0.0.1" if host == "localhost" else f"[{host}]" if ":" in host else host
            urls.append(url._replace(netloc=f"{host}:{port}" if port else host))
    return urls


def _answer(command: list[str], **environment: str) -> str:
    """Return what a program of this host prints; empty if it is missing or fails."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASK_S,
            check=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
