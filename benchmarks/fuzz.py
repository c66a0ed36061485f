"""Coverage-guided fuzzing of what parses hostile bytes on the host: replies of guests, archives, TLS hellos, HTTP.

    make fuzz                                        # every target for a minute each; installs atheris
    python benchmarks/fuzz.py exchange --seconds 3600
    python benchmarks/fuzz.py exchange --input FILE  # what the fuzzer saved as a finding, once more

A finding is an exception that the parser does not document, or a property below that does not hold. Inputs that reached
new code are kept in --corpus, with which the next run continues.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import io
import ipaddress
import json
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

if __name__ == "__main__" and importlib.util.find_spec("atheris"):
    import atheris
else:  # a target can be called, and a finding repeated, without the fuzzer
    atheris = None

with atheris.instrument_imports(include=["agentgym.sandbox", "h11"]) if atheris else contextlib.nullcontext():
    import h11

    from agentgym.errors import SandboxError
    from agentgym.sandbox.allow_list import Address, AllowList
    from agentgym.sandbox.guest.frames import FrameError, FrameReader, encode
    from agentgym.sandbox.host import replies
    from agentgym.sandbox.host.snapshots import snapshot_of
    from agentgym.sandbox.host.trees import changes_of, merged, tree_of
    from agentgym.sandbox.network.account import Account, NetworkLimits
    from agentgym.sandbox.network.client_hello import read_client_hello
    from agentgym.sandbox.network.exchange import Exchange
    from agentgym.sandbox.rootfs.archive import unpack_archive
    from agentgym.sandbox.rootfs.tree import ImageError, RootfsTree

MAX_INPUT_BYTES = 4096
ALLOWED = "allowed.test"
SERVER_RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LIMITS = NetworkLimits(
    header_bytes=2048, reads_per_s=10**9, processor_share=1000.0, header_s=1.0, connect_s=1.0, idle_s=1.0, total_s=2.0
)


def fuzz_reply(data: bytes) -> None:
    """Feed frames of a guest in pieces of any size, and read their headers as calls do."""
    reader, size = FrameReader(65_536, 65_536), 1 + (data[0] if data else 0)
    for start in range(1, len(data), size):
        reader.feed(data[start : start + size])
        with contextlib.suppress(FrameError):
            while (frame := reader.next()) is not None:
                _read_header(*frame)


def _read_header(header: dict[str, object], blob: bytes) -> None:
    with contextlib.suppress(KeyError, TypeError, ValueError, SandboxError):
        result = replies.exec_result((header, blob))
        assert result.stdout + result.stderr == blob
        assert 0 <= result.duration_s < float("inf")
    for read in (replies.usage_of, lambda header: replies.file_error(header, "/work/a")):
        with contextlib.suppress(KeyError, TypeError, ValueError):
            read(header)


def fuzz_archive(data: bytes) -> None:
    """Read an archive of a sandbox's files: an accepted archive can be merged, and the merged one has the same tree."""
    try:
        changes = changes_of(data, most=100)
    except ValueError:
        return
    snapshot = snapshot_of(data, "fuzz")
    assert snapshot.entries == tree_of({}, changes)
    assert all(b".." not in change.path.split(b"/") for change in changes)
    alone = merged([data], lowest=True)
    assert merged([data, data], lowest=True) == alone
    assert merged([alone], lowest=True) == alone


def fuzz_hello(data: bytes) -> None:
    """Read a TLS hello in pieces: once it is complete, more bytes do not change the name."""
    hello = None
    for end in range(len(data) + 1):
        try:
            further = read_client_hello(data[:end])
        except ValueError:
            assert hello is None
            return
        assert hello is None or further == hello
        hello = further


