"""A sandbox with a network: its programs reach what the spec names through the proxy, and nothing in any other way."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import io
import os
import signal
import socket
import ssl
import threading
import zipfile

import pytest
from counts import open_files, processes_below, working_below
from local_network import CERTIFICATE, NAMES, LocalNetwork, service_threads

from agentgym.errors import SandboxDied, SandboxUnavailable
from agentgym.sandbox.guest import frames
from agentgym.sandbox.link import Link
from agentgym.sandbox.namespaces.backend import NamespacesBackend
from agentgym.sandbox.network.proxy import Proxy

pytestmark = pytest.mark.needs_namespaces
GET = "import urllib.request as u; print(u.urlopen({url!r}, timeout=20).read().decode(), end='')"


@pytest.fixture(scope="module")
def network():
    created = LocalNetwork()
    yield created
    created.close()


@pytest.fixture(scope="module")
def backend(network):
    created = NamespacesBackend(proxy=network.proxy())
    yield created
    asyncio.run(created.close())


@pytest.fixture
def spec(small):
    return dataclasses.replace(small, network=NAMES, memory_mib=256, processes=48)


@pytest.fixture
async def sandbox(backend, spec):
    created = await backend.create(spec)
    yield created
    await created.close()


async def test_programs_find_the_proxy_by_themselves(sandbox):
    result = await sandbox.exec(["curl", "-sS", "http://allowed.test/page"])
    assert (result.stdout, result.stderr) == (b"GET /page with 0 bytes\n", b"")
    assert (await sandbox.run_python(GET.format(url="http://a.allowed.test/"))).text == ""
    assert (await sandbox.run_python(GET.format(url="http://deep.allowed.test/x"))).text == "GET /x with 0 bytes\n"
    assert (await sandbox.exec(["python3", "-c", GET.format(url="http://allowed.test/y")])).text.startswith("GET /y")
    await sandbox.write("ca.pem", CERTIFICATE.read_bytes())
    result = await sandbox.exec(["curl", "-sS", "--cacert", "ca.pem", "https://allowed.test/secret"])
    assert (result.stdout, result.stderr) == (b"GET /secret with 0 bytes\n", b"")
    assert [(connection.host, connection.port, connection.allowed) for connection in sandbox.connections] == [
        ("allowed.test", 80, True),
        ("a.allowed.test", 80, False),
        ("deep.allowed.test", 80, True),
        ("allowed.test", 80, True),
        ("allowed.test", 443, True),
    ]


async def test_a_refusal_reaches_the_agent_as_a_sentence(sandbox):
    result = await sandbox.exec(["curl", "-sS", "http://evil.test/"])
    assert "evil.test:80 is not on the allow list of this sandbox: allowed.test, *.allowed.test" in result.text
    result = await sandbox.run_python(GET.format(url="https://evil.test/"))
    assert b"Tunnel connection failed: 403 evil.test:443 is not on the allow list" in result.stderr


async def test_a_package_can_be_installed(network, sandbox):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as wheel:
        wheel.writestr("tiny.py", "print('tiny is here')\n")
        wheel.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
        wheel.writestr(
            "tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("tiny-1.dist-info/RECORD", "")
    name = "tiny-1-py3-none-any.whl"
    digest = hashlib.sha256(content.getvalue()).hexdigest()
    network.tls.pages["/simple/tiny/"] = ("text/html", f'<a href="/files/{name}#sha256={digest}">{name}</a>'.encode())
    network.tls.pages[f"/files/{name}"] = ("application/octet-stream", content.getvalue())
    pip = await sandbox.run_python(
        "import ensurepip, glob; print(glob.glob(ensurepip.__path__[0] + '/_bundled/pip-*')[0])"
    )
    if not pip.text.strip():
        pytest.skip("this Python comes without the pip it could bring")
    await sandbox.write("ca.pem", CERTIFICATE.read_bytes())
    result = await sandbox.exec(
        [
            "python3",
            f"{pip.text.strip()}/pip",
            "install",
            "--quiet",
            "--cert",
            "ca.pem",
            "--no-cache-dir",
            "--index-url",
            "https://allowed.test/simple",
            "--target",
            "site",
            "tiny",
        ],
        timeout_s=120,
    )
    assert result.ok, result.stderr.decode()
    assert (await sandbox.exec(["python3", "-c", "import tiny"], env={"PYTHONPATH": "site"})).text == "tiny is here\n"


async def test_there_is_no_other_way_out(network, sandbox):
    code = f"""
