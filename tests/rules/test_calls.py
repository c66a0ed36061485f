"""The hot paths make no more Python calls than before: no load on the machine can move a count."""

from __future__ import annotations

import pytest
from calls import PYTHON, SLACK, TABLE, WORK, Work, allowed, as_toml, count

COSTLY = {
    "run_python in a sandbox, in agentgym": [pytest.mark.slow, pytest.mark.needs_namespaces],
    "a training step, in agentgym": [
        pytest.mark.slow,
        pytest.mark.filterwarnings("ignore:.*_checkpointing:FutureWarning"),
    ],
}


@pytest.mark.skipif(allowed()["python"] != PYTHON, reason=f"calls.toml is for Python {allowed()['python']}")
@pytest.mark.parametrize("name", [pytest.param(name, marks=COSTLY.get(name, [])) for name in WORK])
def test_no_more_python_calls_are_made_than_before(name):
    calls, limit = count(name), allowed()["calls"][name]
    assert calls <= limit * (1 + SLACK), (
        f"{name}: {calls} Python calls, {limit} before. To see whose they are: python tests/rules/calls.py {name!r}. "
        f"If they must be: python tests/rules/calls.py --update, with the reason in the commit."
    )


def test_the_table_has_every_work_and_is_written_by_the_script():
    table = allowed()
    assert list(table["calls"]) == list(WORK)
    assert as_toml(table["calls"]).replace(PYTHON, table["python"]) == TABLE.read_text()


def test_calls_are_counted_exactly_and_what_is_done_once_is_not():
    def once(): ...

    def each(): ...

    def do(times):
        once()
        for _ in range(times):
            each()
            each()

    work = Work(do, times=(3, 10), units=2)
    calls = work.calls()
    assert {code.co_name: n for code, n in (+calls).items()} == {"each": 2 * (10 - 3)}
    assert work.per_unit(calls.total()) == 1.0
