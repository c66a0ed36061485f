"""What stands before a sandbox takes the calls of the contract, and one way leads through it."""

from __future__ import annotations

import inspect

import pytest

from agentgym.cluster.hosted_sandbox import HostedSandbox
from agentgym.sandbox import Sandbox
from agentgym.sandbox.host.guest_sandbox import GuestSandbox
from agentgym.sandbox.pool.lease import Lease
from agentgym.sandbox.wrapper import SandboxWrapper

METHODS = [name for name, member in vars(Sandbox).items() if inspect.iscoroutinefunction(member)]


@pytest.mark.parametrize("kind", [GuestSandbox, Lease, HostedSandbox])
@pytest.mark.parametrize("method", METHODS)
def test_every_sandbox_takes_what_the_contract_says(kind, method):
    expected = inspect.signature(getattr(Sandbox, method)).parameters
    assert inspect.signature(getattr(kind, method)).parameters == expected


class Recorder(SandboxWrapper):
    """Keeps the calls that reach the sandbox behind it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[object, ...], dict[str, object]]] = []

    async def call(self, method, *arguments, **options):
        self.calls.append((method, arguments, options))


async def test_every_call_takes_the_same_way_with_all_its_arguments():
    recorder = Recorder()
    await recorder.exec(["ls"], stdin=b"x", cwd="/tmp", env={"A": "b"}, timeout_s=3, max_output_bytes=9)
    await recorder.run_python("1", session="s", timeout_s=4, max_output_bytes=8)
    await recorder.read("f", max_bytes=7)
    await recorder.write("f", b"y", 0o600)
    await recorder.list("d")
    await recorder.open_channel(["cat"])
    for method in (recorder.snapshot, recorder.reset, recorder.usage):
        await method()
    exec_options = {"stdin": b"x", "cwd": "/tmp", "env": {"A": "b"}, "timeout_s": 3, "max_output_bytes": 9}
    assert recorder.calls == [
        ("exec", (["ls"],), exec_options),
        ("run_python", ("1",), {"session": "s", "timeout_s": 4, "max_output_bytes": 8}),
        ("read", ("f",), {"max_bytes": 7}),
        ("write", ("f", b"y", 0o600), {}),
        ("list", ("d",), {}),
        ("open_channel", (["cat"],), {}),
        ("snapshot", (), {}),
        ("reset", (), {}),
        ("usage", (), {}),
    ]
    assert {method for method, _, _ in recorder.calls} == {*METHODS} - {"close"}
