"""The importers of question answering, on the public files where the checkout lies beside them and on broken ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym import Call, EpisodeManager, Message, ScriptedPolicy, TaskSet
from agentgym.errors import TaskError
from agentgym.registry import load
from agentgym.sandboxes.search import landmark, open_library

DATA = Path(__file__).parents[2] / "../shared/data"
HOTPOT, XQUAD = DATA / "hotpot_100/hotpotqa_100.json", DATA / "xquad_en/xquad.en.json"
TWOWIKI = DATA / "twowiki_200/questions.json"


def needs(path):
    return pytest.mark.skipif(not path.is_file(), reason=f"{path.name} is not in ../shared/data")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))


def written(tmp_path, data, name="questions.json"):
    path = tmp_path / name
    text = "\n".join(map(json.dumps, data)) if name.endswith("l") else json.dumps(data)
    path.write_text(text, encoding="utf-8")
    return path


HOTPOT_ROW = {
    "_id": "a",
    "question": "Who made the lamp?",
    "answer": "Ida",
    "level": "hard",
    "type": "bridge",
    "supporting_facts": [["Lamp", 0], ["Ida", 1], ["Lamp", 2]],
    "context": [["Lamp", ["It is a lamp.", " Ida made it."]], ["Ida", ["A maker."]], ["Noise", ["Nothing."]]],
}
MUSIQUE_ROW = {
    "id": "2hop__1_2",
    "question": "Who?",
    "answer": "Ida",
    "answer_aliases": ["Ida K."],
    "answerable": True,
    "paragraphs": [
        {"idx": 0, "title": "Lamp", "paragraph_text": "Ida made it.", "is_supporting": True},
        {"idx": 1, "title": "Noise", "paragraph_text": "Nothing.", "is_supporting": False},
    ],
}


def test_hotpotqa_carries_its_pages_and_names_the_gold_ones(tmp_path):
    (task,) = (task_set := load("importers", "hotpot")(written(tmp_path, [HOTPOT_ROW])))["held_out"]
    assert task_set.answer(task).calls[0].arguments == {"text": "Ida"}
    assert task.truth == {"answer": "Ida", "answers": [], "pages": {"Lamp": 1, "Ida": 2}}
    assert task.parameters["landmarks"] == [landmark("Lamp"), landmark("Ida")]
    assert (task.difficulty, task.tags) == (3.0, ("bridge", "hard"))
    assert [page.title for page in open_library(task.parameters["corpus"]).pages] == ["Lamp", "Ida", "Noise"]


def test_facts_and_contexts_may_be_columns_as_the_datasets_library_has_them(tmp_path):
    row = HOTPOT_ROW | {
        "supporting_facts": {"title": ["Lamp"], "sent_id": [0]},
        "context": {"title": ["Lamp"], "sentences": [["It is a lamp."]]},
    }
    (task,) = load("importers", "hotpot")(written(tmp_path, [row]))["held_out"]
    assert list(task.truth["pages"]) == ["Lamp"]
    assert len(open_library(task.parameters["corpus"]).pages) == 1


def test_musique_lines_are_read_and_what_cannot_be_answered_is_left_out(tmp_path):
    rows = [MUSIQUE_ROW, MUSIQUE_ROW | {"id": "3hop1__x", "answerable": False}]
    (task,) = load("importers", "musique")(written(tmp_path, rows, "musique.jsonl"))["held_out"]
    assert task.truth == {"answer": "Ida", "answers": ["Ida K."], "pages": {"Lamp": 1}}
    assert (task.difficulty, task.tags) == (2.0, ("hops_2",))
    assert [page.title for page in open_library(task.parameters["corpus"]).pages] == ["Lamp", "Noise"]


@pytest.mark.parametrize("importer", ["musique", "hotpot"])
def test_gold_pages_of_one_title_are_called_as_the_environment_calls_them(tmp_path, importer):
    """Opening another page of the title would be paid for, and opening the right one would not."""
    rows = []
    for number, (title, text) in enumerate([("Namibia", "Media."), ("Namibia", "Coast."), ("NAMIBIA", "A ship.")]):
        if importer == "musique":
            paragraphs = [{"title": title, "paragraph_text": text, "is_supporting": True}]
            rows.append(MUSIQUE_ROW | {"id": f"2hop__{number}", "paragraphs": paragraphs})
        else:
            row = {"_id": str(number), "supporting_facts": [[title, 0]], "context": [[title, [text]]]}
            rows.append(HOTPOT_ROW | row)
    tasks = load("importers", importer)(written(tmp_path, [*rows, rows[1] | {"id": "2hop__z", "_id": "z"}]))["held_out"]
    golds = [next(iter(task.truth["pages"])) for task in tasks]
    pages = open_library(tasks[0].parameters["corpus"]).pages
    texts = [pages[pages.number(gold)].text for gold in golds]
    assert texts == ["Media.", "Coast.", "A ship.", "Coast."]


@pytest.mark.parametrize("field", ["golden_answers", "answers", "answer"])
def test_nq_style_lines_take_any_of_their_answers(tmp_path, field):
    path = written(tmp_path, [{"question": "Who?", field: ["Ida", "Ida K."]}], "nq.jsonl")
    with pytest.raises(TaskError, match=r"Put corpus.json or corpus.jsonl beside it"):
        load("importers", "nq")(path)
    written(tmp_path, [{"title": "Ida", "text": "A maker."}], "corpus.jsonl")
    (task,) = load("importers", "nq")(path)["held_out"]
    assert task.truth == {"answer": "Ida", "answers": ["Ida K."]}


def beir_folder(tmp_path):
    documents = [{"_id": "d1", "title": "", "text": "lamps"}, {"_id": "d2", "title": "Oil", "text": "oil"}]
    written(tmp_path, documents, "corpus.jsonl")
    written(tmp_path, [{"_id": "q1", "text": "lamp oil"}, {"_id": "q2", "text": "unjudged"}], "queries.jsonl")
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t2\nq1\td3\t0\n")
    return tmp_path


async def test_a_beir_folder_becomes_tasks_whose_titles_the_environment_knows(tmp_path):
    (task,) = (task_set := load("importers", "beir")(beir_folder(tmp_path)))["held_out"]
    assert task.truth == {"answer": "(d1)", "answers": ["Oil"], "pages": {"(d1)": 1, "Oil": 2}}
    calls = [Call("search", {"query": "lamp oil"}), Call("open", {"page": "(d1)"}), Call("answer", {"text": "oil"})]
    script = [Message("assistant", "", (call,)) for call in calls]
    (trajectory,) = await EpisodeManager(ScriptedPolicy(script)).collect(task_set["held_out"])
    assert (trajectory.success, trajectory.turns[1].rewards) == (1.0, {"evidence": 0.5})


def test_what_is_imported_survives_a_round_trip_through_a_file(tmp_path):
    task_set = load("importers", "hotpot")(written(tmp_path, [HOTPOT_ROW]))
    task_set.to_jsonl(tmp_path / "out.jsonl")
    assert TaskSet.from_jsonl(tmp_path / "out.jsonl").fingerprint() == task_set.fingerprint()


@pytest.mark.parametrize(
    ("importer", "rows", "complaint"),
    [
        ("hotpot", [HOTPOT_ROW, HOTPOT_ROW], "item 1: the id 'hotpot-v1/a' is already used by item 0"),
        ("hotpot", [HOTPOT_ROW | {"question": 3}], "item 0: the question must be text, not 3"),
        (
            "hotpot",
            [HOTPOT_ROW | {"answer": {"a": 1}}],
            "item 0: the answer must be text or a list of texts, not {'a': 1}",
        ),
        ("hotpot", [HOTPOT_ROW | {"supporting_facts": 3}], "item 0: the supporting facts must be pairs .* not 3"),
        ("hotpot", [{"question": "Who?"}], "item 0: expected one of the fields _id, id, found question"),
        ("hotpot", ["text"], "item 0: expected a JSON object, found str"),
        ("hotpot", [], "contains no items"),
        ("twowiki", [{"id": 1, "question": "Who?", "answer": "x"}], "contains questions, but no pages"),
        ("musique", [MUSIQUE_ROW | {"paragraphs": [1]}], "item 0: the paragraphs must be"),
        ("musique", [MUSIQUE_ROW | {"answerable": False}], "contains no answerable question"),
        ("squad", [1], "is not a SQuAD file"),
        ("squad", {"data": [{"paragraphs": [{"qas": [{}]}]}]}, "article 0 does not have SQuAD's form"),
    ],
)
def test_a_broken_file_is_refused_with_its_place(tmp_path, importer, rows, complaint):
    with pytest.raises(TaskError, match=f"questions.json.*{complaint}"):
        load("importers", importer)(written(tmp_path, rows))


@pytest.mark.parametrize("importer", ["hotpot", "twowiki", "musique", "nq", "squad", "beir"])
def test_a_file_that_is_not_there_is_named(tmp_path, importer):
    with pytest.raises(TaskError, match=r"Cannot read .*nowhere|pages to search"):
        load("importers", importer)(tmp_path / "nowhere.json")


def test_a_judgement_of_a_document_that_is_not_there_is_named(tmp_path):
    folder = beir_folder(tmp_path)
    (folder / "qrels/test.tsv").write_text("q1\td9\t1\n")
    with pytest.raises(TaskError, match="has no document 'd9'"):
        load("importers", "beir")(folder)
    (folder / "qrels/test.tsv").write_text("q1 d9\n")
    with pytest.raises(TaskError, match=r"test.tsv, line 1: expected query, .* 'q1 d9'"):
        load("importers", "beir")(folder)


@needs(HOTPOT)
@needs(XQUAD)
@needs(TWOWIKI)
def test_the_public_files_give_as_many_questions_as_they_hold_and_their_gold_pages_exist():
    sizes = {"hotpot": (HOTPOT, 100, 994), "squad": (XQUAD, 1190, 240), "twowiki": (TWOWIKI, 200, 6119)}
    for importer, (path, questions, pages) in sizes.items():
        tasks = load("importers", importer)(path)["held_out"]
        library = open_library(tasks[0].parameters["corpus"])
        assert (len(tasks), len(library.pages)) == (questions, pages)
        known = [task.truth["pages"] for task in tasks if "pages" in task.truth]
        assert len(known) == (105 if importer == "twowiki" else questions)  # Wikidata's names are not all titles
        assert [title for gold in known for title in gold if library.pages.number(title) is None] == []


@needs(HOTPOT)
async def test_an_agent_that_opens_the_gold_pages_of_real_questions_is_paid_and_believed():
    """It reads the truth, as an oracle of a public set must; the tools and the judge are the real ones."""
    task_set = load("importers", "hotpot")(HOTPOT)

    def script(task):
        gold = list(task.truth["pages"])
        turns = [(Call("search", {"query": title}), Call("open", {"page": title}, "call_1")) for title in gold]
        answer = Call("answer", {"text": f"The {task.truth['answer']}.", "sources": gold})
        return ScriptedPolicy([Message("assistant", "", calls) for calls in (*turns, (answer,))])

    trajectories = await EpisodeManager(script).collect(task_set["held_out"][:20])
    assert [trajectory.success for trajectory in trajectories] == [1.0] * 20
    opened = [sum(turn.rewards["evidence"] for turn in trajectory.turns) for trajectory in trajectories]
    assert sum(opened) / len(opened) > 0.95  # a title may not be the first hit of its own search
    assert all(trajectory.turns[-1].potential is not None for trajectory in trajectories if len(trajectory.turns) > 1)
