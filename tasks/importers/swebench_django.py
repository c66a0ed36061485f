"""What SWE-bench's Django instances need to run under pytest: ids of their tests, and the set-up around these."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import unified_diff
from typing import Any

REPO = "django/django"
UNITTEST_ID = re.compile(r"(\w+) \((\w+(?:\.\w+)+)\)")
CONFTEST = '''"""What Django's own tests/runtests.py sets up around its tests, for pytest."""

import inspect
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
os.environ["DJANGO_SETTINGS_MODULE"] = "test_sqlite"


def pytest_configure(config):
    import runtests

    inside = [os.path.relpath(argument.partition("::")[0], HERE).split(os.sep)[0] for argument in config.args]
    labels = sorted({name for name in inside if name.isidentifier()})
    known = {"verbosity": 0, "test_labels": labels, "parallel": 1}
    setup = getattr(runtests, "setup", None) or runtests.setup_run_tests  # since Django 4.0
    setup(**{name: known.get(name) for name in inspect.signature(setup).parameters})
    from django.test.runner import DiscoverRunner

    runner = DiscoverRunner(verbosity=0, interactive=False)
    runner.setup_test_environment()
    runner.setup_databases()
'''
AT = "tests/conftest.py"
PARAMETERS: dict[str, Any] = {"source": [".", "tests"]}
PATCH = f"diff --git a/{AT} b/{AT}\nnew file mode 100644\n" + "".join(
    unified_diff([], CONFTEST.splitlines(True), "/dev/null", f"b/{AT}")
)
PACKAGES = ["pytz==2018.9", "sqlparse==0.5.1"]
"""The packages that Django 2 and 3 import, for tasks without a built environment."""
FILES = {AT: CONFTEST}
NOT_HERE = frozenset(
    {  # tests for other test runners, and tests changed between the installed release and the instances' commits
        "tests/test_utils/tests.py::SkippingTestCase::test_skip_if_db_feature",
        "tests/test_utils/tests.py::SkippingTestCase::test_skip_unless_db_feature",
        "tests/test_utils/tests.py::AssertNumQueriesUponConnectionTests::test_ignores_connection_configuration_queries",
        "tests/expressions/tests.py::BasicExpressionsTests::test_aggregate_subquery_annotation",
        "tests/expressions/tests.py::BasicExpressionsTests::test_annotate_values_count",
        "tests/expressions/tests.py::BasicExpressionsTests::test_annotation_with_outerref",
    }
)
"""Tests that are recorded as passing, but do not pass on this host even with the gold patch."""


def unittest_ids(names: Sequence[str]) -> list[str]:
    """Return the pytest ids of tests with unittest names; names that are only descriptions are dropped."""
    ids = dict.fromkeys(
        f"tests/{at.rpartition('.')[0].replace('.', '/')}.py::{at.rpartition('.')[2]}::{name}"
        for name, at in (match.groups() for match in map(UNITTEST_ID.fullmatch, names) if match)
    )
    return [test for test in ids if test not in NOT_HERE]
