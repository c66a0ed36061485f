"""A package whose entry points are wrong is told which, why, and where to correct it, in one line."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from agentgym import registry
from agentgym.cli.app import app
from agentgym.errors import MissingExtraError, RegistrationError

ENTRY_POINTS = """
[agentgym.environments]
acme/attribute-v1 = acme_shop:Shopp
acme/module-v1 = acme_shopp.environment:Shop
acme/needs-v1 = acme_needy:Shop
acme/bug-v1 = acme_buggy:Shop
acme/unversioned = acme_shop:Shop
"""


@pytest.fixture
def a_package(tmp_path, monkeypatch):
    """An installed package with these entry points."""
    information = tmp_path / "acme_shop-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-shop\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "acme_shop.py").write_text("from agentgym import Environment\nclass Shop(Environment): ...\n")
    (tmp_path / "acme_needy.py").write_text("import acme_shelves\n")
    (tmp_path / "acme_buggy.py").write_text("import os\nos.no_such_thing\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry._points.cache_clear()
    yield
    registry._points.cache_clear()


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        (
            "acme/attribute-v1",
            "by the package 'acme-shop', but acme_shop has no 'Shopp'. Did you mean 'Shop'?",
        ),
        ("acme/module-v1", "by the package 'acme-shop', but there is no module 'acme_shopp'."),
        ("acme/unversioned", "write namespace/name-vN, for example 'acme/sql-v1'."),
    ],
)
def test_a_wrong_entry_point_is_one_line_with_the_remedy(a_package, name, cause):
    with pytest.raises(RegistrationError, match=r"Correct it in the pyproject.toml of that package"):
        registry.load("environments", name)
    finished = CliRunner().invoke(app, ["play", name], env={"COLUMNS": "400"})
    assert finished.exit_code == 2
    assert cause in finished.output
    assert "Traceback" not in finished.output
    assert "pip install" not in finished.output


def test_what_the_package_needs_or_does_wrong_itself_is_no_wrong_entry_point(a_package):
    with pytest.raises(MissingExtraError, match="needs the package 'acme_shelves'"):
        registry.load("environments", "acme/needs-v1")
    with pytest.raises(AttributeError, match="no_such_thing"):
        registry.load("environments", "acme/bug-v1")
