"""A user's definitions travel to nodes that lack their module."""

from __future__ import annotations

import os
import pickle
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from types import ModuleType

import pytest

from agentgym.cluster.user_modules import user_code_by_value

needs_ray = pytest.mark.skipif(
    find_spec("ray") is None and not os.environ.get("AGENTGYM_CI_RAY"), reason="Ray is not installed"
)


@needs_ray
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


@needs_ray
def test_packages_of_every_site_are_sent_by_name_and_what_the_user_registered_stays_registered(tmp_path, monkeypatch):
    """A venv may see the packages of the Python below it, whose folder is none of its own."""
    from ray import cloudpickle

    def add(name: str, key: str, folder: str) -> ModuleType:
        module = ModuleType(name)
        module.__file__ = f"{folder}/{name}.py"
        monkeypatch.setitem(sys.modules, key, module)
        return module

    for index, folder in enumerate(("dist-packages", "lib/python3.11/site-packages")):
        add(f"installed_{index}", f"installed_{index}", f"{tmp_path}/{folder}")
    add("under_another_key", "key", str(tmp_path))
    cloudpickle.register_pickle_by_value(add("mine", "mine", str(tmp_path)))
    before = cloudpickle.list_registry_pickle_by_value()
    try:
        with user_code_by_value(cloudpickle):
            names = cloudpickle.list_registry_pickle_by_value()
            assert "mine" in names
            assert not names & {"installed_0", "installed_1", "under_another_key"}
        assert cloudpickle.list_registry_pickle_by_value() == before
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules["mine"])
