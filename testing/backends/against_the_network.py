"""Attacks that try to reach something: the host, the network, another sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

from agentgym import SandboxUnavailable

from .check import NotApplicable, check_equal, check_not, checks_of
from .testbed import Target


@contextlib.asynccontextmanager
async def _listening(family: socket.AddressFamily, address: str) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Open a TCP and a UDP socket of the host on one port. Yields the port, and a list of what arrives."""
    arrived: list[bytes] = []

    def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.append(b"a TCP connection")
        writer.close()

    class Datagrams(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, _: object) -> None:
            arrived.append(data)

    server = await asyncio.start_server(answer, address, 0, family=family)
    port = server.sockets[0].getsockname()[1]
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(Datagrams, (address, port), family=family)
    try:
        yield port, arrived
        await asyncio.sleep(0)
    finally:
        transport.close()
        server.close()
        await server.wait_closed()


_REACH = """
    import socket
    for address in addresses:
        attempt(f"TCP to {address}", lambda: socket.create_connection((address, port), 0.3))
        def send():
            with socket.socket(family, socket.SOCK_DGRAM) as one: one.sendto(b"a datagram", (address, port))
        if address not in own: attempt(f"UDP to {address}", send)
        else:
            try: send()
            except OSError: pass
"""


async def reaching_the_host_over_ipv4(target: Target) -> None:
    """Connects to a server on the host's loopback, its other addresses and the usual gateways, by TCP and UDP."""
    own = {"127.0.0.1", "127.1.2.3"}
    addresses = [*sorted(own), "172.17.0.1", "10.0.2.2", "192.168.0.1", "169.254.169.254", *sorted(_addresses_here())]
    async with _listening(socket.AF_INET, "0.0.0.0") as (port, arrived):
        through = await target.through(_REACH, addresses=addresses, own=own, port=port, family=int(socket.AF_INET))
    check_not(bool(through or arrived), f"reached {', '.join(through) or 'a server of the host'}: {arrived[:2]}")


async def reaching_the_host_over_ipv6(target: Target) -> None:
    """Connects by IPv6 to the host's loopback, to mapped addresses and to every node of the link."""
    if not socket.has_ipv6:
        raise NotApplicable("this host does not support IPv6")
    async with contextlib.AsyncExitStack() as stack:
        try:
            port, arrived = await stack.enter_async_context(_listening(socket.AF_INET6, "::"))
        except OSError as error:
            raise NotApplicable(f"this host has no IPv6 address on which to listen ({error.strerror})") from error
        through = await target.through(
            _REACH,
            addresses=["::1", "::ffff:127.0.0.1", "ff02::1", "2606:4700:4700::1111"],
            port=port,
            own={"::1", "::ffff:127.0.0.1"},
            family=int(socket.AF_INET6),
        )
    check_not(bool(through or arrived), f"reached {', '.join(through) or 'a server of the host'}: {arrived[:2]}")


async def reaching_the_internet(target: Target) -> None:
    """Connects and sends datagrams to public addresses, directly and through broadcast and multicast."""
    addresses = ["1.1.1.1", "8.8.8.8", "255.255.255.255", "224.0.0.1"]
    through = await target.through(_REACH, addresses=addresses, own=set(), port=53, family=int(socket.AF_INET))
    check_not(bool(through), f"reached {', '.join(through)}")


async def resolving_names(target: Target) -> None:
    """Looks up a name, which could send data out even without a connection: no look-up succeeds."""
    through = await target.through("""
        import socket
        socket.setdefaulttimeout(1)
        attempt("a look-up by the C library", lambda: socket.getaddrinfo("example.com", 80))
        query = bytes.fromhex("abcd01000001000000000000076578616d706c6503636f6d0000010001")
        def ask(server):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
                one.settimeout(0.2); one.sendto(query, (server, 53)); one.recv(512)
        for server in ("127.0.0.53", "127.0.0.11", "1.1.1.1"): attempt(f"an answer of {server}", lambda: ask(server))
    """)
    check_not(bool(through), f"resolved: {', '.join(through)}")


