"""Corpora and their indexes: exact rankings, whole folders, and the recall that others report on real files."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.errors import SandboxUnavailable, TaskError
from agentgym.sandboxes.search.index import bm25_build, folders, open_library, opening
from agentgym.sandboxes.search.index.bm25 import Bm25
from agentgym.sandboxes.search.index.corpus_files import pages_of_json, pages_of_lines
from agentgym.sandboxes.search.index.keys import Keys, write_keys
from agentgym.sandboxes.search.index.page_store import Page, PageStore, write_pages
from agentgym.sandboxes.search.index.retrievers import fused
from agentgym.sandboxes.search.index.words import words

DATA = Path(__file__).parents[2] / "../shared/data"
HOTPOT = DATA / "hotpot_100/hotpotqa_100.json"
XQUAD = DATA / "xquad_en/xquad.en.json"
needs_hotpot = pytest.mark.skipif(not HOTPOT.is_file(), reason="the HotpotQA file is not in ../shared/data")
needs_xquad = pytest.mark.skipif(not XQUAD.is_file(), reason="the XQuAD file is not in ../shared/data")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))


def corpus(tmp_path, *texts, name="corpus.jsonl"):
    path = tmp_path / name
    path.write_text("\n".join(json.dumps({"_id": str(n), "title": f"T{n}", "text": t}) for n, t in enumerate(texts)))
    return str(path)


def indexed(folder, texts, **options):
    folder.mkdir(exist_ok=True)
    bm25_build.write_bm25(folder, [Page(str(n), "", text) for n, text in enumerate(texts)], **options)
    return Bm25(folder)


def scores_by_hand(texts, query, k1=bm25_build.K1, b=bm25_build.B):
    """BM25 as the formula reads, one page after another."""
    documents = [words(text) for text in texts]
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for document in documents:
        score, counts = 0.0, Counter(document)
        for word in words(query):
            df = sum(word in other for other in documents)
            if not counts[word]:
                continue
            idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
            tf = counts[word]
            score += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(document) / mean))
        scores.append(score)
    return scores


WORDS = st.sampled_from(["amber", "bridge", "copper", "dune", "ember", "fjord", "grove", "harbour"])
TEXTS = st.lists(st.lists(WORDS, max_size=12).map(" ".join), min_size=1, max_size=30).filter(any)


@given(texts=TEXTS, query=st.lists(WORDS, min_size=1, max_size=6).map(" ".join), k=st.integers(1, 8))
def test_a_ranking_equals_the_formula_page_by_page(tmp_path_factory, texts, query, k):
    """With its pruning: the k best, in order, with their scores."""
    ranked = indexed(tmp_path_factory.mktemp("bm25"), texts).rank(query, k)
    expected = scores_by_hand(texts, query)
    best = sorted((score for score in expected if score > 0), reverse=True)[:k]
    np.testing.assert_allclose([score for _, score in ranked], best, rtol=1e-4)
    np.testing.assert_allclose([expected[page] for page, _ in ranked], best, rtol=1e-4)


def test_pruning_changes_no_result(tmp_path):
    """Thousands of pages with words as unequal as in a language, so that queries do stop early."""
    rng = np.random.default_rng(5)
    vocabulary = [f"w{n}" for n in range(3_000)]
    draws = np.minimum(rng.zipf(1.25, (6_000, 25)) - 1, 2_999)
    ranking = indexed(tmp_path / "z", [" ".join(vocabulary[n] for n in row) for row in draws])
    pruned = 0
    for _ in range(60):
        query = " ".join(vocabulary[n] for n in np.minimum(rng.zipf(1.3, 5) - 1, 2_999))
        ranked = ranking.rank(query, 10)
        scores = np.zeros(len(draws), np.float32)
        terms = ranking._terms_of(query)
        for term, count, _ in terms:
            start, end = ranking._starts[term : term + 2]
            scores[ranking._pages[start:end]] += ranking._gains[start:end] * np.float32(count)
        order = np.lexsort((np.arange(len(scores)), -scores))[:10]
        assert [page for page, _ in ranked] == [int(page) for page in order if scores[page] > 0]
        pages, read = ranking._gather(terms, 10, np.zeros(len(draws), np.float32))
        pruned += len(pages) < len(read)
    assert pruned > 10, "the corpus gave no query that could stop early: the test shows nothing"


def test_scores_are_those_of_bm25s(tmp_path):
    """An independent implementation, asked for the same variant (Lucene's idf; its k1 + 1 left out of the fraction)."""
    bm25s = pytest.importorskip("bm25s")
    rng = random.Random(3)
    vocabulary = [f"word{n}" for n in range(60)]
    texts = [" ".join(rng.choices(vocabulary, k=rng.randint(3, 30))) for _ in range(200)]
    theirs = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    theirs.index([words(text) for text in texts], show_progress=False)
    ours = indexed(tmp_path / "i", texts, k1=1.2, b=0.75)
    for _ in range(20):
        query = " ".join(rng.choices(vocabulary, k=4))
        expected = theirs.get_scores(words(query))
        for page, score in ours.rank(query, 10):
            assert score == pytest.approx(expected[page] * 2.2, rel=1e-4)


def test_a_buffer_is_clean_for_the_next_query(tmp_path):
    ranking = indexed(tmp_path / "i", ["amber bridge", "amber", "copper"])
    first = ranking.rank("amber", 5)
    ranking.rank("copper bridge", 5)
    assert ranking.rank("amber", 5) == first
    assert ranking.rank("", 5) == ranking.rank("the of", 5) == ranking.rank("unknown", 5) == []


def test_words_are_folded_and_plurals_are_cut():
    assert words("The Cities of São Paulo, gases; buses' class is glass!") == [
        "city",
        "sao",
        "paulo",
        "gase",
        "buse",
        "class",
        "glass",
    ]


def test_fusion_sums_reciprocal_ranks():
    """1/(60+1) + 1/(60+2) beats 1/(60+1); a tie goes to the lower number."""
    assert fused([[7, 3], [9, 7]], 3) == [(7, 1 / 61 + 1 / 62), (9, 1 / 61), (3, 1 / 62)]
    assert [page for page, _ in fused([[2], [1]], 2)] == [1, 2]


def test_keys_find_the_numbered_texts_and_nothing_else(tmp_path):
    texts = [f"key {n}" for n in range(1_000)]
    write_keys(tmp_path, "k", texts)
    keys = Keys(tmp_path, "k")
    assert [keys.get(text) for text in texts] == list(range(1_000))
    assert keys.get("key 1000") is None
    with pytest.raises(ValueError, match="Give each text once"):
        write_keys(tmp_path, "k", ["same", "other", "same"])


def test_pages_come_back_as_written_and_every_title_names_one(tmp_path):
    pages = [Page("a", "Amber", "x"), Page("b", "amber ", "y", ("Amber",)), Page("c", "", "z")]
    write_pages(tmp_path, pages)
    store = PageStore(tmp_path)
    assert [page.title for page in store] == ["Amber", "amber (b)", "(c)"]
    assert store[store.number("  AMBER (B)")] == Page("b", "amber (b)", "y", ("Amber",))
    assert store.number("nowhere") is None


def test_an_index_is_built_once_and_another_text_is_another_index(tmp_path, monkeypatch):
    first = open_library(corpus(tmp_path, "amber bridge", "copper"))
    second = open_library(corpus(tmp_path, "amber bridge", "copper", name="copy.jsonl"))
    other = open_library(corpus(tmp_path, "amber bridge!", "copper", name="other.jsonl"))
    assert first.digest == second.digest != other.digest
    first.ranking()
    monkeypatch.setattr(bm25_build, "write_bm25", None)  # whoever builds again fails
    assert second.ranking().rank("bridge", 3)[0][0] == 0


def test_a_file_that_changed_is_read_again_although_its_name_is_the_same(tmp_path):
    first = open_library(corpus(tmp_path, "amber"))
    second = open_library(corpus(tmp_path, "copper"))
    assert (first.pages[0].text, second.pages[0].text) == ("amber", "copper")


KILLED = """
import os, sys
from pathlib import Path
from agentgym.sandboxes.search.index.folders import made_once
def build(place):
    (place / "half").write_text("half")
    print("building", flush=True)
    sys.stdin.readline()
    (place / "whole").write_text("whole")
made_once(Path(sys.argv[1]), build)
"""


def test_a_partial_index_of_a_killed_process_is_never_read(tmp_path):
    folder = tmp_path / "part"
    command = [sys.executable, "-c", KILLED, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as builder:
        assert builder.stdout.readline() == "building\n"
        assert not folder.exists()
        builder.send_signal(signal.SIGKILL)
        builder.wait()
    assert not folder.exists()
    folders.made_once(folder, lambda new: (new / "whole").write_text("whole"))
    assert [path.name for path in folder.iterdir()] == ["whole"]


def test_of_two_processes_that_need_one_index_the_second_uses_that_of_the_first(tmp_path):
    folder = tmp_path / "part"
    command = [sys.executable, "-c", KILLED, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        first.stdout.readline()
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as second:
            time.sleep(0.05)
            first.communicate("go\n")
            assert second.communicate("go\n")[0] == ""  # it built nothing
    assert sorted(path.name for path in folder.iterdir()) == ["half", "whole"]


def test_a_build_that_fails_leaves_nothing(tmp_path):
    def fail(folder):
        (folder / "half").write_text("")
        raise TaskError("broken")

    with pytest.raises(TaskError):
        folders.made_once(tmp_path / "part", fail)
    assert [path.name for path in tmp_path.iterdir()] == [".part.lock"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o500)
    with pytest.raises(SandboxUnavailable, match="AGENTGYM_CACHE"):
        open_library(corpus(tmp_path, "amber"))


def test_a_cache_that_is_a_file_is_named(tmp_path):
    (tmp_path / "cache").write_text("")
    with pytest.raises(SandboxUnavailable, match="AGENTGYM_CACHE"):
        open_library(corpus(tmp_path, "amber"))


@pytest.mark.parametrize(
    ("data", "titles"),
    [
        ([{"title": "A", "text": "x"}, {"_id": "7", "text": "y"}], ["A", ""]),
        ({"A": "x", "B": ["x.", "y."]}, ["A", "B"]),
        ([{"context": [["A", ["x."]], ["B", ["y."]]]}], ["A", "B"]),
        ([{"context": {"title": ["A"], "sentences": [["x."]]}}], ["A"]),
        ([{"paragraphs": [{"title": "A", "paragraph_text": "x"}]}], ["A"]),
        (
            {"data": [{"title": "A_b", "paragraphs": [{"context": "x"}, {"context": "y"}]}]},
            ["A b, part 1", "A b, part 2"],
        ),
        ([{"contents": '"Amber"\nIt is a resin.'}], ["Amber"]),
    ],
)
def test_corpora_are_read_in_the_shapes_they_come_in(data, titles):
    assert [page.title for page in pages_of_json(data, "f")] == titles


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "line 1: not valid JSON"),
        (b"[1]", "line 1: expected a page as a JSON object, found list"),
        (b'{"title": "A"}', "line 1 has no text"),
        (b'{"text": "x", "links": "A"}', "line 1: the links must be a list of titles, not 'A'"),
    ],
)
def test_a_broken_line_of_a_corpus_is_named(line, complaint):
    with pytest.raises(TaskError, match=f"f, {complaint}"):
        list(pages_of_lines([line], "f"))