def fuzz_image(data: bytes) -> None:
    """Unpack an archive of an image: it is refused, or unpacked only below its folder."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        root = Path(folder) / "root"
        root.mkdir()
        tree = RootfsTree(root)
        try:
            with contextlib.suppress(ImageError):
                unpack_archive(tree, io.BytesIO(data))
                tree.finish()
        finally:
            tree.close()
        assert list(Path(folder).iterdir()) == [root], "a file beside the image's folder"


def fuzz_exchange(data: bytes) -> None:
    """Open one connection to the proxy: it ends, and a server gets nothing, or one request for its own name.

    The first byte says whether the rest is sent by the program in the sandbox, or by the server as its answer to a
    harmless request.
    """
    head, rest = data[:1], data[1:]
    if head < b"\x80":
        request, response = rest, SERVER_RESPONSE
    else:
        request, response = f"GET http://{ALLOWED}/ HTTP/1.1\r\nHost: {ALLOWED}\r\n\r\n".encode(), rest
    sent_to_server, answer = asyncio.run(_exchanged(request, response))
    if sent_to_server and not request.upper().startswith(b"CONNECT"):
        server = h11.Connection(h11.SERVER)
        server.receive_data(sent_to_server)
        requests = []
        while (event := server.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            requests += [event] if isinstance(event, h11.Request) else []
            if isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                break
        assert len(requests) == 1
        hosts = [value for name, value in requests[0].headers if name == b"host"]
        assert hosts in ([ALLOWED.encode()], [f"{ALLOWED}:443".encode()]), hosts
        assert not server.trailing_data[0], server.trailing_data
    assert not answer or answer.startswith((b"HTTP/1.1 ", b"\x15\x03"))


async def _exchanged(request: bytes, response: bytes) -> tuple[bytes, bytes]:
    """Return the bytes that the server and the program in the sandbox receive."""
    server_ends: list[socket.socket] = []

    async def resolve(host: str, port: int) -> list[Address]:
        return [ipaddress.ip_address("93.184.216.34")]

    async def dial(address: Address, port: int) -> socket.socket:
        near, far = socket.socketpair()
        for end in (near, far):
            end.setblocking(False)
        server_ends.append(far)
        far.send(response)
        far.shutdown(socket.SHUT_WR)
        return near

    theirs, ours = socket.socketpair()
    with ours, theirs:
        for end in (theirs, ours):
            end.setblocking(False)
        theirs.send(request)
        theirs.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(10):
            await Exchange(ours, AllowList.parse([ALLOWED]), Account(LIMITS), resolve, dial).run()
        ours.close()
        answer = _received(theirs)
    sent = b"".join(_received(end) for end in server_ends)
    for end in server_ends:
        end.close()
    return sent, answer


def _received(end: socket.socket) -> bytes:
    pieces = []
    with contextlib.suppress(BlockingIOError, ConnectionResetError):
        while piece := end.recv(1 << 16):
            pieces.append(piece)
    return b"".join(pieces)


def seeds() -> dict[str, list[bytes]]:
    """Return valid inputs for each target, from which the fuzzer starts."""
    header: dict[str, object] = {"exit": 0, "out": 2, "truncated": False, "timed_out": False, "oom": False}
    header |= {"wall": 0.1, "cpu": 0.1, "peak": 9, "disk": 0, "processes": 1}
    folder = {"p": "work", "t": "d", "m": 493, "u": 0}
    files = [{"p": "work/a", "t": "f", "m": 420, "u": 0, "n": 1}, {"p": "work/b", "t": "l", "m": 511, "u": 0, "l": "a"}]
    lines = [json.dumps(record).encode() + b"\n" for record in (folder, *files, {"p": "work/c", "t": "w"})]
    opaque = b'{"m":448,"o":1,"p":"work/hex:ff","t":"d","u":1}\n{"p":"work/hex:ff/a","t":"w"}\n'
    name = ALLOWED.encode()
    server_name = b"\x00" + len(name).to_bytes(2, "big") + name
    names = len(server_name).to_bytes(2, "big") + server_name
    extension = b"\x00\x00" + len(names).to_bytes(2, "big") + names
    body = b"\x03\x03" + bytes(33) + b"\x00\x02\x13\x01\x01\x00" + len(extension).to_bytes(2, "big") + extension
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    hello = b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message
    chunks = "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
    post = f"POST http://{ALLOWED}/a HTTP/1.1\r\nHost: {ALLOWED}\r\n{chunks}"
    tunnel = f"CONNECT {ALLOWED}:443 HTTP/1.1\r\nHost: {ALLOWED}:443\r\n\r\n"
    return {
        "reply": [b"\x07" + encode(header, b"okno"), b"\xff" + encode({"errno": 2, "text": "none"})],
        "archive": [lines[0] + lines[1] + b"x" + lines[2] + lines[3], lines[0], lines[0] + opaque],
        "hello": [hello],
        "image": [_tar()],
        "exchange": [
            b"\x00" + post.encode(),
            b"\x00" + tunnel.encode() + hello,
            b"\x80" + SERVER_RESPONSE,
            b"\x80HTTP/1.1 200 OK\r\n" + chunks.encode(),
        ],
    }


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, kind in (("etc", tarfile.DIRTYPE), ("etc/link", tarfile.SYMTYPE), ("etc/.wh.old", tarfile.REGTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "passwd" if kind == tarfile.SYMTYPE else ""
            archive.addfile(member)
    return out.getvalue()[:2560]


TARGETS: dict[str, Callable[[bytes], None]] = {
    "reply": fuzz_reply,
    "archive": fuzz_archive,
    "hello": fuzz_hello,
    "image": fuzz_image,
    "exchange": fuzz_exchange,
}


def fuzz(target: str, seconds: int, corpus: Path) -> None:
    """Fuzz one target in this process; ends the process. Findings are written into the corpus folder."""
    folder = corpus / target
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()[target]):
        (folder / f"seed-{number}").write_bytes(seed)
    options = [f"-max_total_time={seconds}", f"-max_len={MAX_INPUT_BYTES}", f"-artifact_prefix={corpus}/{target}-"]
    atheris.Setup([sys.argv[0], *options, "-print_final_stats=1", "-timeout=20", str(folder)], TARGETS[target])
    atheris.Fuzz()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", choices=list(TARGETS), help="by default each in turn")
    parser.add_argument("--seconds", type=int, default=60, help="of each target")
    parser.add_argument("--corpus", type=Path, default=Path(".fuzz"), help="folder of inputs and findings")
    parser.add_argument("--input", type=Path, help="run a target on this file, without the fuzzer")
    options = parser.parse_args(arguments)
    if options.input is not None:
        if options.target is None:
            parser.error("--input needs the target that the file is for")
        TARGETS[options.target](options.input.read_bytes())
    elif atheris is None:
        parser.error("the fuzzer is not installed. Run: python -m pip install atheris")
    elif options.target is not None:
        fuzz(options.target, options.seconds, options.corpus)
    else:
        common = ["--seconds", str(options.seconds), "--corpus", str(options.corpus)]
        failed = [name for name in TARGETS if subprocess.call([sys.executable, __file__, name, *common])]
        sys.exit(f"findings in: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