import socket
for family, kind, place in ((2, 1, ("127.0.0.1", {network.plain.port})), (2, 1, ("93.184.216.34", 80)),
                            (2, 2, ("8.8.8.8", 53)), (10, 1, ("::1", 80)), (1, 1, "/var/run/docker.sock")):
    try:
        socket.socket(family, kind).connect(place)
        print("reached", place)
    except OSError as error:
        print("no", end=" ")
try:
    print(socket.getaddrinfo("allowed.test", 80))
except OSError:
    print("none")
"""
    assert (await sandbox.run_python(code)).text == "no no no no no none\n"


async def test_the_agent_cannot_take_the_proxys_place_or_stop_it(sandbox):
    code = """
import os, signal, socket
for family, host in ((2, "127.0.0.1"), (2, "0.0.0.0"), (10, "::")):
    one = socket.socket(family)
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        one.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        one.bind((host, 3128)); one.listen()
        print("taken", host)
    except OSError:
        print("no", end=" ")
try:
    os.kill(-1, signal.SIGKILL)
except ProcessLookupError:
    print("nobody")
"""
    assert (await sandbox.run_python(code)).text == "no no no nobody\n"
    assert (await sandbox.usage()).processes == 0
    assert (await sandbox.exec(["curl", "-sS", "http://allowed.test/"])).ok


async def test_a_flood_of_connections_holds_up_only_the_one_who_makes_it(backend, spec, sandbox):
    code = """
import socket
held = []
for number in range(40):
    held.append(socket.create_connection(("127.0.0.1", 3128)))
    held[-1].sendall(b"GET http://allowed.test/ HTTP/1.1\\r\\nX: ")
print(len(held))
"""
    assert (await sandbox.run_python(code, session="flood")).text == "40\n"
    other = await backend.create(spec)
    assert (await other.exec(["curl", "-sS", "http://allowed.test/"])).ok
    assert (await sandbox.run_python("print(1)")).text == "1\n"
    await other.close()


async def test_addresses_that_the_list_names_are_the_hosts_and_its_own_are_by_name(backend, small, network):
    address = f"127.0.0.1:{network.plain.port}"
    sandbox = await backend.create(dataclasses.replace(small, network=(address,)))
    assert (await sandbox.exec(["curl", "-sS", f"http://{address}/a"])).text == "GET /a with 0 bytes\n"
    own = """
