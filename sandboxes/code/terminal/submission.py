"""What an agent hands in of a terminal task: its changes to the image, as the archive of a snapshot.

A small archive stands in the text itself, and so does a larger one of an environment on another machine than the
verifier's. Other archives, and those of all steps but the last, are in <cache>/submissions/ under their hash. Beyond
MAX_KEPT the least recently used are removed, but none of the last hour: no agent can remove what another has just
handed in.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from agentgym import JudgeError
from agentgym.sandbox import Snapshot, archive_of, cache_folder, snapshot_of

MAX_INLINE, MAX_TRAVELLING = 300_000, 2**26
"""How many characters of an archive stand in the text: usually, and if it is read on another machine."""
MAX_KEPT = 8 * 2**30
KEPT_S = 3_600.0


def write_submission(snapshot: Snapshot, keep: Callable[[str, str], bool], max_inline: int = MAX_INLINE) -> str:
    """Return the text that stands for a snapshot over an image.

    Args:
        keep: tells which changes count, by path below / and kind ("d" for a folder); what is below a folder that does
            not count must not count either.
        max_inline: how many characters of the archive may stand in the text.
    """
    archive = archive_of(snapshot, keep)
    packed = zlib.compress(archive, 1)
    row: dict[str, object] = {"sha256": hashlib.sha256(archive).hexdigest(), "bytes": len(archive)}
    if len(packed) * 4 // 3 <= max_inline:
        row["data"] = base64.b64encode(packed).decode()
    else:
        _keep(str(row["sha256"]), packed)
    return json.dumps(row)


def read_submission(text: str) -> Snapshot:
    """Return the snapshot of a text.

    Raises: ValueError for a text that `write_submission` did not write; JudgeError if the archive is not on this
        machine.
    """
    row = json.loads(text)
    if not isinstance(row, dict) or not isinstance(row.get("sha256"), str) or not isinstance(row.get("bytes"), int):
        raise ValueError("the submission does not name an archive")
    name, size = row["sha256"], row["bytes"]
    if size < 0 or not name.isalnum():
        raise ValueError("the submission's archive has no size, or no name")
    packed = base64.b64decode(row["data"], validate=True) if "data" in row else _stored(name)
    unpacking = zlib.decompressobj()
    archive = unpacking.decompress(packed, size + 1)
    if len(archive) != size or hashlib.sha256(archive).hexdigest() != name:
        raise ValueError("the submission's archive is not what was handed in")
    return snapshot_of(archive, "", over_image=True)


def part_of(snapshot: Snapshot, keep: Callable[[str, str], bool]) -> Snapshot:
    """Return those changes of a snapshot over an image that `keep` accepts, as `write_submission` calls it."""
    return snapshot_of(archive_of(snapshot, keep), "", over_image=True)


def _folder() -> Path:
    folder = cache_folder() / "submissions"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _keep(name: str, packed: bytes) -> None:
    folder = _folder()
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".draft-", delete=False) as draft:
        draft.write(packed)
    Path(draft.name).replace(folder / name)
    files = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in folder.iterdir())
    total = sum(size for _, size, _ in files)
    for used_at, size, path in files:
        if total <= MAX_KEPT or used_at > time.time() - KEPT_S:
            break
        path.unlink(missing_ok=True)
        total -= size


def _stored(name: str) -> bytes:
    path = cache_folder() / "submissions" / name
    try:
        os.utime(path)
        return path.read_bytes()
    except FileNotFoundError as error:
        raise JudgeError(
            f"What was handed in is not in {path.parent}: it was handed in on another machine, or has been removed. "
            "Judge it where it was played, or play the episode again."
        ) from error
