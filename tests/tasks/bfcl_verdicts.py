"""Verdicts of the published checker of BFCL on calls: JSON lines in, a line of `true` or `false` out for each.

Run by an interpreter of its own: python bfcl_verdicts.py FOLDER, the folder into which `pip install --no-deps --target
FOLDER bfcl-eval` has put the package. The checker asks a table of models only how they write dots in names; that table
needs the clients of all of them, so it is replaced.
"""

import json
import sys
from importlib import import_module
from types import ModuleType, SimpleNamespace

sys.path.insert(0, sys.argv[1])
models = ModuleType("bfcl_eval.constants.model_config")
models.MODEL_CONFIG_MAPPING = {"any": SimpleNamespace(underscore_to_dot=True)}
sys.modules[models.__name__] = models

Language = import_module("bfcl_eval.constants.enums").Language
ast_checker = import_module("bfcl_eval.eval_checker.ast_eval.ast_checker").ast_checker

multi_turn_checker = import_module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker").multi_turn_checker


def verdict(row):
    """Whether calls are right: of one message, or of several turns."""
    if "entry" in row:
        steps = [[[call] for call in turn] for turn in row["calls"]]
        return multi_turn_checker(steps, row["accepted"], row["entry"], "", "any")["valid"]
    language = {"simple_java": Language.JAVA, "simple_javascript": Language.JAVASCRIPT}.get(row["category"])
    language = language or Language.PYTHON
    return ast_checker(row["functions"], row["calls"], row["accepted"], language, row["category"], "any")["valid"]


for line in sys.stdin:
    try:
        print(json.dumps(verdict(json.loads(line))))
    except (AttributeError, TypeError, KeyError):  # the harness ends there; no call that makes it do so is right
        print("false")
