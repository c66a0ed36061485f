"""`search/wiki-v1`: its answers are true, its splits apart, and nobody scores without reading the pages."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, load_task_set
from agentgym.sandboxes.search import landmark, open_library
from agentgym.tasks.landmarks import landmark as landmark_of_tasks
from agentgym.tasks.wiki import wiki
from agentgym.tasks.wiki.knowledge_base import EDITIONS, knowledge_base
from agentgym.tasks.wiki.questions import is_held_out, variants
from agentgym.tasks.wiki.relations import BY_NAME, RELATIONS, chain_of, described, of_kind, question, start_of


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def wikis():
    return load_task_set("search/wiki-v1")


def every_task(task_set):
    return [task for split in task_set for task in task_set[split]]


def start(task):
    return next(iter(task.truth["pages"]))


def test_the_set_is_as_large_as_its_card_says(wikis):
    held_out = Counter(tag for task in wikis["held_out"] for tag in task.tags if tag.startswith("unseen"))
    assert {split: len(wikis[split]) for split in wikis} == {"train": 2400, "validation": 240, "held_out": 480}
    assert held_out == {"unseen_entities": 160, "unseen_chains": 160, "unseen_wiki": 160}
    hops = Counter(tag for task in wikis["train"] for tag in task.tags if tag.startswith("hops"))
    assert set(hops) == {"hops_1", "hops_2", "hops_3", "hops_4"}


def test_every_answer_stands_where_the_chain_of_pages_ends(wikis):
    """Read from the pages alone: each gold page states the link to the next, the last one the answer."""
    pages = {seed: {row["title"]: row for row in map(json.loads, wiki(seed).splitlines())} for seed in (0, EDITIONS)}
    for task in every_task(wikis):
        here = start(task)
        for name, title in zip(chain_of(task.tags), task.truth["pages"], strict=True):
            assert here == title
            here = BY_NAME[name].read(pages[task.parameters["seed"]][here]["text"], here)
        assert here == task.truth["answer"], task.id


def test_every_fact_of_every_page_can_be_read_and_every_link_leads_somewhere():
    base, rows = knowledge_base(0), {row["title"]: row for row in map(json.loads, wiki(0).splitlines())}
    assert set(rows) == set(base.kind_of)
    for name, kind in base.kind_of.items():
        assert set(rows[name]["links"]) <= set(rows)
        for relation in of_kind(kind):
            assert relation.read(rows[name]["text"], name) == base.facts[name, relation.name]


def test_starts_of_the_unseen_entities_start_no_other_question(wikis):
    unseen = {start(task) for task in wikis["held_out"] if "unseen_entities" in task.tags}
    others = {start(task) for task in every_task(wikis) if "unseen_entities" not in task.tags}
    assert len(unseen) > 50
    assert unseen & others == set()


def test_chains_are_trained_on_or_held_out_never_both(wikis):
    trained = {chain_of(task.tags) for split in ("train", "validation") for task in wikis[split]}
    strange = {chain_of(task.tags) for task in wikis["held_out"] if "unseen_chains" in task.tags}
    assert not any(map(is_held_out, trained))
    assert all(map(is_held_out, strange))
    assert {chain[0] for chain in trained if len(chain) == 1} == {relation.name for relation in RELATIONS}


def test_the_unseen_wiki_has_other_names_made_of_known_pieces(wikis):
    known_names, unseen_names = set(knowledge_base(0).kind_of), set(knowledge_base(EDITIONS).kind_of)
    assert known_names & unseen_names == set()
    seeds = {task.parameters["seed"] for task in every_task(wikis) if "unseen_wiki" not in task.tags}
    assert seeds == {0}
    assert {task.parameters["seed"] for task in wikis["held_out"] if "unseen_wiki" in task.tags} == {EDITIONS}


def test_another_edition_has_the_same_names_and_other_facts():
    first, second = knowledge_base(0), knowledge_base(1)
    assert first.names == second.names
    same = sum(first.facts[key] == second.facts[key] for key in first.facts)
    assert same / len(first.facts) < 0.05


def test_no_prompt_gives_its_answer_or_its_way_away(wikis):
    for task in every_task(wikis):
        for value in (task.truth["answer"], *list(task.truth["pages"])[1:]):
            assert value not in task.prompt, task.id


def test_a_described_start_is_not_named_and_describes_nobody_else(wikis):
    obscured = [task for task in every_task(wikis) if "obscured" in task.tags]
    assert 0.1 < len(obscured) / len(every_task(wikis)) < 0.25
    for task in obscured:
        base = knowledge_base(task.parameters["seed"])
        kind, facts = described(start_of(chain_of(task.tags), task.prompt))
        assert start(task) not in task.prompt
        fits = [n for n in base.names[kind] if all(base.facts[n, r.name] == fact_object for r, fact_object in facts)]
        assert fits == [start(task)]


def test_a_variant_asks_otherwise_for_the_answer_of_its_original(wikis):
    by_id = {task.id: task for task in wikis["train"]}
    pairs = [
        (task, by_id[tag.removeprefix("variant_of_")])
        for task in wikis["train"]
        for tag in task.tags
        if "variant_of" in tag
    ]
    assert len(pairs) == 400
    assert all(
        variant.truth["answer"] == original.truth["answer"] and variant.prompt != original.prompt
        for variant, original in pairs
    )
    base = knowledge_base(0)
    for begin, chain in list(variants(base, "Elmham", ("mayor",)))[:20]:
        assert base.walk(begin, chain)[-2:] == ["Elmham", base.facts["Elmham", "mayor"]]


def test_a_question_can_be_taken_apart_again():
    prompt = question(("author", "born_in", "mayor"), "The Blue Door")
    assert prompt == "Who is the mayor of the birthplace of the author of The Blue Door?"
    assert start_of(("author", "born_in", "mayor"), prompt) == "The Blue Door"
    assert start_of(("author", "born_in", "region"), prompt) is None


def test_lookups_have_other_answers_in_other_editions_and_measure_in_unseen_ones():
    """A policy that learned the answers of its training by heart would answer wrongly."""
    lookups = load_task_set("search/lookup-v1")
    assert {split: len(lookups[split]) for split in lookups} == {"train": 6000, "validation": 240, "held_out": 480}
    trained, answers = {task.parameters["seed"] for task in lookups["train"]}, defaultdict(Counter)
    assert len(trained) == 16
    for task in lookups["train"]:
        answers[task.prompt][task.truth["answer"]] += 1
    asked_again = [task for task in lookups["validation"] if task.prompt in answers]
    assert len(asked_again) > 100
    known = [answers[task.prompt].most_common(1)[0][0] == task.truth["answer"] for task in asked_again]
    assert sum(known) < 0.1 * len(known)
    assert not trained & {task.parameters["seed"] for split in ("validation", "held_out") for task in lookups[split]}


def test_no_answer_is_common_enough_to_guess(wikis):
    answers = Counter(task.truth["answer"] for task in wikis["train"])
    assert answers.most_common(1)[0][1] / answers.total() < 0.02


def test_landmarks_are_the_same_for_the_tasks_and_the_environment():
    assert landmark_of_tasks("  River  ADA ") == landmark("River Ada")


async def play(tasks, script_for, **options):
    manager = EpisodeManager(lambda task: ScriptedPolicy(script_for(task)), RolloutConfig(concurrency=8, **options))
    return await manager.collect(tasks)


def rate(trajectories):
    assert all(trajectory.valid for trajectory in trajectories), [t.error for t in trajectories if not t.valid]
    return sum(trajectory.success for trajectory in trajectories) / len(trajectories)


@pytest.mark.parametrize("name", ["search/wiki-v1", "search/wiki-retrieve-v1"])
async def test_the_oracle_solves_a_sample_of_every_stratum_through_the_public_tools(name):
    task_set = load_task_set(name)
    tasks = [task for split in task_set for task in list(task_set[split])[::7]]
    trajectories = await play(tasks, task_set.oracle)
    assert rate(trajectories) == 1.0
    earned = [sum(turn.rewards["evidence"] for turn in trajectory.turns) for trajectory in trajectories]
    assert earned == pytest.approx([1.0] * len(trajectories))


async def test_lookups_are_solved_by_knowing_what_to_search_for():
    """The right words bring the sentence; the wrong ones bring another, and few pages have to be opened."""
    lookups = load_task_set("search/lookup-v1")
    tasks = [task for split in lookups for task in list(lookups[split])[:60]]
    solved, missed = await play(tasks, lookups.oracle), await play(tasks, lookups.imperfect_oracle)
    assert rate(solved) == 1.0
    assert rate(missed) <= 0.02
    assert all(result.ok for t in missed for turn in t.turns for result in turn.results)
    assert sum(len(t.turns) == 2 for t in solved) > 0.9 * len(solved)


async def test_the_imperfect_oracle_handles_the_tools_without_error_and_answers_wrongly(wikis):
    trajectories = await play([*wikis["train"][:60], *wikis["held_out"][::16]], wikis.imperfect_oracle)
    assert all(result.ok for t in trajectories for turn in t.turns for result in turn.results)
    assert sum(t.success for t in trajectories) / len(trajectories) <= 0.02  # by chance, another fact may hold the same


async def test_the_oracle_on_another_edition_answers_wrongly(wikis):
    """The answers come out of the pages: with pages of other facts the same play fails."""
    plain = [task for task in list(wikis["train"])[:200] if "obscured" not in task.tags]
    tasks = [replace(task, parameters={**task.parameters, "seed": 1}) for task in plain]
    assert rate(await play(tasks, wikis.oracle)) < 0.05


async def test_an_agent_that_says_nothing_useful_or_clicks_at_random_scores_about_nothing(wikis):
    tasks = list(wikis["validation"])[:60]
    assert rate(await play(tasks, lambda task: lambda messages: Message("assistant", "I do not know."))) == 0.0

    def wander(task):
        rng = random.Random(task.id)

        def script(messages):
            results = [message.text for message in messages if message.role == "tool"]
            titles = [part.split("]")[0] for text in results for part in text.split("[")[1:]]
            if len(results) == 4:
                return Message("assistant", "", (Call("answer", {"text": rng.choice(titles or ["x"])}),))
            call = Call("open", {"page": rng.choice(titles)}) if titles else Call("search", {"query": task.prompt})
            return Message("assistant", "", (call,))

        return script

    assert rate(await play(tasks, wander)) <= 0.1


async def test_the_answer_that_trainers_ask_for_is_judged_right(wikis):
    trajectories = await play(list(wikis["train"])[:5], lambda task: lambda messages: wikis.answer(task))
    assert rate(trajectories) == 1.0


def test_the_wiki_is_found_by_its_own_names():
    library = open_library("search/wiki", seed=0)
    ranking = library.ranking()
    names = list(knowledge_base(0).kind_of)
    first = [library.pages[ranking.rank(name, 1)[0][0]].title for name in names]
    assert first == names
