"""An action is compared with the expert's: calls alone, whatever the agent thought before them."""

from __future__ import annotations

import pytest

from agentgym import Call, JudgeError, Message, StopReason, Task, Trajectory, Turn, load_reward

EXPERT = {"calls": [{"name": "look", "arguments": {"box": "a", "deep": True}}], "text": "I look."}


def judged(message: Message, truth=EXPERT) -> dict[str, float]:
    turn = Turn(0, message, message.calls)
    episode = Trajectory("x", Task("x", "agentgym/step-v1", "go", truth=truth), turns=[turn])
    episode.stop_reason = StopReason.ENVIRONMENT
    return dict(load_reward("action_similarity").outcome(episode))


def calling(*calls: Call, text: str = "") -> Message:
    return Message("assistant", text, calls)


def test_the_experts_call_earns_1_and_thoughts_change_nothing():
    call = Call("look", {"deep": True, "box": "a"})
    assert judged(calling(call)) == {"success": 1.0, "action_similarity": 1.0}
    assert judged(calling(call, text="Something else entirely.")) == judged(calling(call))


def test_another_call_earns_the_share_of_matching_characters():
    r"""["look", {"box": "a", "deep": true}] against the same with b: 34 of 35 characters match on both sides."""
    written = '["look", {"box": "a", "deep": true}]'
    expected = 2 * (len(written) - 1) / (2 * len(written))
    got = judged(calling(Call("look", {"box": "b", "deep": True})))
    assert got["action_similarity"] == pytest.approx(expected)
    assert got["success"] == 0.0


def test_what_cannot_be_read_as_an_action_earns_minus_1():
    assert judged(calling(Call("look", {}, error="no JSON")))["action_similarity"] == -1.0
    assert judged(calling(text="I would look into box a."))["action_similarity"] == -1.0


def test_where_the_expert_spoke_the_texts_are_compared():
    spoken = {"calls": [], "text": "It is 4."}
    assert judged(calling(text=" It is 4.\n"), spoken)["action_similarity"] == 1.0
    assert 0 < judged(calling(text="It is 5."), spoken)["action_similarity"] < 1
    assert judged(calling(Call("look")), spoken)["action_similarity"] == -1.0
    with pytest.raises(JudgeError, match="the truth has no action of an expert"):
        judged(calling(text="It"), {"calls": [], "text": ""})
