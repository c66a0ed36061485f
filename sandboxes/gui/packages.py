"""Packs installed Python packages for applications that run in the browser's sandbox."""

from __future__ import annotations

import io
import re
import zipfile
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from agentgym import MissingExtraError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@cache
def packages_archive(names: tuple[str, ...]) -> bytes:
    """Zip pure Python packages with all their requirements. Compiled modules are included, but may not work there.

    Args:
        names: installed distributions, such as django.
    Raises: MissingExtraError naming the first distribution that is not installed.
    """
    distributions = _with_requirements(names)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in sorted(distributions):
            for path in sorted(distributions[name].files or (), key=str):
                located = path.locate()
                if ".." not in path.parts and path.suffix != ".pyc" and located.is_file():  # type: ignore[attr-defined]
                    content = located.read_bytes()  # type: ignore[attr-defined]
                    archive.writestr(zipfile.ZipInfo(path.as_posix()), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _with_requirements(names: tuple[str, ...]) -> dict[str, Distribution]:
    """Return the named distributions and their installed requirements, without extras."""
    distributions: dict[str, Distribution] = {}
    pending = [(name, True) for name in reversed(names)]
    while pending:
        name, is_named = pending.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in distributions:
            continue
        try:
            distributions[key] = distribution(name)
        except PackageNotFoundError as error:
            if is_named:
                raise MissingExtraError(f"The package {name!r} is not installed. Run: pip install {name}") from error
            continue  # required only on other systems
        for requirement in distributions[key].requires or ():
            match = _NAME.match(requirement)
            if match and "extra ==" not in requirement:
                pending.append((match[0], False))
    return distributions
