"""The web task sets: what is generated, that splits are disjoint, and that application data is reproducible."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from agentgym import Message
from agentgym.errors import TaskError
from agentgym.registry import load, load_task_set
from agentgym.sandboxes.gui.guest.apps import APPS
from agentgym.tasks.web.forms import HELD_OUT_VALUES
from agentgym.tasks.web.oracle import find, player
from agentgym.tasks.web.task_set import TEMPLATES
from agentgym.tasks.web.words import HELD_OUT, TRAINED


def test_there_are_tasks_of_every_kind_and_held_out_kinds_are_never_trained_on():
    task_set = load_task_set("web/apps-v1")
    assert len(task_set["train"]) >= 1_000
    trained = {task.tags[1] for task in task_set["train"]}
    assert trained == {template.name for template in TEMPLATES if not template.held_out}
    strange = {task.tags[1] for task in task_set["held_out"] if "unseen_templates" in task.tags}
    assert strange == {template.name for template in TEMPLATES if template.held_out}


def test_held_out_data_shares_no_word_with_trained_data():
    for name in ("qualities", "colours", "people", "places", "matters", "occasions", "topics"):
        assert not set(getattr(TRAINED, name)) & set(getattr(HELD_OUT, name)), name
    task_set = load_task_set("web/apps-v1")
    assert {task.parameters["seed"] < 100 for task in task_set["train"]} == {True}
    unseen = [task for task in task_set["held_out"] if "unseen_worlds" in task.tags]
    assert {task.parameters["seed"] < 100 for task in unseen} == {False}


def test_forms_of_every_kind_are_trained_on_and_values_that_are_held_out_stand_in_no_other_task():
    task_set = load_task_set("web/forms-v1")
    assert {task.tags for task in task_set["train"]} == {("choose",), ("press",), ("type",), ("type_two",)}
    unseen = [task for task in task_set["held_out"] if "unseen_values" in task.tags]
    assert all(any(value in task.prompt for value in HELD_OUT_VALUES) for task in unseen)
    known = [task for split in task_set.values() for task in split if "unseen_values" not in task.tags]
    words = re.compile(rf"\b({'|'.join(HELD_OUT_VALUES)})\b")
    assert not [task.id for task in known if words.search(f"{task.prompt} {task.parameters}")]


def test_names_and_values_of_cards_that_are_held_out_stand_in_no_other_task_and_all_their_words_do():
    task_set = load_task_set("web/cards-v1")
    unseen = [task for task in task_set["held_out"] if "unseen_values" in task.tags]
    known = [task for split in task_set.values() for task in split if "unseen_values" not in task.tags]

    def message(tasks):
        return {text for task in tasks for card in task.parameters["data"]["cards"] for text in card}

    assert len(unseen) == 200
    assert len(known) == 6_200
    assert message(unseen).isdisjoint(message(known))
    assert set(" ".join(message(unseen)).split()) <= set(" ".join(message(known)).split())


def test_what_a_card_says_is_not_on_the_first_page_and_its_players_open_different_ones():
    chosen = Counter()
    for split in (task_set := load_task_set("web/cards-v1")).values():
        for task in split:
            cards = dict(task.parameters["data"]["cards"])
            named_card = next(name for name in cards if name in task.prompt)
            assert cards[named_card] == task.truth["answer"]
            first = APPS["cards"](task.parameters["data"]).get_home({})
            assert not [value for value in cards.values() if value in first + task.prompt], task.id
            page = "\n".join(f'[{number}] link "{name}"' for number, name in enumerate(cards, 2))
            right, wrong = (
                player(task)([Message("user", f"{task.prompt}\n\n{page}")]).calls[0].arguments["element"]
                for player in (task_set.oracle, task_set.imperfect_oracle)
            )
            assert right == named_card
            assert wrong in cards.keys() - {named_card}
            chosen.update([("oracle", list(cards).index(right)), ("imperfect_oracle", list(cards).index(wrong))])
    assert max(chosen.values()) < 1.1 * min(chosen.values()), "a place on the page would tell the players apart"


def test_names_of_tickets_that_are_held_out_stand_in_no_other_task_and_all_their_words_do():
    task_set = load_task_set("web/desk-v1")
    unseen = [task for task in task_set["held_out"] if "unseen_names" in task.tags]
    known = [task for split in task_set.values() for task in split if "unseen_names" not in task.tags]

    def names(tasks):
        return {name for task in tasks for name in task.parameters["data"]["tickets"]}

    assert (len(unseen), len(known)) == (200, 6_200)
    assert names(unseen).isdisjoint(names(known))
    assert set(" ".join(names(unseen)).split()) <= set(" ".join(names(known)).split())


def test_the_players_of_a_desk_take_every_place_and_every_status_alike():
    task_set, pressed = load_task_set("web/desk-v1"), Counter()
    for task in task_set["train"]:
        tickets = task.parameters["data"]["tickets"]
        page = "\n".join(f'[{number}] link "{name}"' for number, name in enumerate(tickets, 1))
        prompt = Message("user", f"{task.prompt}\n\n{page}")
        for script in (task_set.oracle, task_set.imperfect_oracle):
            opened = script(task)([prompt]).calls[0].arguments["element"]
            pressed[script, list(tickets).index(opened)] += 1
            page_of_ticket = Message("tool", '[1] text "new"')
            pressed[script, script(task)([prompt, page_of_ticket]).calls[0].arguments["element"]] += 1
    assert len(pressed) == 12
    assert max(pressed.values()) < 1.15 * min(pressed.values()), "a place or a status would tell the players apart"


@pytest.mark.parametrize("app", ["shop", "mail", "forum", "calendar"])
def test_application_data_is_a_function_of_its_seed(app):
    asset = load("assets", f"web/{app}")
    assert asset(seed=3) == asset(seed=3) != asset(seed=4)
    assert json.loads(asset(seed=3))


def test_what_must_come_of_a_task_is_never_what_its_imperfect_oracle_brings_about():
    """Their steps differ, so a judge that could not tell them apart would be found out by the players' episodes."""
    for name in ("web/apps-v1", "web/forms-v1"):
        for split in load_task_set(name).values():
            for task in split:
                assert task.truth["plan"] != task.truth["wrong"], task.id
                assert json.loads(task.truth["effects"]) or task.truth["answer"], task.id


