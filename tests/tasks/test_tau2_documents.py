"""The importer `tau2` on a domain with documents, in which the agent searches, and with tools that they name."""

from __future__ import annotations

import math

import pytest
from tau2_documents import DOCUMENTS, write_vault

from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, close_backends
from agentgym.errors import TaskError
from agentgym.registry import load
from agentgym.sandboxes.tau2.guest.knowledge import RetrievalPipeline


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    return write_vault(tmp_path_factory.mktemp("clone"))


@pytest.fixture(scope="module")
def task_set(clone):
    return load("importers", "tau2")(clone)


def calls(name, **arguments):
    return Message("assistant", "", (Call(name, arguments),))


def opens(tool, box="a"):
    return calls("call_discoverable_agent_tool", agent_tool_name=tool, arguments=f'{{"box": "{box}"}}')


SAYS = Message("assistant", "It is done.")


def test_what_documents_name_is_no_tool_and_each_customer_has_the_tools_of_its_task(task_set):
    opening, knocking = task_set["held_out"]
    assert [tool["name"] for tool in opening.parameters["tools"]] == ["search", "call_discoverable_agent_tool"]
    assert opening.parameters["user_tools"] == []
    assert [tool["name"] for tool in knocking.parameters["user_tools"]] == ["knock"]
    assert opening.parameters["wiki"] == "Open boxes of those who own them."
    assert opening.parameters["options"] == {
        "retrieval_variant": "bm25_grep",
        "read_log_allowlist": ["open_box_0417"],
    }


@pytest.mark.needs_namespaces
async def test_reading_beyond_what_is_published_costs_nothing_and_reading_what_is_published_counts(task_set):
    opening, knocking = task_set["held_out"]
    looks = opens("look_into_box_0031")
    players = [
        (opening, [calls("search", query="when its owner asks"), opens("open_box_0417"), SAYS], 1.0),
        (opening, [looks, opens("open_box_0417"), looks, SAYS], 1.0),
        (opening, [opens("open_box"), SAYS], 0.0),
        (opening, [opens("open_box_0417"), opens("open_box_0417", "b"), SAYS], 0.0),
        (knocking, [looks, calls("knock", box="a"), SAYS], 1.0),
        (knocking, [calls("knock", box="a"), SAYS], 0.0),
        (knocking, [SAYS], 0.0),
    ]
    try:
        for task, script, expected in players:
            manager = EpisodeManager(ScriptedPolicy(script), RolloutConfig())
            [episode] = await manager.collect([task])
            assert (episode.error, episode.success) == (None, expected), script
            if task is opening and script[0].calls[0].name == "search":
                answer = episode.turns[0].results[0].content
                assert answer.startswith("Boxes (")
                assert answer.endswith("in 0 ms"), "equal calls have equal results"
    finally:
        await close_backends()


@pytest.mark.parametrize(
    ("retrieval", "message"),
    [
        ("embeddings", "cosine search needs a model; give a retrieval of words alone, such as bm25_grep"),
        ("golden_retrieval", "gives each task a policy of its own"),
    ],
)
def test_a_retrieval_that_cannot_be_had_is_refused(clone, retrieval, message):
    with pytest.raises(TaskError, match=f"vault_knowledge .* cannot be loaded: .*{message}"):
        load("importers", "tau2")(clone, domain="vault_knowledge", retrieval=retrieval)


def test_without_documents_there_is_no_search(clone):
    task_set = load("importers", "tau2")(clone, retrieval="no_knowledge")
    assert [tool["name"] for tool in task_set["held_out"][0].parameters["tools"]] == ["call_discoverable_agent_tool"]


def searched(kind, **params):
    pipeline = RetrievalPipeline({"retriever": {"type": kind, "params": params}})
    pipeline.index_documents([{"id": name, "text": text} for name, text in DOCUMENTS.items()])
    return pipeline


def test_bm25_has_the_scores_of_its_formula():
    lengths = {name: len(text.split()) for name, text in DOCUMENTS.items()}
    mean = sum(lengths.values()) / 3
    weight = math.log(3 - 1 + 0.5) - math.log(1 + 0.5)  # one of three documents has the word
    share = 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * lengths["coats"] / mean))
    scores = searched("bm25").retrieve("coats")
    assert scores[0] == ("coats", pytest.approx(weight * share))
    assert [score for _, score in scores[1:]] == [0.0, 0.0]


def test_patterns_are_counted_without_case_and_what_is_no_pattern_is_text():
    assert searched("grep").retrieve("COATS|door") == [("coats", 3.0)]
    assert searched("grep", case_sensitive=True).retrieve("COATS") == []
    assert searched("grep").retrieve("look_into(") == []
    assert searched("grep", top_k=1).retrieve("box") == [("boxes", 4.0)]
    assert searched("grep").retrieve(" ") == []