import http.server, threading, urllib.request
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f"http://localhost:{server.server_port}/").status)
"""
    assert (await sandbox.run_python(own)).text == "200\n"
    assert len(sandbox.connections) == 1
    await sandbox.close()


async def test_public_certificates_are_there_as_on_the_host(sandbox):
    result = await sandbox.run_python("import ssl; print(len(ssl.create_default_context().get_ca_certs()))")
    assert result.text == f"{len(ssl.create_default_context().get_ca_certs())}\n"


async def test_a_reset_begins_a_new_record_and_the_network_stays(sandbox):
    await sandbox.exec(["curl", "-sS", "http://allowed.test/"])
    await sandbox.reset()
    assert sandbox.connections == ()
    assert (await sandbox.exec(["curl", "-sS", "http://allowed.test/"])).ok
    await sandbox.close()
    assert len(sandbox.connections) == 1, "the record outlives the sandbox"


async def test_without_a_network_there_is_no_proxy(backend, small):
    sandbox = await backend.create(small)
    result = await sandbox.run_python(
        "import os, socket; print([name for name in os.environ if 'proxy' in name.lower()],"
        " socket.socket().connect_ex(('127.0.0.1', 3128)))"
    )
    assert result.text == "[] 111\n"
    assert sandbox.connections == ()
    await sandbox.close()


async def test_an_environment_of_the_specs_own_wins(backend, spec):
    sandbox = await backend.create(dataclasses.replace(spec, environment=(("http_proxy", ""),)))
    assert (await sandbox.exec(["sh", "-c", "echo [$http_proxy] $HTTPS_PROXY"])).text == "[] http://127.0.0.1:3128\n"
    await sandbox.close()


async def test_closing_leaves_no_thread_and_no_descriptor(network, spec):
    before = (working_below(os.getpid()), open_files(), service_threads())
    backend = NamespacesBackend(proxy=network.proxy())
    first, second = await backend.create(spec), await backend.create(spec)
    await first.run_python("import socket; s = socket.create_connection(('127.0.0.1', 3128))", session="held")
    transfer = asyncio.create_task(second.exec(["sh", "-c", "while :; do curl -s http://allowed.test/; done"]))
    await asyncio.sleep(0.3)
    await backend.close()
    with pytest.raises(SandboxDied):
        await transfer
    assert (working_below(os.getpid()), open_files(), service_threads()) == before


async def test_a_guest_that_is_killed_leaves_a_sandbox_that_closes(network, spec):
    backend = NamespacesBackend(proxy=network.proxy())
    threads = service_threads()
    sandbox = await backend.create(spec)
    await sandbox.run_python("import socket; s = socket.create_connection(('127.0.0.1', 3128))", session="held")
    for pid in processes_below(os.getpid()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with pytest.raises(SandboxDied):
        await sandbox.run_python("pass")
    await sandbox.close()
    await backend.close()
    assert service_threads() == threads


async def test_a_forked_process_lets_go_and_its_parents_network_goes_on(sandbox):
    network = sandbox._guest.network
    child = os.fork()
    if child == 0:
        network.stop()  # as its end, or the garbage collector, would
        os._exit(0 if asyncio.new_event_loop().run_until_complete(sandbox.close()) is None else 1)
    _, ended = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(ended) == 0
    assert (await sandbox.exec(["curl", "-sS", "http://allowed.test/"])).ok


def listening(port: int = 0, host: str = "127.0.0.1") -> socket.socket:
    return socket.create_server((host, port))


@pytest.mark.parametrize(
    "hand_over",
    [
        lambda: None,
        lambda: os.pipe()[0],
        lambda: os.memfd_create("x"),
        lambda: socket.socket().detach(),
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).detach(),
        lambda: socket.socket(socket.AF_UNIX).detach(),
        lambda: socket.create_server(("::1", 0), family=socket.AF_INET6).detach(),
        lambda: listening().detach(),
        lambda: listening(3128, "127.0.0.2").detach(),
    ],
    ids=["nothing", "pipe", "file", "not listening", "datagrams", "unix", "ipv6", "another port", "another address"],
)
async def test_a_guest_that_hands_over_anything_but_its_listening_socket_is_not_trusted(hand_over):
    before, threads = open_files(), service_threads()
    control, guest = socket.socketpair()
    descriptor = hand_over()

    def lie() -> None:
        _, passed, _, _ = socket.recv_fds(guest, 65_536, 4)
        stream = socket.socket(fileno=passed[0])
        if descriptor is not None:
            socket.send_fds(stream, [b"l"], [descriptor] * 3)
        guest.sendall(frames.encode({"id": 1}))
        stream.close()

    liar = threading.Thread(target=lie)
    liar.start()
    link = Link(control)
    with pytest.raises(SandboxDied, match="may be hostile"):
        await Proxy().attach(link, NAMES)
    liar.join()
    link.close("the test is over")
    guest.close()
    if descriptor is not None:
        os.close(descriptor)
    assert service_threads() == threads
    assert open_files() - before <= 1, "the other end of a pipe"


async def test_a_guest_that_cannot_listen_gives_no_sandbox_with_a_network():
    control, guest = socket.socketpair()
    guest.sendall(frames.encode({"id": 1, "error": "os", "errno": 22, "text": "Invalid argument"}))
    link = Link(control)
    with pytest.raises(SandboxUnavailable, match=r"Invalid argument.*without a network"):
        await Proxy().attach(link, NAMES)
    link.close("the test is over")
    guest.close()
