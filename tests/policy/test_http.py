"""The HTTP client against a real server that misbehaves."""

from __future__ import annotations

import asyncio
import socket
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from model_server import Answer, serving

from agentgym.errors import ContextFull, PolicyError
from agentgym.policy import JsonEndpoint, RetryPolicy

QUICK = RetryPolicy(attempt_s=5, total_s=20, attempts=4, backoff_s=0.001, longest_backoff_s=0.002)


async def post(server, retry_policy=QUICK, **options):
    endpoint = JsonEndpoint(server.url, retry_policy=retry_policy, **options)
    try:
        return await endpoint.post("/v1/x", {"a": 1})
    finally:
        await endpoint.close()


@pytest.mark.parametrize(
    "bad",
    [
        Answer("overloaded", 500),
        Answer("starting", 503),
        Answer("slow down", 429),
        Answer(b"{broken"),
        Answer(b"[" * 100_000),
        Answer({"half": "an answer"}, cut=True),
        Answer(b"", 502),
    ],
    ids=["500", "503", "429", "broken JSON", "deep JSON", "cut off", "502"],
)
async def test_what_may_pass_is_tried_again(bad):
    with serving(bad, bad, {"ok": True}) as server:
        assert await post(server) == {"ok": True}
        assert len(server.requests) == 3
        assert server.bodies == [{"a": 1}] * 3


async def test_the_first_failure_that_is_tried_again_is_told_once(caplog):
    with serving(Answer("overloaded", 500), Answer("overloaded", 500), {"ok": True}) as server:
        await post(server)
    (record,) = caplog.records
    assert record.getMessage().startswith("POST /v1/x failed: status 500:")
    assert record.getMessage().endswith("The request is repeated for up to 20 s.")


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (429, "You exceeded your current quota."),
        (402, "Payment required"),
        (403, "Your credit balance is too low"),
        (400, "Your credit balance is too low to access the API"),
        (429, "Insufficient Balance"),
    ],
)
async def test_an_account_without_quota_is_not_asked_again_and_the_remedy_is_named(status, text):
    with serving(Answer({"error": {"message": text}}, status)) as server:
        with pytest.raises(PolicyError, match="Add credit to the account, or use another account's key"):
            await post(server)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "prompt is too long: 20000 tokens > 10000 maximum"),
        (500, "the request exceeds the available context size"),
        (400, "Please reduce your prompt: it exceeds the context window"),
    ],
)
async def test_a_conversation_that_does_not_fit_is_told_whatever_the_servers_words(status, text):
    with serving(Answer({"error": {"message": text}}, status)) as server:
        with pytest.raises(ContextFull):
            await post(server)
        assert len(server.requests) == 1


async def test_too_many_tokens_in_a_minute_are_no_full_context():
    with serving(Answer("too many tokens per minute", 429), {"ok": True}) as server:
        assert await post(server) == {"ok": True}


async def test_a_server_that_cannot_answer_such_requests_is_not_asked_again():
    """As Python's own file server, or a proxy in the place of the model's address."""
    with serving(Answer("<h1>Unsupported method</h1>", 501)) as server:
        with pytest.raises(
            PolicyError, match=r"was refused with status 501.*Unsupported method.*The request is not repeated"
        ):
            await post(server)
        assert len(server.requests) == 1


async def test_an_answer_that_does_not_come_is_tried_again():
    with serving(Answer({}, after_s=1.0), {"ok": True}) as server:
        retry_policy = RetryPolicy(attempt_s=0.2, total_s=20, attempts=3, backoff_s=0.001)
        assert await post(server, retry_policy) == {"ok": True}


async def test_time_in_the_queue_for_a_connection_is_not_held_against_the_server(monkeypatch):
    """While each of three requests is answered, the loop's clock goes on by most of what an attempt may take."""
    loop, ahead_s = asyncio.get_running_loop(), 0.0
    clock = loop.time
    monkeypatch.setattr(loop, "time", lambda: clock() + ahead_s)
    may_answer = [threading.Event() for _ in range(3)]
    with serving(*(Answer({"ok": True}, after=event) for event in may_answer)) as server:
        retry_policy = RetryPolicy(attempt_s=1000.0, total_s=1000.0, attempts=1)
        endpoint = JsonEndpoint(server.url, retry_policy=retry_policy, connections=1)
        posts = [asyncio.ensure_future(endpoint.post("/")) for _ in may_answer]
        for number, event in enumerate(may_answer, 1):
            for _ in range(60_000):
                if len(server.requests) == number or posts[number - 1].done():
                    break
                await asyncio.sleep(0.001)
            ahead_s += 900.0
            event.set()
        assert await asyncio.gather(*posts) == [{"ok": True}] * 3
        await endpoint.close()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_refusal_is_told_at_once_with_path_status_and_what_the_server_said(status):
    with serving(Answer({"error": "temperature must be a number"}, status)) as server:
        with pytest.raises(PolicyError, match=rf"POST /v1/x .*status {status}.*temperature must be a number"):
            await post(server)
        assert len(server.requests) == 1


