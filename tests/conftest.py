"""What every test shares: offline settings, real sandboxes where the machine allows them, and nothing left running."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path

import hypothesis  # before a plug-in of its own is looked for, which warns where nothing has imported it
import pytest
from by_day import wait_for_their_turn
from processes import children_of, spawners, waits_for_its_sandbox

# What tests of benchmarks import. At the end: `mcp` is the installed package and not the benchmark.
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

# Before anything imports torch, tokenizers or a hub client: all of them read these once.
for name, value in {
    "OMP_NUM_THREADS": "1",  # tests, episodes and sandboxes run beside each other
    "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",  # with AMX, training would compute in bfloat16
    "TORCHDYNAMO_DISABLE": "1",  # nothing here is compiled, and a library prepares it on import, for a second each time
    "TOKENIZERS_PARALLELISM": "false",  # a tokenizer with threads warns after every fork
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "MPLBACKEND": "Agg",
    "AGENTGYM_STATE_DIR": "off",  # what tests play is no look at a held-out split
    "CUDA_VISIBLE_DEVICES": "",  # the tests' figures are of the CPU; GPU work is in benchmarks/
}.items():
    os.environ.setdefault(name, value)

# Ray finds a cluster by a file that the last one on the host wrote, and ends each process that is connected to one that
# has gone: a worker that probed every backend went with the cluster of another worker. The path of a socket is short.
os.environ["RAY_TMPDIR"] = f"{tempfile.gettempdir()}/agray-{os.getpid()}"

# Compiled modules are kept even where the shell says otherwise: every worker and hundreds of commands import the same.
os.environ["PYTHONDONTWRITEBYTECODE"] = ""
sys.dont_write_bytecode = False

# A shell's job in the background ignores Ctrl-C, and what `nohup` starts ignores the end of its terminal. So would
# every command that a test starts and stops.
for sent, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(sent) is signal.SIG_IGN:
        signal.signal(sent, handler)

# Nothing here may depend on how fast the machine is at the moment: not an example, nor the making of one. `make test`
# tries the same 5 examples every time, so that a change is judged by itself; `make test-all` looks for 100 new ones.
hypothesis.settings.register_profile(
    "agentgym",
    deadline=None,
    max_examples=100 if "AGENTGYM_TEST_ALL" in os.environ else 5,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize="AGENTGYM_TEST_ALL" not in os.environ,
)
hypothesis.settings.load_profile("agentgym")


# A worker holds millions of objects that live as long as it does, and looking through them took a tenth of its time.
gc.set_threshold(50_000, 20, 50)

DURATIONS = Path(__file__).with_name("durations.json")
"""The seconds of a test function with all its cases, from SLOW_S on, and of a case alone, from LONG_S on."""
SLOW_S, LONG_S = 0.1, 5.0
seconds_of_this_run: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-durations", action="store_true", help=f"Write how long tests take into {DURATIONS.name}."
    )


def function_of(node_id: str) -> str:
    """The id of a test without the parameters of its case."""
    return node_id.partition("[")[0]


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `make test-all` or another commit plays, mark slow tests, spread the long ones over the workers.

    Each worker begins with its share of them, so that none ends with one.
    """
    if "AGENTGYM_TEST_ALL" not in os.environ:
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=left_out)
    recorded = json.loads(DURATIONS.read_text())
    n_cases = Counter(function_of(item.nodeid) for item in items)
    seconds_of: dict[str, float] = {}
    for item in items:
        function = function_of(item.nodeid)
        if function in recorded:
            item.add_marker("slow")
        seconds_of[item.nodeid] = recorded.get(item.nodeid, recorded.get(function, 0.0) / n_cases[function])
    waiting = waiting_tests(config, items, seconds_of)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in waiting])
    items[:] = [item for item in items if item.nodeid not in waiting]
    units: dict[str, list[pytest.Item]] = {}
    seconds: defaultdict[str, float] = defaultdict(float)
    for item in items:
        unit = unit_of(item)
        units.setdefault(unit, []).append(item)
        seconds[unit] += seconds_of[item.nodeid]
    if (n_workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))) == 1:
        items[:] = [item for of_unit in units.values() for item in of_unit]
        return
    long = [units[unit] for unit in sorted(seconds, key=lambda unit: -seconds[unit]) if seconds[unit] >= LONG_S]
    short = (item for unit, of_unit in units.items() if seconds[unit] < LONG_S for item in of_unit)
    ordered: list[pytest.Item] = []
    for worker in range(n_workers):
        share = (len(items) - len(ordered)) // (n_workers - worker)  # what pytest-xdist gives it at first
        first = [item for of_unit in long[worker::n_workers] for item in of_unit]
        ordered += [*first, *islice(short, max(0, share - len(first)))]
    items[:] = [*ordered, *short]


