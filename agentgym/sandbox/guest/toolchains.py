"""Find the entries of the host's /etc that toolchains read: Debian's Java, Maven and R link from /usr into /etc.

A link in /usr/bin that leads into a directory, such as /usr/lib/jvm/NAME/bin/java, shows that the directory is a
toolchain's home.
"""

from __future__ import annotations

import os
from collections.abc import Iterator


def configured_entries(usr: str = "/usr") -> list[str]:
    """Return the names of the entries of /etc to which the homes of toolchains link, sorted.

    Only links in a home and in its direct subdirectories count: they lead to the directories that hold the rest.
    """
    homes = {home for link in _links(f"{usr}/bin") if (home := _home(link, usr))}
    targets = {os.readlink(link) for home in homes for link in _links_near(home)}
    return sorted({target.split("/")[2] for target in targets if target.startswith("/etc/")})


def _home(link: str, usr: str) -> str | None:
    directory, _ = os.path.split(os.path.realpath(link))
    home, name = os.path.split(directory)
    return home if name == "bin" and home.startswith(f"{usr}/") and home != f"{usr}/local" else None


def _links_near(home: str) -> Iterator[str]:
    yield from _links(home)
    try:
        directories = [entry.path for entry in os.scandir(home) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for directory in directories:
        yield from _links(directory)


def _links(directory: str) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            yield from (entry.path for entry in entries if entry.is_symlink())
    except OSError:
        return