async def raw_and_odd_sockets(target: Target) -> None:
    """Raw and packet sockets, the hypervisor's channel, the kernel's cryptography, MPTCP, netlink and their like."""
    through = await target.through("""
        import socket
        attempt("raw IPv4", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
        attempt("raw IPv6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58))
        for name, family in (("packet", 17), ("vsock", 40), ("kernel crypto", 38), ("bluetooth", 31), ("can", 29),
                             ("tipc", 30), ("rds", 21), ("kcm", 41), ("qipcrtr", 42), ("xdp", 44), ("smc", 43),
                             ("nfc", 39), ("x25", 9), ("ax25", 3), ("key", 15), ("phonet", 35), ("alg", 38)):
            for kind in (1, 2, 3, 5):
                attempt(name, lambda: socket.socket(family, kind, 0))
                attempt(f"a pair of {name}", lambda: socket.socketpair(family, kind, 0))
        for name, kind, protocol in (("MPTCP", 1, 262), ("UDP-Lite", 2, 136), ("SCTP", 1, 132), ("DCCP", 6, 33)):
            attempt(name, lambda: socket.socket(socket.AF_INET, kind, protocol))
        for protocol in range(1, 23): attempt(f"netlink {protocol}", lambda: socket.socket(16, 3, protocol))
    """)
    check_not(bool(through), f"could open {', '.join(sorted(set(through)))}")


async def reconfiguring_the_network(target: Target) -> None:
    """Adds an interface and an address by netlink, and listens to the kernel's audit and event messages."""
    through = await target.through("""
        import socket, struct
        def order(kind, flags, body):
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as one:
                one.settimeout(1)
                one.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body)
                answer = one.recv(4096)
                if struct.unpack_from("=H", answer, 4)[0] == 2 and struct.unpack_from("=i", answer, 16)[0]:
                    raise OSError
        info = struct.pack("=HH", 4 + 6, 1) + b"dummy\\0\\0\\0"
        dummy = struct.pack("=BxHiII", 0, 0, 0, 0, 0) + struct.pack("=HH", 4 + len(info), 18) + info
        attempt("a new interface", lambda: order(16, 0x605, dummy))
        address = struct.pack("=BBBBI", 2, 24, 0, 0, 1) + struct.pack("=HH4s", 8, 2, bytes([10, 9, 8, 7]))
        attempt("a new address", lambda: order(20, 0x605, address))
        def listen(protocol):
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as one: one.bind((0, 1))
        attempt("the audit log", lambda: listen(9))
        try: names = [name for _, name in socket.if_nameindex()]
        except OSError: names = []
        def wire(name):
            with open(f"/sys/class/net/{name}/carrier") as file: file.read()
        for name in names:
            if name != "lo": attempt(f"the interface {name}", lambda: wire(name))
    """)
    check_not(bool(through), f"it got {', '.join(through)}")


async def sockets_of_the_host_in_files(target: Target) -> None:
    """Connects to the host's unix sockets: in a folder open to all, Docker's, the system bus, the display."""
    path = str(target.host.folder / "socket")
    server = await asyncio.start_unix_server(lambda reader, writer: writer.close(), path)
    os.chmod(path, 0o777)
    try:
        through = await target.through(
            """
            import socket, glob
            paths = [path, *(f"/proc/{one}/root{path}" for one in (1, "self"))]
            paths += ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock",
                      "/run/podman/podman.sock", "/run/dbus/system_bus_socket", "/run/systemd/private",
                      "/run/crio/crio.sock", *glob.glob("/tmp/.X11-unix/*"), *glob.glob("/run/user/*/*"),
                      *glob.glob("/tmp/ssh-*/*")]
            for one in paths: attempt(one, lambda: socket.socket(socket.AF_UNIX).connect(one))
            """,
            path=path,
        )
    finally:
        server.close()
        await server.wait_closed()
        with contextlib.suppress(FileNotFoundError):  # from Python 3.13 on the server removes it
            os.unlink(path)
    check_not(bool(through), f"reached {', '.join(through)}")