def waiting_tests(config: pytest.Config, items: list[pytest.Item], seconds_of: Mapping[str, float]) -> set[str]:
    """Return the ids of long tests that another commit plays. None of a named file or folder, and of tests/rules."""
    tests = DURATIONS.parent
    named = {Path(argument.partition("::")[0]).resolve() for argument in config.args} - {tests, tests.parent}
    exempt = {tests / "rules", *named}
    long = {item.nodeid: seconds_of[item.nodeid] for item in items if not exempt & {item.path, *item.path.parents}}
    if "AGENTGYM_TEST_ALL" in os.environ or (commit := this_commit()) is None:
        return set()
    return wait_for_their_turn(long, commit)


def this_commit() -> str | None:
    """Return the id of the checkout's commit; None where the tests are in no checkout, or git is not there."""
    command = ["git", "-C", str(DURATIONS.parent), "rev-parse", "HEAD"]
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return None


def unit_of(item: pytest.Item) -> str:
    """Return what tests that follow one another in one process have in common.

    It is the name of their mark `together`, or the file of tests that use a fixture made once for it, and else the id
    of the test.
    """
    if together := item.get_closest_marker("together"):
        return str(together.args[0])
    file = item.nodeid.partition("::")[0]
    fixtures = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    once = any(each.scope == "module" and each.baseid == file for definitions in fixtures for each in definitions)
    return file if once else item.nodeid


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    for name in {report.nodeid, function_of(report.nodeid)}:
        seconds_of_this_run[name] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the durations, where that was asked for: of the tests that ran, and of other existing ones as they were."""
    if session.config.getoption("--record-durations") and not hasattr(session.config, "workerinput"):
        seconds = {**json.loads(DURATIONS.read_text()), **seconds_of_this_run}
        least = {name: SLOW_S if name == function_of(name) else LONG_S for name in seconds}
        slow = {name: round(s, 1) for name, s in sorted(seconds.items()) if s >= least[name] and exists(name)}
        DURATIONS.write_text(json.dumps(slow, indent=1) + "\n")


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["RAY_TMPDIR"], ignore_errors=True)


def exists(test: str) -> bool:
    """Whether a test function is still in its file."""
    file, _, name = function_of(test).partition("::")
    path = DURATIONS.parents[1] / file
    return path.is_file() and f"def {name.rpartition('::')[2]}(" in path.read_text()


@cache
def reason_against(name: str) -> str:
    """Why a registered backend cannot work here, or nothing if it can."""
    from agentgym.registry import load

    async def probe() -> str:
        backend = load("backends", name)()
        try:
            capabilities = await backend.probe()
        finally:
            await backend.close()
        return "" if capabilities.available else capabilities.reason or "the backend gave no reason"

    return asyncio.run(probe())


def pytest_collection_finish() -> None:
    """Leave what importing the tests built, torch above all, out of every later gc.collect.

    The conformance checks and the fixture below collect often, and would spend most of their time on it.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose backend cannot work here; where CI must have it, that is a failure."""
    for backend, must in (("namespaces", "CI"), ("docker", "AGENTGYM_CI_DOCKER")):  # set where CI has a daemon
        if item.get_closest_marker(f"needs_{backend}") is None or not (reason := reason_against(backend)):
            continue
        message = f"no sandbox can be made here: {reason}"
        if os.environ.get(must):
            pytest.fail(f"{message} ({must} is set: these tests must run)", pytrace=False)
        pytest.skip(message)


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_running():
    """After each file: every sandbox was closed by the test that made it, and no spawner outlives its backend."""
    yield
    gc.collect()  # a backend that a test let go of ends its processes when it is collected
    gc.freeze()  # as above, for what this file imported
    children = [pid for spawner in spawners() for pid in children_of(spawner) if namespace_of(pid) != namespace_of(0)]
    unclosed = [pid for pid in children if not waits_for_its_sandbox(pid)]
    from agentgym.registry import close_backends

    asyncio.run(close_backends())
    assert unclosed == [], f"sandboxes that no test closed: processes {unclosed}"
    assert not spawners(), f"spawners that no test closed: processes {spawners()}"


def namespace_of(pid: int) -> str:
    """Which process namespace a process lives in, a number of its own; 0 means this process."""
    with suppress(OSError):
        return os.readlink(f"/proc/{pid or 'self'}/ns/pid")
    return ""
