"""`evidence`, `citation`, `search_cost` and `search`: worked examples, and tricks that must not pay."""

from __future__ import annotations

import pytest

from agentgym import Call, JudgeError, Message, StopReason, Task, Trajectory, Turn, load_reward
from agentgym.messages import Result, ResultStatus
from agentgym.reward import validate_components
from agentgym.rewards.citation import Citation
from agentgym.rewards.evidence import Evidence
from agentgym.rewards.search_cost import SearchCost

TRUTH = {"answer": "Elmham", "answers": ["Elm Ham"], "pages": {"Lamp": 1, "Ida Berg": 2}}


def opened(title, tool="open", status=ResultStatus.OK, part=""):
    return Call(tool, {"page": title}), Result(f"# {title}{part}\nIts text.", status, tool)


def listed(*titles):
    lines = [f"{n}. [{title}] A sentence." for n, title in enumerate(titles, 1)]
    return Call("search", {"query": "q"}), Result("\n".join(lines), ResultStatus.OK, "search")


def passages(*titles):
    lines = "\n".join(f'Doc {n}(Title: "{title}") Its text.' for n, title in enumerate(titles, 1))
    return Call("search", {"query": "q"}), Result(f"<information>{lines}</information>", ResultStatus.OK, "search")


def answer(text, **arguments):
    return Call("answer", {"text": text, **arguments}), Result("Answered.", ResultStatus.OK, "answer", final=True)


def play(*turns, truth=TRUTH):
    trajectory = Trajectory(
        "t", Task("t", "agentgym/search-v1", "Where?", truth=truth), stop_reason=StopReason.ANSWERED
    )
    for index, turn in enumerate(turns):
        calls, results = zip(*turn, strict=True)
        trajectory.turns.append(Turn(index, Message("assistant", "", calls), calls, results))
    return trajectory


def evidence(*turns, truth=TRUTH):
    trajectory = play(*turns, truth=truth)
    return [Evidence().turn(turn, trajectory).get("evidence") for turn in trajectory.turns]


def test_each_gold_page_pays_its_share_once_in_the_turn_that_reads_it():
    """Two gold pages, 1/2 each."""
    turns = (
        [listed("Lamp")],
        [opened("Noise"), opened("lamp")],
        [opened("Lamp", part=" (part 2 of 3)")],
        [opened("Ida Berg")],
    )
    assert evidence(*turns) == [0.0, 0.5, 0.0, 0.5]


def test_a_retriever_that_gives_whole_passages_pays_at_once():
    assert evidence([passages("Lamp", "Ida Berg", "Noise")], [passages("Lamp")]) == [1.0, 0.0]


@pytest.mark.parametrize(
    "turn",
    [
        listed("Lamp", "Ida Berg"),  # seen in a list, not read
        opened("Lamp", status=ResultStatus.TOOL_ERROR),
        (Call("open", {"page": "Lamp"}), Result("Noise\n# Lamp\n# Ida Berg", ResultStatus.OK, "open")),
        (Call("open", {"page": "Lamp"}), Result("# Noise\n# Lamp", ResultStatus.OK, "open")),
        (
            Call("search", {}),
            Result('1. [x] x\nDoc 2(Title: "Lamp") x', ResultStatus.OK, "search"),
        ),
        (Call("find", {"text": "x"}), Result("# Lamp", ResultStatus.OK, "find")),
        (Call("answer", {"text": "# Lamp"}), Result("Answered.", ResultStatus.OK, "answer", final=True)),
    ],
)
def test_what_was_not_read_pays_nothing(turn):
    assert evidence([turn]) == [0.0]


def test_a_task_that_names_no_pages_has_no_evidence_component():
    assert evidence([opened("Lamp")], truth={"answer": "x"}) == [None]
    with pytest.raises(JudgeError, match="has no truth"):
        evidence([opened("Lamp")], truth=None)
    with pytest.raises(JudgeError, match=r"truth\['pages'\] must list titles, not 'Lamp'"):
        evidence([opened("Lamp")], truth={"pages": "Lamp"})


def cited(sources, *read, truth=TRUTH):
    components = Citation().outcome(
        play(*[[opened(title)] for title in read], [answer("Elmham", sources=sources)], truth=truth)
    )
    return components.get("citation_precision"), components.get("citation_recall")


