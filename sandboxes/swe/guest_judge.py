"""Runs inside the judge's sandbox: one process runs the tests, another collects their outcomes.

The first imports the repository, so anything that it reports may be forged. The second never imports it, the first
cannot access its memory and descriptors, and only it can write the report. This file is sent to the sandbox unchanged.
"""

from __future__ import annotations

import gc
import io
import json
import os
import random
import sys
import time
from typing import Any

from .guest_repository import PLAIN, begin

MAX_RECORDS = 2**26
RUNNERS = ("_pytest", "pytest", "pluggy", "unittest", "json")
CHECKED_EVERY = 8  # tests between two checks, on average
LOOKING_SHARE = 0.05  # maximum share of the tests' time; quick tests are checked more rarely
PR_SET_DUMPABLE = 4
OWN_CHANGES = (
    "Cache.makedir Config._getini_unknown_type Config.inifile Config.invocation_dir Config.rootdir pytestPDB._config "
    "pytestPDB._pluginmanager FixtureRequest.fspath Session.startdir Node.fspath TerminalReporter.startdir "
    "Function._pytest_diamond_inheritance_warning_shown FunctionDefinition._pytest_diamond_inheritance_warning_shown"
)
"""Names that pytest replaces in its own classes while it starts. No outcome depends on them."""
AWAITED = "/work/awaited.json"
"""The file with the ids of awaited tests. It is deleted before the tests' process begins."""
UNREADABLE = (ValueError, TypeError, RecursionError)
"""Errors from a record that the tests wrote themselves: not JSON, of another shape, nested too deeply."""


def judge_tests(chosen: list[str], source: list[str], plugins: list[str], cpu_s: int, thorough: bool) -> None:
    """Run the test files and print one line of JSON: [outcomes by test, reasons by test, changed functions].

    Nothing is printed if the tests did not finish. Outcomes are those of pytest, and `xfailed`. The changed functions
    are those of the test runner that were replaced since the repository was imported. They are checked at the end and
    after randomly chosen tests; if `thorough`, after every test. If the file AWAITED names tests, the run ends as soon
    as all of them have an outcome. The process that runs them cannot know this: nothing in its memory says so, and the
    file is deleted before it begins.
    """
    import ctypes
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    set_dumpable = ctypes.CDLL(None).prctl
    set_dumpable(PR_SET_DUMPABLE, 0)  # before the fork, so that the child can never open the memory of this process
    source_end, sink = os.pipe()
    waits, begins = os.pipe()
    pid = os.fork()
    if pid == 0:
        set_dumpable(PR_SET_DUMPABLE, 1)
        os.close(source_end)
        os.close(begins)
        if os.read(waits, 1):
            os.close(waits)
            run_judged(sink, chosen, source, plugins, thorough)
        os._exit(0)
    os.close(sink)
    os.close(waits)
    with open(AWAITED, encoding="utf-8") as file:
        awaited = json.load(file)
    os.remove(AWAITED)
    os.write(begins, b".")
    os.close(begins)
    records, status = collected(source_end, pid, set(awaited))
    outcomes, reasons, changed, ended = results_of(records)
    if status is None or (status == 0 and ended == 1):
        print(json.dumps([outcomes, reasons, sorted(changed)]))
    sys.stdout.flush()
    os._exit(0)


def results_of(records: list[bytes]) -> tuple[dict[str, str], dict[str, str], set[str], int]:
    """Return outcomes and reasons by test, the changed functions, and how often an end is reported.

    The worst outcome of a test counts: a run of controls stops once every control has an outcome, while the run of the
    real tests goes on, so a patch could otherwise improve an outcome in the real run alone. The reason for "" says why
    pytest stopped before any test.
    """
    outcomes: dict[str, str] = {}
    reasons: dict[str, str] = {}
    changed: set[str] = set()
    ended = 0
    for record in records:
        if report := _reported_outcome(record):
            test, outcome, reason = report
            if test not in outcomes or _badness(outcome) >= _badness(outcomes[test]):
                outcomes[test] = outcome
            if reason:
                reasons[test] = reason
            continue
        try:
            kind, names, *_ = json.loads(record)
        except UNREADABLE:
            continue  # written by the tests themselves
        if kind == "changed" and isinstance(names, list):
            changed.update(name for name in names if isinstance(name, str))
        elif kind == "stopped":
            reasons[""] = str(names)
        elif kind == "end":
            ended += 1
    return outcomes, reasons, changed, ended


def _badness(outcome: str) -> int:
    known = ("passed", "xfailed", "skipped")
    return known.index(outcome) if outcome in known else len(known)


def collected(descriptor: int, pid: int, awaited: set[str]) -> tuple[list[bytes], int | None]:
    """Return the lines that a child wrote until it ended, even if other processes hold the pipe, and its wait status.

    If tests are awaited, the child is killed when all of them have an outcome, and the status is None.
    """
    import select
    import signal

    child = os.pidfd_open(pid)
    os.set_blocking(descriptor, False)
    poller = select.poll()
    for watched in (descriptor, child):
        poller.register(watched, select.POLLIN)
    data = bytearray()
    read_to, pending = 0, set(awaited)
    while True:
        ready = {ready for ready, _ in poller.poll()}
        while len(data) < MAX_RECORDS and (piece := _read(descriptor)):
            data += piece
        if pending and (line_end := data.rfind(b"\n") + 1) > read_to:
            pending -= {
                report[0] for line in bytes(data[read_to:line_end]).splitlines() if (report := _reported_outcome(line))
            }
            read_to = line_end
            if not pending:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return bytes(data[:line_end]).splitlines(), None
        if child in ready:
            return bytes(data).splitlines(), os.waitpid(pid, 0)[1]
        if descriptor in ready and (piece == b"" or len(data) >= MAX_RECORDS):
            poller.unregister(descriptor)  # closed by all, or more than any report needs


