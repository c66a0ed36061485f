"""Public names that moved work at their old place for one release: each row of `agentgym.moved.MOVED`."""

from __future__ import annotations

from importlib import import_module
from pkgutil import resolve_name

import pytest
from source_tree import module_name, source_files

from agentgym import moved
from agentgym.deprecation import AgentGymDeprecationWarning

PACKAGES = sorted(old.removesuffix(".*") for old in moved.MOVED if old.endswith(".*"))
NAMES = sorted(old for old in moved.MOVED if not old.endswith(".*"))


def old_import(package: str, name: str):
    """What `from package import name` gives, and the warnings that it caused."""
    scope: dict[str, object] = {}
    with pytest.warns(AgentGymDeprecationWarning) as caught:
        exec(f"from {package} import {name}", scope)
    return scope[name], {str(warning.message) for warning in caught}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_of_a_package_that_moved_is_found_at_its_old_place(package):
    new = moved.MOVED[f"{package}.*"]
    for name in import_module(new).__all__:
        try:
            expected = getattr(import_module(new), name)
        except ModuleNotFoundError:  # it needs a package that tests do not install
            continue
        value, messages = old_import(package, name)
        assert value is expected
        assert any(f"{package}.{name} is now {new}.{name}." in message for message in messages)


@pytest.mark.parametrize("old", NAMES)
def test_a_name_that_moved_is_found_at_its_old_place(old):
    package, _, name = old.rpartition(".")
    new = resolve_name(moved.MOVED[old])
    value, messages = old_import(package, name)
    assert value == (new.fget if isinstance(new, property) else new)
    assert any(f"{old} is now {moved.MOVED[old]}." in message for message in messages)


def test_what_moved_is_gone_from_where_it_was():
    """Otherwise the table's row would never be asked for."""
    modules = {module_name(path) for path in source_files()}
    assert not modules & {*PACKAGES, *NAMES}
    for old in NAMES:
        package, _, name = old.rpartition(".")
        assert package in modules or package in PACKAGES
        assert name not in vars(import_module(package))


def test_a_name_that_never_was_is_refused_as_ever(monkeypatch):
    monkeypatch.setitem(moved.MOVED, "agentgym.attic.*", "agentgym.credit")
    assert old_import("agentgym.attic", "Group")[0] is import_module("agentgym.credit").Group
    with pytest.raises(ImportError, match="Grupe"):
        exec("from agentgym.attic import Grupe")
    with pytest.raises(AttributeError, match=r"'agentgym\.credit' has no attribute 'Grupe'"):
        _ = import_module("agentgym.credit").Grupe


def test_a_package_says_that_a_name_has_moved(monkeypatch):
    monkeypatch.setitem(moved.MOVED, "agentgym.Attic", "agentgym.credit.Group")
    assert old_import("agentgym", "Attic")[0] is import_module("agentgym.credit").Group