def test_citation_is_precision_and_recall_over_titles():
    """Cited: Lamp (gold, read), Noise (not gold), so 1/2; gold: Lamp of two, so 1/2."""
    assert cited(["Lamp", "Noise"], "Lamp", "Noise") == (0.5, 0.5)
    assert cited(["lamp", "IDA  BERG"], "Lamp", "Ida Berg") == (1.0, 1.0)
    assert cited([], "Lamp") == (0.0, 0.0)


def test_citing_what_was_not_read_is_guessing():
    assert cited(["Lamp", "Ida Berg"], "Lamp") == (0.5, 0.5)
    assert cited(["Lamp", "Lamp", "lamp "], "Lamp") == (1.0, 0.5)  # thrice the same is once


@pytest.mark.parametrize("sources", ["Lamp", 3, [["Lamp"]], [None], {"Lamp": 1}])
def test_sources_of_another_type_cite_nothing(sources):
    assert cited(sources, "Lamp") == (0.0, 0.0)


def test_who_gives_no_answer_is_not_judged_by_citation():
    assert Citation().outcome(play([opened("Lamp")])) == {}
    assert cited(["Lamp"], "Lamp", truth={"answer": "x"}) == (None, None)


def test_calls_cost_their_price_and_never_more_than_the_budget():
    """A search and two pages: 1 + 2 * 0.25 = 1.5 of 10."""
    trajectory = play([listed("Lamp")], [opened("Lamp"), opened("Ida Berg", "follow")], [answer("x")])
    assert SearchCost().outcome(trajectory) == {"search_cost": -0.15}
    assert SearchCost({"search": 100.0}, 10.0).outcome(trajectory) == {"search_cost": -1.0}
    assert SearchCost().outcome(play()) == {"search_cost": 0.0}


@pytest.mark.parametrize(("prices", "budget"), [({"search": -1.0}, 1.0), ({}, 0.0), ({}, float("nan"))])
def test_prices_and_budgets_that_make_no_sense_are_refused(prices, budget):
    with pytest.raises(ValueError, match="prices must be at least 0"):
        SearchCost(prices, budget)


@pytest.mark.parametrize(
    ("given", "success"),
    [
        ("Elmham", 1.0),
        ("the elmham.", 1.0),
        ("Elm-Ham", 1.0),
        ("elm ham", 1.0),
        ("Elmham or Ashwick", 0.0),
        ("It is Elmham", 0.0),
        ("", 0.0),
        ("the", 0.0),
        ("Elmham " * 5_000, 0.0),
    ],
)
async def test_the_answer_decides(given, success):
    reward = load_reward("search")
    components = await validate_components(
        reward.outcome(play([opened("Lamp")], [answer(given, sources=["Lamp"])])), reward
    )
    assert components["success"] == success
    assert (components["citation_precision"], components["citation_recall"]) == (1.0, 0.5)


async def test_no_amount_of_reading_is_worth_as_much_as_an_answer():
    reward = load_reward("search")
    reading = play([opened("Lamp"), opened("Ida Berg")], [answer("no", sources=["Lamp", "Ida Berg"])])
    turns = [await validate_components(reward.turn(turn, reading), reward) for turn in reading.turns]
    everything = sum(map(reward.total, turns)) + reward.total(
        await validate_components(reward.outcome(reading), reward)
    )
    assert everything == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("given", "gold"),
    [
        ("5", "-5"),
        ("-5", "5"),
        ("314", "3.14"),
        (".5", "5"),
        ("- 5", "5"),
        ("1e5", "1e-5"),
        ("C", "C#"),
        ("10000002", "10000001"),
        ("15", "1,5"),
        ("1,5", "15"),
        ("315 metres", "3.15 metres"),
    ],
)
def test_signs_and_points_of_numbers_are_no_punctuation(given, gold):
    judge = load_reward("search")
    assert judge.rewards[0].outcome(play([answer(given)], truth={"answer": gold})) == {"success": 0.0}


@pytest.mark.parametrize(
    ("given", "gold"),
    [
        ("The 5.", "5"),
        ("10,000", "10000"),
        ("\u22125", "-5"),
        ("May 5, 1990", "May 5 1990"),
        ("1914\u20131918", "1914-1918"),
        ("\u0663\u066b\u0661\u0664", "3.14"),
        ("COVID19", "COVID-19"),
        ("the Caf\u00e9 d\u2019Or!", "Cafe\u0301 d'Or"),
        ("$1,184.50", "1184.5"),
    ],
)
def test_other_spellings_of_the_answer_are_right(given, gold):
    judge = load_reward("search")
    assert judge.rewards[0].outcome(play([answer(given)], truth={"answer": gold})) == {"success": 1.0}