def _reported_outcome(record: bytes) -> tuple[str, str, str] | None:
    """Return test, outcome and reason from a report that gives a test's outcome; None for other records.

    The outcome is that of the test's call, or of a set-up or clean-up that did not pass.
    """
    try:
        kind, test, outcome, reason, when = json.loads(record)
        if kind != "report" or (when != "call" and outcome == "passed"):  # a successful set-up is not yet an outcome
            return None
        return str(test), str(outcome), str(reason)
    except UNREADABLE:
        return None


def _read(descriptor: int) -> bytes | None:
    """Return the available bytes; b"" at the end; None if there are none yet."""
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return None


def run_judged(sink: int, chosen: list[str], source: list[str], plugins: list[str], thorough: bool) -> None:
    """Run pytest on the files, without its output, and write a line of JSON for each of its reports."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    begin(source)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest

    before = fingerprint()
    chance = random.Random(int.from_bytes(os.urandom(8), "big"))

    def tell(kind: str, *fields: Any) -> None:
        data = json.dumps([kind, *fields]).encode() + b"\n"
        while data:
            data = data[os.write(sink, data) :]

    reported: set[str] = set()
    begun, spent_s = time.monotonic(), 0.0

    def look() -> None:
        nonlocal spent_s
        started = time.monotonic()
        if different := set(differences(before, fingerprint())) - reported:
            reported.update(different)
            tell("changed", sorted(different), "", "", "")
        spent_s += time.monotonic() - started

    class Recorder:
        @pytest.hookimpl(trylast=True)
        def pytest_load_initial_conftests(self) -> None:
            os.environ.pop(
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD", None
            )  # set for this process only, not for those that tests start

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            outcome = "xfailed" if report.skipped and hasattr(report, "wasxfail") else report.outcome
            tell("report", report.nodeid, outcome, str(report.longrepr)[-4000:] if report.failed else "", report.when)
            affordable = spent_s <= LOOKING_SHARE * (time.monotonic() - begun)
            if thorough or (affordable and chance.randrange(CHECKED_EVERY) == 0):
                look()

        def pytest_sessionfinish(self) -> None:
            gc.freeze()  # spares pytest's garbage collections at its end, when this process ends too

        def pytest_internalerror(self, excrepr: object) -> None:
            tell("stopped", str(excrepr)[-4000:], "", "", "")

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            if report.failed:
                tell("report", report.nodeid, "error", str(report.longrepr)[-4000:], "collect")

    options = ["-q", "-p", "no:cacheprovider", *PLAIN, "--continue-on-collection-errors", "-W", "ignore"]
    options += ["--rootdir=/work/repo", "--maxfail=0"]
    for plugin in [*trusted_plugins(), *plugins]:
        options += ["-p", plugin]
    sys.stderr = messages = io.StringIO()
    if pytest.main([*options, *filter(os.path.exists, chosen)], plugins=[Recorder()]) == pytest.ExitCode.USAGE_ERROR:
        tell("stopped", messages.getvalue()[-4000:], "", "", "")
    look()
    tell("end", "", "", "", "")


def trusted_plugins() -> list[str]:
    """Return the entry points of the pytest plugins that are outside the repository."""
    from importlib.metadata import distributions

    folders = [folder for folder in sys.path if folder.startswith(("/packages", "/work/packages/env/"))]
    return sorted(
        entry.name
        for distribution in distributions(path=folders)
        for entry in distribution.entry_points
        if entry.group == "pytest11"
    )


def fingerprint() -> dict[str, tuple[int, ...]]:
    """Return the identities of the test runner's functions and classes, by their dotted names."""
    marks: dict[str, tuple[int, ...]] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in RUNNERS:
            for key, value in list(vars(module).items()):
                if callable(value):
                    marks[f"{name}.{key}"] = mark_of(value)
                if isinstance(value, type) and value.__module__ == name:
                    for inner, attribute in list(vars(value).items()):
                        if not inner.startswith("__") or inner in ("__init__", "__call__", "__enter__", "__exit__"):
                            marks[f"{name}.{key}.{inner}"] = mark_of(attribute)
    return marks


def mark_of(value: Any) -> tuple[int, ...]:
    """Return the identity of a function, and of its code and defaults."""
    function = getattr(value, "__func__", value)
    return (id(value), id(getattr(function, "__code__", None)), id(getattr(function, "__defaults__", None)))


def differences(before: dict[str, tuple[int, ...]], after: dict[str, tuple[int, ...]]) -> list[str]:
    """Return the names that were replaced, and the names that are new in an existing class."""
    changed = [name for name, mark in before.items() if after.get(name) != mark]
    owners = {name.rpartition(".")[0] for name in before} & set(before)
    changed += [
        name
        for name in after
        if name not in before and name.rpartition(".")[0] in owners and not name.rpartition(".")[2].startswith("_abc")
    ]
    return [name for name in changed if not name.endswith(tuple(OWN_CHANGES.split()))]
