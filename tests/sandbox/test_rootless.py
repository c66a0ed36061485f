"""An ordinary user gets the same sandboxes, and is told which limits only control groups could enforce."""

from __future__ import annotations

import pytest
from ordinary_user import as_ordinary_user

pytestmark = pytest.mark.needs_namespaces


@pytest.fixture(scope="module")
def report() -> dict[str, object]:
    return as_ordinary_user("rootless_checks.py")


def test_sandboxes_are_made_without_root(report):
    assert report["uid"] != 0
    assert report["available"], report["reason"]
    assert report["outside"][1] == "0" or int(report["outside"][1]) == report["uid"], (
        "the agent is the user, and no one else"
    )


def test_every_check_of_what_is_enforced_passes(report):
    assert report["findings"] == []


def test_snapshots_lie_on_layers_also_after_a_reset(report):
    assert report["layers"] == {"stacked": True, "same": [True, True], "seen": ""}


def test_limits_that_need_control_groups_are_refused_unless_accepted(report):
    if report["level"] == "ns+cgroup":
        pytest.skip("this user has a delegated control group: nothing is missing")
    assert {"memory", "cpu"} <= set(report["missing"])
    assert "--accept-weaker memory,cpu" in report["refused"]
    assert "delegated" in report["refused"]
    assert "memory" in report["refused"]


def test_a_network_needs_no_root():
    report = as_ordinary_user("rootless_network_checks.py")
    assert report["uid"] != 0
    assert (report["plain"], report["tls"]) == ("GET /a with 0 bytes\n", "GET /b with 0 bytes\n")
    assert "evil:80 is not on the allow list" in report["evil"]
    assert report["direct"] == "111\n", "refused: the loopback is the sandbox's own"
    assert report["connections"] == [["allowed.test", 80, True], ["allowed.test", 443, True], ["evil", 80, False]]
    assert report["left"] == [0, 0]


def test_what_no_control_group_limits_is_watched(report):
    """The sum of memory and the processors: weaker than a limit, so both stay missing, but neither is left alone."""
    if report["level"] == "ns+cgroup":
        pytest.skip("this user has a delegated control group: nothing is left to watch")
    assert set(report["watched"]) == {"memory", "cpu"}
    seen = report["watchdog"]
    assert seen["killed"] >= 1, "each process was within its own bound"
    assert seen["hidden"] == [False, True], "memory that no process maps is counted too"
    assert seen["modest"] == [True, False], "shared pages are not counted twice"
    assert seen["cores"] < 1.3
    assert seen["kept"] == "1\n", "what is small is spared"
    assert seen["peak_mib"] > 128


@pytest.mark.thorough
def test_an_ordinary_user_has_images_too(report):
    expected = {"findings": [], "digest": "sha256:", "stacked": report["layers"]["stacked"], "writable": "0\ngone\n"}
    assert as_ordinary_user("rootless_image_checks.py") == expected
