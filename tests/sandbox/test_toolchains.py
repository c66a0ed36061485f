"""Which entries of /etc a toolchain's home links to."""

from __future__ import annotations

from pathlib import Path

from agentgym.sandbox.guest.root import configured_entries


def test_the_links_of_a_toolchain_into_etc_are_followed_and_no_others(tmp_path: Path) -> None:
    """A JDK as Debian lays it out: /usr/bin/java leads to its home, whose conf and lib hold links into /etc."""
    usr = tmp_path / "usr"
    home = usr / "lib/jvm/jdk"
    for folder in ("bin", "conf", "lib"):
        (home / folder).mkdir(parents=True)
    (usr / "bin").mkdir()
    (home / "bin/java").touch()
    (usr / "bin/java").symlink_to(home / "bin/java")
    (home / "conf/net.properties").symlink_to("/etc/java-99/net.properties")
    (home / "lib/jvm.cfg").symlink_to("/etc/java-99/jvm.cfg")
    (usr / "lib/other").mkdir()
    (usr / "lib/other/secret").symlink_to("/etc/secret")  # no program leads here
    assert configured_entries(str(usr)) == ["java-99"]
    assert configured_entries(str(tmp_path / "nothing")) == []
