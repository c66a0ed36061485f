"""The secret that an environment server and its clients share: read from a variable or a file, never a command line."""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from agentgym.errors import AccessRefused

TOKEN_VARIABLE = "AGENTGYM_ENVIRONMENT_TOKEN"
TOKEN_FILE_VARIABLE = "AGENTGYM_ENVIRONMENT_TOKEN_FILE"
SHORTEST = 16


def client_token() -> str:
    """Return the token that a client sends. Raises: AccessRefused naming the two variables if neither is set."""
    if token := os.environ.get(TOKEN_VARIABLE, "").strip():
        return token
    if file := os.environ.get(TOKEN_FILE_VARIABLE):
        return read_tokens(Path(file))[0]
    raise AccessRefused(
        f"The environment server requires a token. Set {TOKEN_VARIABLE} to it, or {TOKEN_FILE_VARIABLE} to the path "
        "of the file that `agentgym serve environments --token-file` wrote."
    )


def server_tokens(file: Path | None) -> Sequence[str]:
    """Return the tokens that a server accepts, from a file, which is created if missing, or from the variable.

    Raises: AccessRefused for a file that others may read, a token that is too short, or no token at all.
    """
    if file is None:
        if token := os.environ.get(TOKEN_VARIABLE, "").strip():
            return [_checked(token, TOKEN_VARIABLE)]
        raise AccessRefused(
            "The server must have a token, so that others cannot use it. Give --token-file FILE (the file is written "
            f"if it does not exist), or set {TOKEN_VARIABLE}."
        )
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return read_tokens(file)
    except OSError as error:
        raise AccessRefused(f"The token file {file} cannot be written: {error.strerror}.") from error
    with os.fdopen(descriptor, "w") as created:
        created.write(secrets.token_urlsafe(32) + "\n")
    return read_tokens(file)


def read_tokens(file: Path) -> Sequence[str]:
    """Return the tokens of a file, one per line. Raises: AccessRefused."""
    try:
        if file.stat().st_mode & 0o077:
            raise AccessRefused(f"The token file {file} can be read by other users. Run: chmod 600 {file}")
        lines = file.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise AccessRefused(f"The token file {file} cannot be read: {error}.") from error
    if not lines:
        raise AccessRefused(f"The token file {file} is empty. Write a token into it, or delete it.")
    return [_checked(line, str(file)) for line in lines]


def token_position(given: str, tokens: Sequence[str]) -> int | None:
    """Return the position of a token among the accepted tokens, or None. Takes constant time."""
    matches = [hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()) for token in tokens]
    return matches.index(True) if any(matches) else None


def _checked(token: str, source: str) -> str:
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable():
        raise AccessRefused(
            f"The token in {source} is not valid: write at least {SHORTEST} printable ASCII characters."
        )
    return token