def test_a_corpus_that_is_not_there_is_named():
    with pytest.raises(TaskError, match=r"'nowhere' is neither a file, a folder nor an asset"):
        open_library("nowhere")


def test_meaning_finds_a_page_that_shares_no_word_with_the_query(tmp_path, monkeypatch):
    """`boat` and `ship` occur with the same words, so their directions agree (Deerwester et al. 1990)."""
    pytest.importorskip("sklearn")
    monkeypatch.setattr(opening, "LSA_DIMENSIONS", 2)
    texts = [
        "boat sail sea captain",
        "ship sail sea captain",
        "ship sea sail",
        "bread oven flour",
        "cake oven flour",
    ] * 3
    library = open_library(corpus(tmp_path, *texts))
    assert not {0, 5, 10} & {page for page, _ in library.ranking("bm25").rank("ship", 15)}
    assert {0, 5, 10} <= {page for page, _ in library.ranking("dense").rank("ship", 9)}
    assert {0, 5, 10} <= {page for page, _ in library.ranking("hybrid").rank("ship", 9)}


def test_a_checkpoint_on_disk_encodes_pages_and_its_weights_name_the_index(tmp_path):
    """A tiny model of random weights: the mechanics are real, the meaning is not."""
    pytest.importorskip("torch")
    from agentgym.policy import make_model, make_tokenizer
    from agentgym.sandboxes.search.index.checkpoint_encoder import CheckpointEncoder

    texts = ["amber bridge over the fjord", "copper dune", "ember grove harbour"]
    tokenizer = make_tokenizer(texts * 4, 400)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    make_model(tokenizer, hidden=64, layers=2).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    encoder = CheckpointEncoder(str(tmp_path / "model"), max_tokens=32)
    library = open_library(corpus(tmp_path, *texts))
    pages = asyncio.run(library.retriever("dense", encoder).search("T1\ncopper dune", 3))
    assert pages[0].page.title == "T1"  # the very text that was indexed
    assert pages[0].score == pytest.approx(1.0, abs=0.01)
    padded, single = encoder.encode_pages(texts)[1], encoder.encode_query(texts[1])
    np.testing.assert_allclose(padded, single, atol=1e-4)
    assert CheckpointEncoder(str(tmp_path / "model"), max_tokens=16).name != encoder.name
    assert len(library.ranking("hybrid", encoder).rank("amber", 3)) == 3


