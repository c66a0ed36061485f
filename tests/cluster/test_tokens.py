"""The token of an environment server: where it comes from, and what is refused."""

from __future__ import annotations

import pytest

from agentgym.cluster.tokens import client_token, server_tokens, token_position
from agentgym.errors import AccessRefused

TOKEN, OTHER = "0123456789abcdef", "fedcba9876543210"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    monkeypatch.delenv("AGENTGYM_ENVIRONMENT_TOKEN", raising=False)
    monkeypatch.delenv("AGENTGYM_ENVIRONMENT_TOKEN_FILE", raising=False)


def test_a_token_file_is_written_for_its_owner_alone_and_read_by_the_client(tmp_path, monkeypatch):
    file = tmp_path / "token"
    [token] = server_tokens(file)
    assert (file.stat().st_mode & 0o777, len(token) > 40) == (0o600, True)
    assert server_tokens(file) == [token]
    monkeypatch.setenv("AGENTGYM_ENVIRONMENT_TOKEN_FILE", str(file))
    assert client_token() == token
    monkeypatch.setenv("AGENTGYM_ENVIRONMENT_TOKEN", TOKEN)
    assert (client_token(), server_tokens(None)) == (TOKEN, [TOKEN])


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        (TOKEN, 0o644, "can be read by other users. Run: chmod 600"),
        ("short", 0o600, "at least 16 printable"),
        ("", 0o600, "is empty"),
        ("\u00fc" * 20, 0o600, "printable ASCII"),
    ],
)
def test_a_token_that_is_no_secret_is_refused(tmp_path, text, mode, reason):
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(AccessRefused, match=reason):
        server_tokens(file)


def test_a_server_without_a_token_does_not_start():
    with pytest.raises(AccessRefused, match="--token-file FILE"):
        server_tokens(None)


def test_each_token_has_its_own_number_and_what_is_none_has_none():
    assert [token_position(given, [TOKEN, OTHER]) for given in (TOKEN, OTHER, "", TOKEN[:-1], "\ud800")] == [
        0,
        1,
        None,
        None,
        None,
    ]
