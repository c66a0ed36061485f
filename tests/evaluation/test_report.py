"""The report: one file from any subset of a run's files, everything escaped, with the numbers of the records."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser

import pytest
import sample_run
from hypothesis import given
from hypothesis import strategies as st

from agentgym.errors import AgentGymError
from agentgym.evaluation.comparison import compare
from agentgym.evaluation.record import Evaluation
from agentgym.evaluation.report import write_report
from agentgym.evaluation.report.contents import read
from agentgym.evaluation.report.findings import episodes_to_read, usage
from agentgym.evaluation.report.html import el, text
from agentgym.evaluation.report.run_data import run_data
from agentgym.storage.run_folder import RunFolder
from agentgym.text import percent

VOID = {"meta", "br", "circle", "line", "rect", "polyline", "polygon", "path", "hr", "link", "img", "input"}


class Page(HTMLParser):
    """Checks nesting, and collects tags, attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "sample"
    sample_run.make(path)
    return path


@pytest.fixture(scope="module")
def page(folder):
    return Page(write_report(RunFolder(folder)).read_text(encoding="utf-8"))


def embedded_data(folder):
    """The data that the page's script reads."""
    report = (folder / "report.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', report, re.DOTALL)[1])


def test_the_gains_are_those_of_the_records(folder, page):
    before, after = (Evaluation.load(folder / "evaluation" / f"{when}.json") for when in ("before", "after"))
    gain = compare(before, after).difference
    run = embedded_data(folder)["run"]
    row = run["gains"][0]
    assert row["tag"] is None
    assert (row["before"]["value"], row["after"]["value"]) == (before.success().value, after.success().value)
    assert (row["gain"]["value"], row["gain"]["low"], row["gain"]["high"]) == (gain.value, gain.low, gain.high)
    assert sum(evaluation["failed"] for evaluation in run["held_out"]) == before.failed + after.failed


def test_a_reader_without_scripts_sees_success_before_and_after_by_kind_of_task(folder, page):
    before, after = (Evaluation.load(folder / "evaluation" / f"{when}.json") for when in ("before", "after"))
    assert f"{percent(before.success().value)} (" in page.text
    assert f"{percent(after.success().value)} (" in page.text
    for tag in ("unseen_entities", "unseen_templates", "customer_phone", "newest_order"):
        assert tag in page.text


def test_the_wall_time_is_that_of_the_evaluation_and_no_sum_over_its_sandboxes(tmp_path):
    folder = sample_run.make(tmp_path / "run", steps=2)
    after = Evaluation.load(folder.path / "evaluation" / "after.json")
    after.duration_s = 17.5
    for row in after.rows:
        row.usage = [{"wall_s": 500.0} for _ in row.usage]
    folder.write_json("evaluation/after.json", after.to_json())
    phrases = {row["label"]: row["phrases"] for row in usage(read(folder.path))}
    assert phrases["after"] == ["wall 17.5 s"]


def test_the_episodes_to_read_are_in_the_file(folder, page):
    data = embedded_data(folder)
    reasons = [pair["reason"] for pair in data["run"]["to_read"]]
    assert reasons[:2] == ["before and after training"] * 2
    assert "credit" in reasons[2]
    for pair in data["run"]["to_read"]:
        first, second = (data["episodes"][name] for name in pair["ids"])
        assert first["task"]["id"] == second["task"]["id"] == pair["task"]


def test_the_page_loads_nothing_and_runs_its_own_script_alone(page):
    names = {name for name, _ in page.tags}
    assert not names & {"link", "img", "iframe", "object", "embed", "form", "base"}
    scripts = [attributes for name, attributes in page.tags if name == "script"]
    assert scripts == [{"type": "application/json", "id": "data"}, {"type": "module"}]
    for name, attributes in page.tags:
        assert not any(key.startswith("on") for key in attributes), name
        for value in attributes.values():
            text = re.sub(r"'sha256-[\w+/=]+'", "", value or "")  # a hash may hold //
            assert not re.search(r"(https?:)?//(?!www\.w3\.org/2000/svg)|javascript:|url\(|@import", text)
    rules = next(a["content"] for n, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert rules.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in rules.replace("style-src 'unsafe-inline'", "")


def test_hostile_text_of_a_tool_is_data_that_cannot_end_its_element(folder, page):
    raw = (folder / "report.html").read_text(encoding="utf-8")
    assert sample_run.ATTACK not in raw
    assert "\x1b" not in raw
    assert "\u202e" not in raw
    episode = embedded_data(folder)["episodes"]["held-out-after/customer_phone-0000#0"]
    [excerpt] = [
        part["text"]
        for turn in episode["turns"]
        for result in turn["results"]
        for part in result["parts"]
        if "owned" in part["text"]
    ]
    assert sample_run.ATTACK in excerpt  # the page only ever adds it as text
    assert "U+202E" in excerpt


def test_a_hostile_run_name_is_text_in_the_title_and_without_scripts(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "recipe.toml").write_text('name = "</noscript><script>alert(1)</script>"\n')
    parsed = Page(write_report(copy).read_text(encoding="utf-8"))
    assert len([name for name, _ in parsed.tags if name == "script"]) == 2
    assert "</noscript><script>alert(1)</script>" in parsed.text


def test_the_page_has_a_language_and_scoped_table_heads(page):
    assert next(a for n, a in page.tags if n == "html")["lang"] == "en"
    assert all("scope" in a for n, a in page.tags if n == "th")


@pytest.mark.parametrize(
    "missing",
    [
        "metrics.jsonl",
        "evaluation",
        "evaluation/before.json",
        "ledger.sqlite",
        "credit.jsonl",
        "recipe.toml",
        "state.json",
    ],
)
def test_any_one_file_may_be_missing(folder, tmp_path, missing):
    copy = shutil.copytree(folder, tmp_path / "copy")
    target = copy / missing
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    Page(write_report(copy).read_text(encoding="utf-8"))
    assert not (copy / "report.html.partial").exists()
    assert missing != "ledger.sqlite" or not target.exists()  # reading must not make one


def test_an_empty_folder_gives_a_page_that_says_so(tmp_path):
    assert "Nothing has been evaluated yet" in Page(write_report(tmp_path).read_text(encoding="utf-8")).text


def test_broken_files_become_notes_and_never_errors(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "evaluation" / "worse.json").write_text('{"label": 3}')
    (copy / "recipe.toml").write_text("name = [")
    (copy / "state.json").write_text("[" * 100_000)
    (copy / "ledger.sqlite").write_bytes(b"not a database at all" * 100)
    with (copy / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 3, "phase": "tra')
    write_report(copy)
    notes = " ".join(embedded_data(copy)["run"]["notes"])
    for name in ("worse.json", "recipe.toml", "state.json", "ledger.sqlite", "metrics.jsonl"):
        assert name in notes


def test_a_missing_folder_is_an_error_with_the_path(tmp_path):
    with pytest.raises(AgentGymError, match=r"no run folder .*nowhere"):
        write_report(tmp_path / "nowhere")


def test_several_episodes_of_a_task_add_pass_at_k_and_pass_hat_k(tmp_path):
    sample_run.make(tmp_path / "run", samples=3)
    write_report(tmp_path / "run")
    contents = read(tmp_path / "run")
    rows = {row["label"]: row for row in embedded_data(tmp_path / "run")["run"]["evaluations"]}
    assert rows == {row["label"]: row for row in run_data(contents)["evaluations"]}
    for evaluation in contents.evaluations:
        for name, hat in (("pass_at", False), ("pass_hat", True)):
            curve = evaluation.pass_curve(all_of_them=hat)
            assert list(curve) == [1, 2]  # one of some task's three failed with its infrastructure
            drawn = [(k, e["value"], e["low"], e["high"]) for k, e in rows[evaluation.label][name]]
            assert drawn == [(k, e.value, e.low, e.high) for k, e in curve.items()]


def test_the_last_line_of_a_step_that_was_run_twice_counts(tmp_path):
    rows = [{"time": 1.0, "step": s, "phase": "train", "reward": r} for s, r in ((1, 0.1), (2, 0.2), (2, 0.9))]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [row["reward"] for row in read(tmp_path).metrics["train"]] == [0.1, 0.9]


def test_evaluations_of_different_tasks_are_never_paired(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    data = json.loads((copy / "evaluation" / "before.json").read_text())
    data["manifest"] = "another"
    (copy / "evaluation" / "before.json").write_text(json.dumps(data))
    before, after = read(copy).pair()
    assert before is None
    assert after is not None
    assert after.label == "after"


def test_an_evaluation_alone_does_not_speak_of_training(folder, tmp_path):
    (tmp_path / "evaluation").mkdir()
    shutil.copy(folder / "evaluation" / "after.json", tmp_path / "evaluation" / "held_out.json")
    assert {pair["reason"] for pair in episodes_to_read(read(tmp_path))} == {"its first episode"}


@given(st.text())
def test_no_text_at_all_becomes_markup(value):
    markup = text(value)
    assert "<" not in markup
    assert '"' not in markup
    assert not re.search(r"&(?!(amp|lt|gt|quot|#x27);)", markup)
    parsed = Page(el("p", value, title=value))
    assert [name for name, _ in parsed.tags] == ["p"]
