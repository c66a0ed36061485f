"""Test runners by their names in a task's `runner`: each parses its output into outcomes by test.

runner.py    the definition of a runner, and the report of a run
python.py go.py node.py cargo.py junit.py ctest.py    one or two runners each
"""

from .cargo import CARGO
from .ctest import CTEST
from .go import GO
from .junit import JUNIT
from .node import NODE
from .python import PYTEST, UNITTEST
from .runner import Canary, Report, SuiteRunner

RUNNERS = {
    "pytest": PYTEST,
    "unittest": UNITTEST,
    "go": GO,
    "node": NODE,
    "cargo": CARGO,
    "junit": JUNIT,
    "ctest": CTEST,
}

__all__ = ["RUNNERS", "Canary", "Report", "SuiteRunner"]
