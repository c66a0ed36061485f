"""Archives of the few files that turn an installed application into a site."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping


def site_archive(files: Mapping[str, str]) -> bytes:
    """Return a zip of texts by file name, the same bytes for the same files."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