def test_a_player_names_elements_by_what_is_shown_and_gives_up_where_they_are_not():
    page = 'Page \'X\'\n[1] link "Cart"\n [2] button "Send" focused\n[3] button "Send all"'
    assert find(page, 'button "Send"') == 2
    assert find(page, 'button "Sen"') is None
    from agentgym import Message

    script = player([["click", 'link "Gone"'], ["answer", "x"]])
    assert script([Message("user", page)]).calls[0].name == "answer"


def test_the_importer_keeps_the_published_split(tmp_path):
    from agentgym.tasks.importers.miniwob import HELD_OUT as HELD
    from agentgym.tasks.importers.miniwob import TRAIN, load_miniwob

    assert (len(TRAIN), len(HELD)) == (62, 63)
    assert not set(TRAIN) & set(HELD)
    (tmp_path / "core").mkdir()
    (tmp_path / "miniwob").mkdir()
    (tmp_path / "core" / "core.js").write_text("")
    with pytest.raises(TaskError, match="lacks 125 of the tasks, for example book-flight"):
        load_miniwob(tmp_path)
    for name in (*TRAIN, *HELD):
        (tmp_path / "miniwob" / f"{name}.html").write_text("")
    task_set = load_miniwob(tmp_path)
    assert {task.parameters["page"] for task in task_set["held_out"]} == set(HELD)
    assert {task.parameters["page"] for task in task_set["train"]} == set(TRAIN)
    with pytest.raises(TaskError, match="does not contain MiniWoB"):
        load_miniwob(tmp_path / "core")


def test_a_player_that_is_asked_again_from_the_start_begins_again():
    """An episode is begun anew when its machine died: what was said before must not be missing from the plan."""
    script = player([("seek", 'link "Kettle"', 'link "Next page"'), ("click", 'button "Buy"'), ("answer", "")])
    first = Message("user", 'Buy a kettle.\n\n[4] link "Next page"')
    pages = ['[7] link "Kettle"', '[9] button "Buy"', "Bought."]

    def calls_played():
        messages, calls = [first], []
        for page in [*pages, ""]:
            message = script(messages)
            calls.append((message.calls[0].name, message.calls[0].arguments))
            messages += [message, Message("tool", page)]
        return calls

    once = calls_played()
    assert once == [("click", {"element": 4}), ("click", {"element": 7}), ("click", {"element": 9}), ("answer", {})]
    assert calls_played() == once
