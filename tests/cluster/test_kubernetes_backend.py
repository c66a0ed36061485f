"""The kubernetes backend on a local API server that follows the published schema; pods are processes of this host."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from by_day import cases
from served_environments import Workshop

from agentgym import Call, EpisodeManager, Message, RolloutConfig, SandboxSpec, ScriptedPolicy, Task
from agentgym.bridges.kubernetes import KubernetesBackend
from agentgym.bridges.kubernetes.messages import encode, pieces
from agentgym.errors import SandboxDied, SandboxUnavailable, UnknownNameError
from agentgym.sandbox import NamespacesBackend
from agentgym.sandbox.time_limit import TimeLimit
from agentgym.testing import check_backend
from agentgym.testing.backends.testbed import SPEC

pytest.importorskip("kubernetes_asyncio", reason="comes with the extra kubernetes")
from kit_halves import each_half
from kubernetes_cluster import LocalCluster, backend_of

pytestmark = pytest.mark.needs_namespaces
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    """A cluster, and a kubeconfig for it."""
    with LocalCluster() as cluster:
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path)))
        yield cluster


def requests_of(cluster: LocalCluster, start: str) -> int:
    return sum(request.startswith(start) for request in cluster.requests)


async def until(condition) -> None:
    for _ in range(400):
        if condition():
            return
        await asyncio.sleep(0.05)
    pytest.fail("it did not happen within 20 s")


@pytest.mark.slow
@each_half
async def test_sandboxes_in_pods_keep_the_contract_of_every_backend(cluster, checks):
    async with backend_of() as backend:
        await check_backend(backend, only=checks)


async def test_a_pod_is_claimed_when_those_before_are_full_and_all_are_released_at_the_end(cluster):
    async with backend_of(per_pod=2, room_s=0.3) as backend:
        first = [await backend.create(SPEC) for _ in range(2)]
        assert len(cluster.claims) == 1
        second = await asyncio.gather(*(backend.create(SPEC) for _ in range(2)))
        assert len(cluster.claims) == len({await sandbox.host_pid() for sandbox in [*first, *second]}) == 2
        with pytest.raises(SandboxUnavailable, match="2 pods of the warm pool 'agentgym' already had 2 sandboxes"):
            await backend.create(SPEC)
        await first[0].close()
        assert (await (await backend.create(SPEC)).exec(["echo", "room"])).text == "room\n"
    assert cluster.claims == cluster.objects["sandboxes"] == {}
    assert requests_of(cluster, "POST") == 2


async def test_a_killed_pod_ends_its_calls_and_the_next_sandbox_is_made_in_another(cluster):
    async with backend_of() as backend:
        sandbox = await backend.create(SPEC)
        [pod] = cluster.pods
        running = asyncio.ensure_future(sandbox.exec(["sleep", "50"], timeout_s=60))
        await asyncio.sleep(0.2)
        cluster.delete_pod(pod)
        with pytest.raises(SandboxDied, match=rf"The node gym/{pod} is lost \(its host ended.*code -9"):
            await running
        with pytest.raises(SandboxDied, match="lost"):
            await sandbox.exec(["true"])
        assert (await (await backend.create(SPEC)).exec(["echo", "new"])).text == "new\n"
        await sandbox.close()
        await until(lambda: len(cluster.claims) == 1)  # that of the killed pod is released


@pytest.mark.thorough
async def test_a_pod_that_is_stopped_for_a_while_is_not_charged_to_the_agent(cluster):
    async def stop() -> None:
        await asyncio.sleep(0.1)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pod in cluster.pods.values():
                pod.signal(number)
            await asyncio.sleep(1.2)

    answering = "import time; input(); time.sleep(0.3); print(1, flush=True)"
    async with backend_of() as backend:
        sandbox = await backend.create(SPEC)
        channel = await sandbox.open_channel(["python3", "-I", "-S", "-c", answering])
        for call in (lambda: sandbox.exec(["sleep", "0.3"]), lambda: channel.request("?")):
            stopping = asyncio.ensure_future(stop())
            with TimeLimit(1.0) as limit:
                await call()
            assert limit.waited_s > 0.3  # the call took 1.3 s of a limit of 1 s
            await stopping
        assert channel.waited_s > 0.3


@pytest.mark.thorough
async def test_a_pod_that_hangs_is_given_up_though_its_connection_stays_open(cluster):
    async with backend_of() as backend:
        sandbox = await backend.create(SPEC)
        [pod] = cluster.pods.values()
        running = asyncio.ensure_future(sandbox.exec(["sleep", "50"], timeout_s=60))
        await asyncio.sleep(0.2)
        pod.signal(signal.SIGSTOP)
        with pytest.raises(SandboxDied, match=r"answered no heartbeat for [45] s"):
            await running
        await until(lambda: not cluster.claims)


@pytest.mark.thorough
async def test_a_claim_outlives_its_first_term_and_a_pod_whose_claim_is_deleted_is_lost(cluster):
    async with backend_of(claim_lease_s=2) as backend:
        sandbox = await backend.create(SPEC)
        await until(lambda: requests_of(cluster, "PATCH") > 4)
        assert (await sandbox.exec(["true"])).ok
        cluster._loop.call_soon_threadsafe(cluster._delete_claim, *cluster.claims)
        with pytest.raises(SandboxDied, match=r"its claim was deleted|its host ended"):
            await sandbox.exec(["sleep", "50"], timeout_s=60)


async def test_an_episode_whose_pod_is_killed_goes_on_from_its_checkpoint(cluster):
    class Killing(ScriptedPolicy):
        async def generate(self, request):
            if request.turn == 2 and not killed:
                killed.extend(cluster.pods)
                cluster.delete_pod(killed[0])
            return await super().generate(request)

    killed: list[str] = []
    calls = [Call("write", {"name": "a", "text": "kept"}), *[Call("run", {"command": "cat /work/a"})] * 2]
    script = [Message("assistant", "", (call,)) for call in calls] + [Message("assistant", "done")]
    async with backend_of() as backend:
        manager = EpisodeManager(Killing(script), RolloutConfig(environment=Workshop, backend=backend))
        [trajectory] = await manager.collect([Task("t", "test/workshop-v1", "Work.", truth="x")])
    assert trajectory.error is None
    assert len(killed) == 1
    assert "kept" in trajectory.turns[2].results[0].content
    assert trajectory.provenance.retries


DRIVER = """
import asyncio
from agentgym.bridges.kubernetes import KubernetesBackend
from agentgym.testing.backends import SPEC
async def main():
    sandbox = await KubernetesBackend(claim_lease_s=2, lease_s=1.5).create(SPEC)
    print(await sandbox.host_pid(), flush=True)
    await sandbox.exec(["sleep", "50"], timeout_s=60)