def recall(ranked, gold, k):
    return sum(len(g & set(r[:k])) / len(g) for r, g in zip(ranked, gold, strict=True)) / len(gold)


def fts5(pages, queries, k):
    """The same search by SQLite's full-text index, whose figures others report."""
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(title, text, tokenize='porter')")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(page.title, page.text) for page in pages])
        ask = "SELECT title FROM t WHERE t MATCH ? ORDER BY bm25(t) LIMIT ?"
        return [
            [title for (title,) in connection.execute(ask, (" OR ".join(f'"{w}"' for w in words(query)), k))]
            for query in queries
        ]


@needs_hotpot
def test_hotpotqa_titles_are_recalled_as_well_as_others_report():
    """Reported for these 100 questions with SQLite FTS5: @2 .63, @5 .81, @10 .89; bm25s about the same."""
    items = json.loads(HOTPOT.read_text())
    library = open_library(str(HOTPOT))
    gold = [{title for title, _ in item["supporting_facts"]} for item in items]
    queries = [item["question"] for item in items]
    ranking = library.ranking()
    ours = [[library.pages[page].title for page, _ in ranking.rank(query, 10)] for query in queries]
    theirs = fts5(library.pages, queries, 10)
    assert len(library.pages) == 994
    for k, reported in ((2, 0.63), (5, 0.81), (10, 0.89)):
        assert recall(ours, gold, k) > reported - 0.03
        assert recall(theirs, gold, k) == pytest.approx(reported, abs=0.03)