async def sockets_without_a_file(target: Target) -> None:
    """Connects to an abstract unix socket of the host, which no file permission guards."""
    name = f"\0agentgym-{secrets.token_hex(8)}"
    server = await asyncio.start_unix_server(lambda reader, writer: writer.close(), name)
    try:
        through = await target.through(
            "import socket\nattempt('it', lambda: socket.socket(socket.AF_UNIX).connect(name))", name=name
        )
    finally:
        server.close()
        await server.wait_closed()
    check_not(bool(through), "an abstract socket of the host was reached")


async def talking_to_another_sandbox(target: Target) -> None:
    """Two sandboxes try to meet on loopback ports, abstract sockets and every address they have."""
    port, name = 20_000 + secrets.randbelow(20_000), f"\0agentgym-{secrets.token_hex(8)}"
    serve = """
        import socket, threading
        held = [socket.create_server(("0.0.0.0", port)), socket.socket(socket.AF_UNIX)]
        held[1].bind(name); held[1].listen()
    """
    other = target.beside()
    await other.python(serve, session="server", port=port, name=name)
    try:
        through = await target.through(
            """
            import socket
            attempt("a port", lambda: socket.create_connection(("127.0.0.1", port), 0.3))
            attempt("an abstract socket", lambda: socket.socket(socket.AF_UNIX).connect(name))
            """,
            port=port,
            name=name,
        )
    finally:
        await target.neighbour.run_python("import os; os._exit(0)", session="server")
    check_not(bool(through), f"another sandbox was reached by {', '.join(through)}")


async def stopping_the_network_of_others(target: Target) -> None:
    """Sends a request in a million pieces, next to silent connections: another sandbox's network still works."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.LimitOverrunError, asyncio.IncompleteReadError):
            if (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET "):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell")
            else:
                while await reader.read(65_536):
                    pass
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    spec = replace(target.spec, network=(host,))
    flood = f"""
import socket
proxy = ("127.0.0.1", 3128)
held = [socket.create_connection(proxy) for _ in range(12)]
held[0].sendall(b"POST http://{host}/ HTTP/1.1\\r\\nHost: {host}\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
held[0].sendall(b"1\\r\\nx\\r\\n" * 1_000_000)
"""
    fetch = f"""
import urllib.request
print(urllib.request.urlopen("http://{host}/", timeout=10).read())
"""
    try:
        async with target.another(spec):
            pass
    except SandboxUnavailable as error:
        server.close()
        raise NotApplicable(f"a sandbox cannot have a network here: {error}") from error
    try:
        async with target.another(spec) as greedy, target.another(spec) as modest:
            flooding = asyncio.create_task(greedy.run_python(flood, timeout_s=30))
            await asyncio.sleep(0.5)
            for _ in range(2):
                result = await modest.run_python(fetch, timeout_s=15)
                check_equal(result.stdout, b"b'well'\n", f"an answer of another's network ({result.stderr[-200:]!r})")
            check_not(flooding.done(), "the flood had ended before: nothing is proved")
            flooding.cancel()
            await asyncio.wait([flooding])
    finally:
        server.close()
        await server.wait_closed()


def _addresses_here() -> set[str]:
    """Return the known IPv4 addresses of this host."""
    addresses: set[str] = set()
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe_socket:
        probe_socket.connect(("192.0.2.1", 9))  # sends nothing: only a route is looked up
        addresses.add(probe_socket.getsockname()[0])
    return addresses


CHECKS = checks_of(
    "attack",
    "Reaching out",
    *(
        ("network", attack)
        for attack in (
            reaching_the_host_over_ipv4,
            reaching_the_host_over_ipv6,
            reaching_the_internet,
            resolving_names,
            raw_and_odd_sockets,
            reconfiguring_the_network,
            sockets_of_the_host_in_files,
            sockets_without_a_file,
            talking_to_another_sandbox,
            stopping_the_network_of_others,
        )
    ),
)
