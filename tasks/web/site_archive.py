"""The few files that make an installed application a site, as the archive of an asset."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping


def site_archive(files: Mapping[str, str]) -> bytes:
    """Return a zip of texts by file name, byte for byte the same for the same files."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