@needs_xquad
def test_xquad_paragraphs_are_recalled_as_well_as_others_report():
    """Reported with SQLite FTS5: gold paragraph @1 .945, @5 .992."""
    library, gold, queries = open_library(str(XQUAD)), [], []
    paragraphs = {page.text: page.title for page in library.pages}
    for article in json.loads(XQUAD.read_text())["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                gold.append({paragraphs[paragraph["context"]]})
                queries.append(question["question"])
    ranking = library.ranking()
    ours = [[library.pages[page].title for page, _ in ranking.rank(query, 5)] for query in queries]
    assert (len(library.pages), len(queries)) == (240, 1190)
    assert recall(ours, gold, 1) > 0.935
    assert recall(ours, gold, 5) > 0.98


def test_a_word_inside_a_sentence_without_spaces_is_found(tmp_path):
    texts = ["東京は日本の首都です。", "我喜欢在北京吃烤鸭", "猫が好き", "An English page about Tokyo"]
    index = indexed(tmp_path / "index", texts)
    for query, page in (("首都", 0), ("日本", 0), ("北京", 1), ("烤鸭", 1), ("猫", 2), ("tokyo", 3)):
        assert [number for number, _ in index.rank(query, 1)] == [page], query
    assert index.rank("大阪", 5) == []
    assert words("Python3入門 is fun") == ["python3", "入", "門", "入門", "fun"]
