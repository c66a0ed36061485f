"""Importing agentgym is quick and silent, and the core works without any extra."""

from __future__ import annotations

import json
import subprocess
import sys

from heavy import HEAVY_MODULES, OPTIONAL
from source_tree import ROOT, module_name, source_files

WATCH = """
import json, os, sys
events = []
def watch(event, args):
    if event == "open" and isinstance(args[0], str) and not args[0].endswith((".py", ".pyc")):
        events.append(args[0])
    if event in ("socket.connect", "subprocess.Popen", "os.fork", "os.mkdir", "os.remove"):
        events.append(event)
before = set(sys.modules)
sys.addaudithook(watch)
import agentgym
seen = list(events)
loaded = sorted({name.partition(".")[0] for name in set(sys.modules) - before})
sys.stdout.write(json.dumps({"opened": seen, "loaded": loaded}))
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)


def test_the_help_of_the_command_line_needs_no_numpy():
    done = run("import sys\nimport agentgym.cli.app\nsys.stdout.write(str('numpy' in sys.modules))")
    assert (done.returncode, done.stdout) == (0, "False"), done.stderr


def test_importing_agentgym_loads_the_standard_library_at_most():
    """Not even pydantic and httpx: they are loaded when a tool is built, or a server is asked."""
    done = run(WATCH)
    assert done.returncode == 0, done.stderr
    foreign = set(json.loads(done.stdout)["loaded"]) - {"agentgym"} - set(sys.stdlib_module_names)
    assert not foreign, f"importing agentgym loaded {sorted(foreign)}"


def test_importing_agentgym_prints_reads_and_writes_nothing():
    done = run(WATCH)
    assert done.stderr == ""
    assert json.loads(done.stdout)["opened"] == []


def test_every_public_name_is_reachable_without_any_extra():
    code = "import agentgym, sys\nfor name in agentgym.__all__: getattr(agentgym, name)\nprint(*sys.modules)"
    done = run(code)
    assert done.returncode == 0, done.stderr
    assert not OPTIONAL & {name.partition(".")[0] for name in done.stdout.split()}
    assert done.stderr == ""


LIGHT = [module_name(path) for path in source_files() if module_name(path) not in HEAVY_MODULES]

BLOCK = """
import importlib, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {optional!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}} (blocked: it belongs to an extra)", name=name)
sys.meta_path.insert(0, Absent())
broken = []
for name in {modules!r}:
    try:
        importlib.import_module(name)
    except ImportError as error:
        broken.append(f"{{name}}: {{error}}")
print("\\n".join(broken), end="")
"""


def test_every_module_outside_the_extras_imports_with_core_dependencies_alone():
    done = run(BLOCK.format(optional=sorted(OPTIONAL), modules=LIGHT))
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_every_module_named_as_heavy_exists():
    gone = set(HEAVY_MODULES) - {module_name(path) for path in source_files()}
    assert gone == set(), "no longer there: take it out of heavy.py"
