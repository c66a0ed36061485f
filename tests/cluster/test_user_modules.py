"""A user's definitions travel to nodes that lack their module."""

from __future__ import annotations

import os
import pickle
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location

import pytest

from agentgym.cluster.user_modules import user_code_by_value


@pytest.mark.skipif(find_spec("ray") is None and not os.environ.get("AGENTGYM_CI_RAY"), reason="Ray is not installed")
def test_a_module_that_stands_twice_in_sys_modules_is_sent_by_value_and_only_inside_the_block(tmp_path, monkeypatch):
    from ray import cloudpickle

    file = tmp_path / "acme_parts.py"
    file.write_text("class Part:\n    size = 3\n")
    spec = spec_from_file_location("acme_parts", file)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "acme_parts", module)
    monkeypatch.setitem(sys.modules, "acme_parts_by_another_name", module)
    with user_code_by_value(cloudpickle):
        data = cloudpickle.dumps(module.Part)
    by_name = cloudpickle.dumps(module.Part)
    monkeypatch.delitem(sys.modules, "acme_parts")
    assert pickle.loads(data).size == 3
    with pytest.raises(ModuleNotFoundError):
        pickle.loads(by_name)