async def test_patience_ends_after_the_attempts_and_the_last_answer_is_told():
    with serving(Answer("GPU lost", 500)) as server:
        with pytest.raises(PolicyError, match=r"/v1/x failed 4 times.*status 500.*GPU lost"):
            await post(server)
        assert len(server.requests) == 4


async def test_a_long_answer_is_excerpted_and_secrets_are_not_shown():
    with serving(Answer("x" * 100_000, 400)) as server:
        with pytest.raises(PolicyError) as caught:
            await post(server, headers={"Authorization": "Bearer sesame"})
        assert len(str(caught.value)) < 600
        assert "sesame" not in str(caught.value)
        assert server.requests[0][2]["authorization"] == "Bearer sesame"


@pytest.mark.parametrize("kind", ["seconds", "date"])
async def test_retry_after_is_honoured(kind):
    """The pause would be a millisecond; the server asks for more than the total allows, so we stop at once."""
    retry_after = "3600" if kind == "seconds" else format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    with serving(Answer("later", 429, {"Retry-After": retry_after})) as server:
        with pytest.raises(PolicyError, match="failed 1 time"):
            await post(server)
        assert len(server.requests) == 1
    with serving(Answer("later", 429, {"Retry-After": "0.2"}), {"ok": True}) as server:
        now = asyncio.get_running_loop().time
        began = now()
        assert await post(server) == {"ok": True}
        assert now() - began >= 0.2  # a lower bound: that it waited, not how fast anything is


@pytest.mark.parametrize("value", ["soon", "-5", "", "nan", "1e99999"])
async def test_a_retry_after_that_says_nothing_is_ignored(value):
    with serving(Answer("later", 429, {"Retry-After": value}), {"ok": True}) as server:
        assert await post(server) == {"ok": True}


async def test_nobody_listening_is_a_policy_error_without_user_name_or_password():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    endpoint = JsonEndpoint(f"http://user:sesame@127.0.0.1:{port}", retry_policy=QUICK)
    with pytest.raises(PolicyError, match=rf"ConnectError.*127\.0\.0\.1:{port} is running") as caught:
        await endpoint.post("/v1/x")
    assert "sesame" not in str(caught.value)
    await endpoint.close()


def test_an_address_that_is_none_is_told():
    for address in ("localhost:8000", "ftp://x", "not a url at all"):
        with pytest.raises(PolicyError, match=rf"'{address}' is not the URL of a server. Begin it with http://"):
            JsonEndpoint(address, retry_policy=QUICK)


async def test_a_full_context_is_told_apart():
    message = "This model's maximum context length is 1024 tokens. However, you requested 2000."
    with serving(Answer({"error": {"message": message}}, 400)) as server, pytest.raises(ContextFull, match="1024"):
        await post(server)


async def test_an_empty_answer_is_none():
    with serving(Answer(b"")) as server:
        assert await post(server) is None


def test_one_endpoint_serves_one_event_loop_after_another():
    with serving({"ok": 1}) as server:
        endpoint = JsonEndpoint(server.url, retry_policy=QUICK)

        async def once(close):
            answer = await endpoint.post("/")
            if close:
                await endpoint.close()
            return answer

        assert asyncio.run(once(close=True)) == asyncio.run(once(close=True)) == {"ok": 1}


def test_impossible_patience_is_refused():
    with pytest.raises(ValueError, match="above 0 s"):
        RetryPolicy(backoff_s=0)


async def test_a_server_that_never_answered_is_given_up_soon_and_then_tried_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = JsonEndpoint(
            f"http://127.0.0.1:{free.getsockname()[1]}", retry_policy=RetryPolicy(backoff_s=0.1, unreached_s=0.5)
        )
    with pytest.raises(PolicyError, match=r"failed [2-9] times"):
        await endpoint.post("/v1/x")
    with pytest.raises(PolicyError, match=r"failed 1 time\.") as error:
        await endpoint.post("/v1/x")
    assert str(error.value).endswith(
        "is running, or raise retry_policy.unreached_s (now 0.5 s) if it is still starting."
    )
    await endpoint.close()


async def test_a_server_that_has_answered_is_waited_for_as_long_as_before():
    policy = RetryPolicy(attempts=4, backoff_s=0.01, longest_backoff_s=0.01, unreached_s=0.001)
    with serving({"ok": 1}, Answer(b"<html>"), Answer(b"<html>"), {"ok": 2}) as server:
        endpoint = JsonEndpoint(server.url, retry_policy=policy)
        assert [await endpoint.post("/"), await endpoint.post("/")] == [{"ok": 1}, {"ok": 2}]
        await endpoint.close()