asyncio.run(main())
"""


@asynccontextmanager
async def driver() -> AsyncIterator[tuple[subprocess.Popen[str], int]]:
    """A process with one sandbox in a pod, and the pid of the host there."""
    start = [sys.executable, "-c", DRIVER]
    process = await asyncio.to_thread(subprocess.Popen, start, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        with process.stdout:
            yield process, int(await asyncio.to_thread(process.stdout.readline))
    finally:
        process.kill()
        process.wait()


VERBS = {"POST": "create", "GET": "get", "PATCH": "patch", "DELETE": "delete"}


async def test_the_role_of_the_example_allows_what_is_asked_and_no_more(cluster):
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra train")
    objects = yaml.safe_load_all((EXAMPLES / "cluster" / "agent-sandbox.yaml").read_text())
    [role] = [row for row in objects if row["kind"] == "Role"]
    allowed = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    async with backend_of(claim_lease_s=2) as backend:
        await backend.create(SPEC)
        await backend.clean()
        await until(lambda: requests_of(cluster, "PATCH"))
    cluster.pending = "no node"
    async with backend_of(ready_s=0.3) as backend:
        with pytest.raises(SandboxUnavailable, match="no node"):
            await backend.create(SPEC)
    needed = set()
    for request in cluster.requests:
        method, path = request.split()
        _, start, *names = path.split("/")
        group, resource, *name = [names[0], *names[4:]] if start == "apis" else ["", *names[3:]]
        verb = VERBS[method] if name or method == "POST" else "list"
        needed.add((group, "/".join([resource, *name[1:]]), verb))
    assert needed == allowed - {("", "pods/exec", "create")}


def answering(*answers: bytes) -> str:
    """A script that answers the first call with these bytes."""
    stream = b"".join(piece for answer in answers for piece in pieces(0, answer))
    return "head -c 13 > /dev/null; printf '" + "".join(f"\\{byte:03o}" for byte in stream) + "'"


LIES = {
    "no messages": ("echo hello world, this is no message at all", "data that is not a piece of a message"),
    "no end": ("yes", "data that is not a piece of a message"),
    "no message": (answering(b"\0\0\0\x02{}"), "that is not a message of a sandbox host"),
    "no answer": (answering(encode([])), "the connection broke: ValueError"),
    "no facts": (answering(encode(([], ""))), "did not describe itself as expected"),
    "other version": (answering(encode(({"agentgym": "0.0.1"}, ""))), "has agentgym 0.0.1.*install the same"),
}


@pytest.mark.parametrize("case", cases(LIES, by_day=("no message", "other version")))
async def test_a_pod_that_was_taken_over_can_end_its_own_sandboxes_and_no_more(cluster, case):
    script, message = LIES[case]
    cluster.prefix = ("sh", "-c", f"{script}; sleep 50")
    async with backend_of() as backend:
        with pytest.raises(SandboxUnavailable, match=message):
            await backend.create(SPEC)
        assert cluster.claims == {}
        cluster.prefix = ()
        assert (await (await backend.create(SPEC)).exec(["true"])).ok


async def test_a_driver_that_was_killed_leaves_no_claim_and_no_sandbox(cluster):
    """The controller of the cluster ends what lives on: nobody else has to remember it."""
    async with driver() as (process, host):
        here = NamespacesBackend()
        assert host in {row.owner for row in await here.running()}
        assert len(cluster.claims) == 1
        process.kill()
        await until(lambda: not cluster.claims)
        await until(lambda: not Path(f"/proc/{host}/cmdline").exists())
        assert host not in {row.owner for row in await here.running()}
    assert requests_of(cluster, "DELETE") == 0


@pytest.mark.thorough
async def test_clean_releases_the_claims_of_dead_processes_and_no_others(cluster):
    async with driver() as (process, _), backend_of() as backend:
        await backend.create(SPEC)
        [row] = [row for row in await backend.running() if row.owner == process.pid]
        assert (row.backend, row.image, row.orphaned) == ("kubernetes", "agentgym", False)
        assert await backend.clean() == []
        process.kill()
        process.wait()
        assert await backend.clean() == [f"the claim {row.id} of the warm pool 'agentgym'"]
        assert len(cluster.claims) == 1


async def test_a_pod_without_user_namespaces_is_refused_with_what_it_needs(cluster):
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    cluster.prefix = ("unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh")
    async with backend_of() as backend:
        with pytest.raises(
            SandboxUnavailable, match=r"No sandbox can be created here.*privileged: true, with hostUsers"
        ):
            await backend.create(SPEC)
        assert not (await backend.probe()).available
    assert cluster.claims == {}


REFUSALS = {
    "no pool": ({}, {"pool": "nowhere"}, 'sandboxwarmpools.*"nowhere" not found'),
    "not installed": ({"has_crds": False}, {}, "install kubernetes-sigs/agent-sandbox with its extensions"),
    "wrong token": ({"token": "new"}, {}, "answered 401 .*Renew its credentials"),
    "forbidden": (
        {"faults": {"POST sandboxclaims": (403, "me cannot create resource sandboxclaims")}},
        {},
        "403 to POST .*me cannot create.*examples/cluster/agent-sandbox.yaml",
    ),
    "quota of claims": ({"faults": {"POST sandboxclaims": (403, "exceeded quota: gym")}}, {}, "exceeded quota: gym.$"),
    "conflict": ({"faults": {"POST sandboxclaims": (409, "already exists")}}, {}, "409 to POST .*already exists"),
    "gone": ({"faults": {"GET sandboxclaims": (410, "is gone")}}, {}, "410 to GET .*is gone"),
    "server error": ({"faults": {"POST sandboxclaims": (504, "timed out")}}, {}, "504 to POST .*timed out"),
    "exec forbidden": ({"faults": {"GET exec": (403, "no exec")}}, {}, "403 to exec .*pods/.*/exec"),
    "no node": (
        {"pending": "0/3 nodes are available: 3 Insufficient cpu."},
        {"ready_s": 1},
        r"no ready pod within 1 s. It waits for SandboxNotReady.*Insufficient cpu.; ImagePullBackOff: no such image",
    ),
    "quota of pods": ({"pending": "exceeded quota: pods"}, {"ready_s": 1}, "ReconcilerError: exceeded quota: pods"),
    "no Python": ({}, {"python": "/no/python"}, r"exec failed: .*/no/python"),
    "no agentgym": (
        {"prefix": ("env", "PYTHONPATH=/nowhere", "sh", "-c", "echo no module >&2; exit 3")},
        {},
        "no module",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_what_a_cluster_refuses_is_said_with_the_remedy_and_nothing_is_left(cluster, case):
    changes, options, message = REFUSALS[case]
    for name, value in changes.items():
        setattr(cluster, name, value)
    async with backend_of(**options) as backend:
        with pytest.raises(SandboxUnavailable, match=f"No sandbox can be created in a pod: .*{message}"):
            await backend.create(SandboxSpec())
    assert cluster.claims == {}
    assert requests_of(cluster, "POST") <= 1, "what may have been done is not sent again"


async def test_a_backend_that_is_closed_while_it_waits_for_a_pod_releases_its_claim_and_may_be_used_again(cluster):
    cluster.pending = "0/3 nodes are available."
    async with backend_of() as backend:
        waiting = asyncio.ensure_future(backend.create(SPEC))
        await until(lambda: cluster.claims)
        await backend.close()
        with pytest.raises(SandboxUnavailable, match="The kubernetes backend was closed"):
            await waiting
        assert cluster.claims == {}
        cluster.pending = ""
        assert (await (await backend.create(SPEC)).exec(["true"])).ok
    assert cluster.claims == {}


async def test_a_pool_without_its_template_is_refused_at_once(cluster):
    cluster.objects["sandboxtemplates"].clear()
    async with backend_of() as backend:
        with pytest.raises(SandboxUnavailable, match=r"'agentgym' cannot provide a pod \(TemplateNotFound"):
            await backend.create(SandboxSpec())
    assert cluster.claims == {}


def test_options_that_make_no_sense_are_named_at_once():
    with pytest.raises(UnknownNameError, match="namspaces"):
        KubernetesBackend(backend="namspaces")
    with pytest.raises(ValueError, match="per_pod=0"):
        KubernetesBackend(per_pod=0)


def agentgym(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentgym", "sandbox", *words, "--backend", "kubernetes"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | {"COLUMNS": "300"})


async def test_the_command_line_uses_the_pool_of_the_current_context(cluster):
    shell = await asyncio.to_thread(agentgym, "shell", "-c", "echo $((6*7))")
    assert (shell.returncode, shell.stdout) == (0, "42\n"), shell.stderr
    assert cluster.claims == {}
    os.environ["KUBECONFIG"] = "/no/kubeconfig"
    doctor = await asyncio.to_thread(agentgym, "doctor")
    assert doctor.returncode == 1
    assert "There is no kubeconfig at /no/kubeconfig" in doctor.stdout
