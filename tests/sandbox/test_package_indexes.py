"""Which package indexes a build may reach: those that this host's own configuration names, and no others."""

from __future__ import annotations

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agentgym.errors import SandboxError
from agentgym.sandbox.allow_list import AllowList
from agentgym.sandbox.rootfs import package_indexes
from agentgym.sandbox.rootfs.package_indexes import AptSource, apt_sources

LINES = """deb [arch=amd64] http://127.0.0.1:1/debian stable main contrib
# deb http://127.0.0.9/never stable main
deb-src http://127.0.0.1:1/debian stable main
"""
DEB822 = """Types: deb
URIs: http://127.0.0.1:2/more
Suites: stable stable-updates
Components: main
"""


class Index(BaseHTTPRequestHandler):
    """A package index whose pages name `links`."""

    links: tuple[str, ...] = ()

    def do_GET(self) -> None:
        body = "".join(f'<a href="{link}">x</a>' for link in self.links).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host whose configuration of pip, npm and certificates is empty; returns a folder for programs on its PATH."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "NPM_", "npm_")) or name.endswith(("_CERTS", "_BUNDLE", "CERT_FILE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("NPM_CONFIG_USERCONFIG", str(tmp_path / "npmrc"))
    (tmp_path / "apt").mkdir()
    (tmp_path / "apt.conf").write_text(f'Dir::Etc "{tmp_path}/apt/";\n')
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    return tmp_path


@pytest.fixture
def index():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(not Path("/usr/bin/apt-get").exists(), reason="apt is not installed")
def test_apt_is_asked_whatever_the_form_of_its_sources(host):
    (host / "apt" / "sources.list").write_text(LINES)
    (host / "apt" / "sources.list.d").mkdir()
    (host / "apt" / "sources.list.d" / "more.sources").write_text(DEB822)
    assert set(apt_sources()) == {
        AptSource("http://127.0.0.1:1/debian/", "stable", "main"),
        AptSource("http://127.0.0.1:1/debian/", "stable", "contrib"),
        AptSource("http://127.0.0.1:2/more/", "stable", "main"),
        AptSource("http://127.0.0.1:2/more/", "stable-updates", "main"),
    }
    assert {"127.0.0.1:1", "127.0.0.1:2"} <= set(package_indexes().network)


def test_an_address_of_this_machine_is_allowed_only_where_the_configuration_names_it(host, index, monkeypatch):
    """The index names, as the places of its files, this machine's metadata service and a port it does not serve."""
    monkeypatch.setattr(Index, "links", ("http://169.254.169.254/a.whl", "http://10.1.2.3:22/b.whl", "c.whl"))
    monkeypatch.setenv("PIP_INDEX_URL", f"http://localhost:{index.server_port}/simple")
    indexes = package_indexes()
    assert f"127.0.0.1:{index.server_port}" in indexes.network
    assert not [rule for rule in indexes.network if rule.startswith(("169.", "10."))]
    assert indexes.environment["PIP_INDEX_URL"] == f"http://127.0.0.1:{index.server_port}/simple"
    assert not any(":22" in rule for rule in indexes.network)


@pytest.mark.parametrize(
    ("addresses", "rules"),
    [
        pytest.param(["10.0.0.5"], ["index.test:8443=10.0.0.5"], marks=pytest.mark.thorough),
        (["10.0.0.5", "fd00::7"], ["index.test:8443=10.0.0.5", "index.test:8443=fd00::7"]),
        (["93.184.216.34", "10.0.0.5"], ["index.test:8443"]),
        pytest.param(["127.0.0.1"], ["index.test:8443"], marks=pytest.mark.thorough),
        (["169.254.169.254", "::1", "0.0.0.0"], ["index.test:8443"]),
        pytest.param([], ["index.test:8443"], marks=pytest.mark.thorough),
    ],
)
def test_a_name_leads_to_the_private_address_that_it_has_but_never_to_this_machine(host, monkeypatch, addresses, rules):
    def resolver(name, port, **_):
        if name != "index.test" or not addresses:
            raise OSError("no such name")
        return [(0, 0, 0, "", (address, port)) for address in addresses]

    monkeypatch.setattr("socket.getaddrinfo", resolver)
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.test:8443/simple")
    network = package_indexes().network
    assert [rule for rule in network if rule.startswith("index.test")] == rules
    AllowList.parse(network)


def test_passwords_stay_here_and_a_rule_of_the_user_is_checked(host, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://ada:secret@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "file:///srv/wheels http://bob:secret@127.0.0.1:8/simple")
    indexes = package_indexes(["more.test:8080"])
    assert "secret" not in str(indexes)
    assert indexes.environment["PIP_EXTRA_INDEX_URL"] == "http://127.0.0.1:8/simple"
    assert indexes.network[-1] == "more.test:8080"
    with pytest.raises(SandboxError, match="Write it without scheme"):
        package_indexes(["https://more.test"])


def test_the_certificate_authorities_of_this_host_come_along(host, monkeypatch):
    (host / "ours.pem").write_text((Path(__file__).parent / "certificate.pem").read_text())
    assert not any(path.endswith(".pem") for path in package_indexes().files)
    monkeypatch.setenv("SSL_CERT_FILE", str(host / "ours.pem"))
    indexes = package_indexes()
    path = indexes.environment["PIP_CERT"]
    assert indexes.files[path] == (host / "ours.pem").read_bytes()
    assert path in indexes.files[indexes.environment["APT_CONFIG"]].decode()
