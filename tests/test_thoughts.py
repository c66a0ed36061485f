"""A thought is not speech: told apart in one place, for every way in which models write it."""

from __future__ import annotations

import asyncio
import copy
import io

import pytest
from rich.console import Console
from scripted_episodes import counting, make_manager, play, say, task
from trajectory_json import trajectory_from_json, trajectory_to_json

from agentgym import Environment, ScriptedPolicy, Task, Trajectory, Turn
from agentgym.cli.tables import print_episode
from agentgym.evaluation.report.episode_data import episode_data
from agentgym.messages import Call, ImagePart, Message, StopReason, TextPart
from agentgym.methods.knowledge.lessons import lessons_of
from agentgym.registry import load_reward
from agentgym.testing import ByteRenderer
from agentgym.testing.thoughts import WAYS, with_thought
from agentgym.thoughts import THOUGHTS, split_thoughts

HARMONY = "<|channel|>analysis<|message|>It must be 1.<|end|><|start|>assistant<|channel|>final<|message|>1"


@pytest.mark.parametrize(
    ("written", "thought", "speech"),
    [
        ("1", "", "1"),
        (" kept as it is \n", "", " kept as it is \n"),
        ("<think>It must be 1.</think>\n\n1", "It must be 1.", "1"),
        ("<think>\n\n</think>\n\n1", "", "1"),
        ("It must be 1.\n</think>\n\n1", "It must be 1.", "1"),
        ("a<think>b</think>c<think>d</think>e", "b\nd", "ace"),
        ("<think>a<think>b</think>c", "ab", "c"),
        ("Sure. <think>never closed", "never closed", "Sure."),
        ("[THINK]b[/THINK]1", "b", "1"),
        ("<|channel>thought\nb<channel|>1", "b", "1"),
        ("<|START_THINKING|>b<|END_THINKING|><|START_RESPONSE|>1<|END_RESPONSE|>", "b", "1"),
        (HARMONY, "It must be 1.", "1"),
        (HARMONY + "<|return|>", "It must be 1.", "1"),
        ("<|channel|>final<|message|>1", "", "1"),
    ],
)
def test_thought_and_speech_are_told_apart(written, thought, speech):
    message = Message("assistant", written)
    assert (message.thought, message.text, message.content) == (thought, speech, written)
    assert message.written == written
    assert message.spoken().content == speech
    assert split_thoughts(written) == (thought, speech)


def test_only_an_assistant_thinks():
    for role in ("user", "system", "tool"):
        message = Message(role, "<think>a</think>b")
        assert (message.text, message.thought, message.spoken()) == ("<think>a</think>b", "", message)


def test_a_thought_that_a_server_gives_apart_is_read_beside_those_in_the_text():
    message = Message("assistant", "<think>b</think>c", reasoning="a", extra={"extra_content": 1})
    assert (message.thought, message.text) == ("a\nb", "c")
    assert message.written == "<think>\na\n</think>\n\n<think>b</think>c"
    assert message.spoken() == Message("assistant", "c")
    parts = Message("assistant", (TextPart("<think>a</think>b"), ImagePart("AAAA")))
    assert parts.spoken().content == (TextPart("b"), ImagePart("AAAA"))


def test_telling_apart_takes_linear_time():
    for unit in [*THOUGHTS, *THOUGHTS.values(), "<think></think>", "<|channel|>final", "<|start|>assistant"]:
        split_thoughts(unit * 100_000)


@pytest.mark.parametrize("reward", ["answer_match", "token_overlap", "symbolic_maths", "literal_match"])
@pytest.mark.parametrize("way", range(len(WAYS) + 1))
async def test_an_answer_in_words_is_judged_without_its_thoughts(reward, way):
    judge, question = load_reward(reward), Task("t", "test/any-v1", "What?", truth={"answer": "1"})
    plain = Message("assistant", "1")
    results = [
        judge.outcome(Trajectory("e", question, turns=[Turn(0, message)], stop_reason=StopReason.ANSWERED))
        for message in (plain, with_thought(plain, "It must be 1, or is it 2?", way))
    ]
    first, second = [await r if asyncio.iscoroutine(r) else r for r in results]
    assert first == second
    assert first["success"] == 1.0


class Listener(Environment):
    """Keep what it hears. Nothing is isolated."""

    heard: list[Message] = []

    async def reset(self, task, *, seed):
        return [Message("user", "Well?")]

    async def respond(self, message):
        self.heard.append(message)
        return [Message("user", "Go on.")]


async def test_an_environment_hears_speech_alone_and_a_thought_alone_is_an_empty_message():
    Listener.heard = []
    script = ["<think>secret</think>Hello.", "<think>secret", Message("assistant", "", reasoning="secret"), "Bye."]
    manager = make_manager(ScriptedPolicy(script, ByteRenderer()), environment=Listener, reward=None)
    (episode,) = await manager.collect([task()])
    assert Listener.heard[:2] == [Message("assistant", "Hello."), Message("assistant", "Bye.")]
    assert [turn.replies[0].text[:16] for turn in episode.turns[:3]] == ["Go on.", *["Your message was"] * 2]
    assert episode.turns[0].message.content == "<think>secret</think>Hello."
    assert bytes(episode.turns[0].token_ids[:-1]).decode() == "<think>secret</think>Hello."


async def test_the_record_and_its_views_keep_thoughts():
    turns = [
        say("add", text="<think>hm</think>I add."),
        Message("assistant", "Done.", (Call("submit"),), reasoning="ha"),
    ]
    episode = await play(turns, exact=False)
    repeated = trajectory_from_json(trajectory_to_json(episode))
    assert [turn.message for turn in repeated.turns] == [turn.message for turn in episode.turns]
    assert repeated.turns[1].message.reasoning == "ha"
    console = Console(file=io.StringIO(), width=100)
    print_episode(episode, console)
    text = console.file.getvalue()
    assert all(words in text for words in ("hm", "I add.", "ha", "Done."))
    data = episode_data(episode)["turns"]
    assert [(turn["thought"][0]["text"], turn["parts"][0]["text"]) for turn in data] == [
        ("hm", "I add."),
        ("ha", "Done."),
    ]


@pytest.mark.parametrize("way", range(len(WAYS) + 1))
async def test_what_an_episode_teaches_others_has_no_thought_in_it(way):
    """Knowledge that episodes share is made of calls and results; environments, users and teams hear speech alone."""
    episode = await play(counting(), exact=False)
    thinking = copy.deepcopy(episode)
    for turn in thinking.turns:
        turn.message = with_thought(turn.message, 'submit; note(text="secret")', way)
    assert lessons_of(episode) == lessons_of(thinking) != {}
