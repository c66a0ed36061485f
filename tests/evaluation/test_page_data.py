"""What pages are made of: credit found in its file, tokens by what they read as, texts made visible, one script."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym import Task, Trajectory, Turn
from agentgym.evaluation.report import policy
from agentgym.evaluation.report.assets import assets, module, policy_hash, script, served
from agentgym.evaluation.report.contents import read
from agentgym.evaluation.report.credit_lines import MANY, LoggedCredit, read_credit
from agentgym.evaluation.report.embedding import data_element
from agentgym.evaluation.report.episode_data import episode_data, image_at, token_data
from agentgym.evaluation.report.run_data import run_data, thinned
from agentgym.evaluation.report.vocabulary import Vocabulary, tokenizer_file
from agentgym.messages import Call, ImagePart, Message, Result, StopReason, TextPart

MODULES = sorted(name for name in assets() if name.endswith(".js"))


def line(name, step, values):
    return json.dumps({"trajectory": name, "step": step, "advantages": values}) + "\n"


@pytest.mark.parametrize("more", [0, MANY + 1])
def test_the_last_credit_of_a_trajectory_is_found_whichever_way_the_file_is_read(tmp_path, more):
    file = tmp_path / "credit.jsonl"
    text = line("a/b#1", 1, [0.5]) + line('quote"d/é#0', 2, [1, -1]) + line("a/b#10", 3, [9]) + line("a/b#1", 4, [0.25])
    file.write_text(text + '{"trajectory": "a/b#1", "step": 5, "adv')  # a kill in the middle of a line
    names = ["a/b#1", 'quote"d/é#0', "nobody", *(f"other#{i}" for i in range(more))]
    assert read_credit(file, names) == {"a/b#1": LoggedCredit((0.25,), 4), 'quote"d/é#0': LoggedCredit((1.0, -1.0), 2)}


def test_lines_that_are_no_credit_are_passed_over(tmp_path):
    file = tmp_path / "credit.jsonl"
    bad = ["[]", '"a"', '{"trajectory": "a"}', line("a", "1", [1]), line("a", 1, ["x"]), line("a", 1, 3), "a" * 99]
    file.write_text("\n".join(bad) + '\n{"trajectory": "a", "step": 1, "advantages": [NaN]}\n')
    assert read_credit(file, ["a"]) == {}
    assert read_credit(tmp_path / "none", ["a"]) == {}
    file.write_text("")
    assert read_credit(file, ["a"]) == {}


def vocabulary(tmp_path, data):
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    return Vocabulary.load(tmp_path / "tokenizer.json")


def test_pieces_of_a_byte_level_vocabulary_are_its_bytes(tmp_path):
    """In GPT-2's alphabet a space is Ġ, a line break Ċ, and é the two letters Ã and ©."""
    vocab = {"Ġthe": 0, "Ċ": 1, "Ã©": 2, "Ã": 3}
    data = {
        "model": {"type": "BPE", "vocab": vocab},
        "decoder": {"type": "ByteLevel"},
        "added_tokens": [{"id": 4, "content": "<|im_end|>"}],
    }
    pieces = vocabulary(tmp_path, data).of([0, 1, 2, 3, 4, 5])
    assert pieces == {0: " the", 1: "\n", 2: "é", 3: "\\xc3", 4: "<|im_end|>"}


def test_pieces_of_other_vocabularies_are_read_as_they_are_written(tmp_path):
    unigram = {
        "model": {"type": "Unigram", "vocab": [["<unk>", 0.0], ["\u2581the", -1.0], ["<0x0A>", -2.0], ["<0xE9>", -3.0]]}
    }
    assert vocabulary(tmp_path, unigram).of(range(4)) == {0: "<unk>", 1: " the", 2: "\n", 3: "\\xe9"}
    words = {"model": {"type": "WordPiece", "vocab": {"##ing": 0, "\u202eevil": 1}}}
    assert vocabulary(tmp_path, words).of([0, 1]) == {0: "##ing", 1: "⟨U+202E⟩evil"}


@pytest.mark.parametrize("data", [[], {}, {"model": {}}, {"model": {"vocab": 3}}, {"model": {"vocab": [1]}}])
def test_a_file_that_is_no_tokenizer_gives_no_pieces(tmp_path, data):
    assert len(vocabulary(tmp_path, data)) == 0


def test_the_newest_tokenizer_of_a_run_is_taken_and_else_that_of_the_policy_it_began_with(tmp_path):
    assert tokenizer_file(tmp_path) is None
    (tmp_path / "began").mkdir()
    (tmp_path / "began" / "tokenizer.json").touch()
    assert tokenizer_file(tmp_path, str(tmp_path / "began")).parent.name == "began"
    (tmp_path / "checkpoints" / "final").mkdir(parents=True)
    (tmp_path / "checkpoints" / "final" / "tokenizer.json").touch()
    assert tokenizer_file(tmp_path, str(tmp_path / "began")).parent.name == "final"


def example_trajectory(**changes) -> Trajectory:
    picture = ImagePart("aGk=", "image/png")
    drawing = ImagePart("PHN2Zy8+", "image/svg+xml")
    call = Call("look", {"deep\x1b": [{"n": 2**60, "x": float("inf")}]})
    turn = Turn(
        0,
        Message("assistant", "hm \u202e", (call,)),
        (call,),
        (Result((TextPart("see"), picture, drawing)),),
        token_ids=[5, 6],
        logprobs=[-0.5, float("-inf")],
        observation_ids=[7],
        rewards={"ok": 1.0},
    )
    fields = {
        "prompt_ids": [1, 2],
        "turns": [turn],
        "outcome": {"success": 1.0},
        "stop_reason": StopReason.ANSWERED,
        **changes,
    }
    return Trajectory("run/t#0", Task("t", "e/e-v1", "ask"), **fields)


def test_an_episode_as_data_is_json_a_browser_reads_with_nothing_hidden_in_it():
    data = episode_data(example_trajectory(), LoggedCredit((0.5,), 3))
    text = json.dumps(data, allow_nan=False)
    assert "\\u202e" not in text
    assert "\\u001b" not in text
    (turn,) = data["turns"]
    assert turn["credit"] == 0.5
    assert turn["calls"][0]["arguments"] == {"deep\u241b": [{"n": str(2**60), "x": "inf"}]}
    parts = turn["results"][0]["parts"]
    assert parts[1] == {"image": "data:image/png;base64,aGk="}
    assert "image/svg+xml" in parts[2]["text"]  # a document, which could hold a script
    assert (data["run"], data["verdict"], data["credit_step"]) == ("run", "solved", 3)
    assert [m["role"] for m in data["opening"]] == ["user"]


def test_an_episode_names_the_tools_that_its_agent_saw():
    own = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}}}
    tools = [{"name": "look", "description": "Look.", "parameters": {"type": "object"}}]
    assert episode_data(example_trajectory(tools=[own]))["tools"] == tools
    registered = replace(example_trajectory(), task=Task("t", "agentgym/sql-v1", "ask"))
    assert "query" in [tool["name"] for tool in episode_data(registered)["tools"]]
    assert episode_data(example_trajectory())["tools"] is None, "nobody here knows the environment"


def test_an_image_is_found_at_its_place_and_only_if_pages_show_its_kind():
    trajectory = example_trajectory()
    assert image_at(trajectory, (2, 0, 0, 1)) == ("image/png", b"hi")
    for position in (
        (2, 0, 0, 2),
        (2, 0, 0, 0),
        (2, 0, 0),
        (2, 0),
        (),
        (9,),
        (0, 0, 0),
        (1, 0, 0),
        (-2, 0, 0, 1),
        (3, 0, 0, 0),
    ):
        assert image_at(trajectory, position) is None


def test_every_token_is_in_one_span_and_only_the_agents_own_have_log_probabilities():
    trajectory = example_trajectory()
    spans = token_data(trajectory)
    assert [i for span in spans for i in span["ids"]] == trajectory.arrays().ids.tolist()
    assert [(span["kind"], span["turn"]) for span in spans] == [("prompt", -1), ("turn", 0), ("observation", 0)]
    assert spans[1]["logprobs"] == [-0.5, None]
    assert [span["kind"] for span in spans if "logprobs" in span] == ["turn"]


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_no_data_ends_the_element_it_is_embedded_in(data):
    element = data_element({"any": data})
    inside = re.fullmatch(r'<script type="application/json" id="data">(.*)</script>', element, re.DOTALL)[1]
    assert not re.search("[<>&]", inside)
    assert json.loads(inside) == {"any": data}


@pytest.mark.parametrize(
    ("text", "alarms"),
    [
        ('{"alarms": [{"step": 7, "reason": "entropy fell\\u202e"}]}', ["Step 7: entropy fell⟨U+202E⟩"]),
        ('{"alarms": [{"st', []),
        ("[]", []),
        ('{"alarms": [{"step": "x"}]}', []),
    ],
)
def test_what_the_guard_said_is_told_and_a_broken_file_tells_nothing(tmp_path, text, alarms):
    (tmp_path / "guard.json").write_text(text)
    assert run_data(read(tmp_path))["alarms"] == alarms


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(-1e6, 1e6)), max_size=300), st.integers(2, 50))
def test_thinning_keeps_the_last_point_and_the_range(points, most):
    thin = thinned([list(p) for p in sorted(points)], most)
    assert len(thin) <= max(most, 1)
    if points:
        assert thin[-1] == list(sorted(points)[-1])
        low, high = min(y for _, y in points), max(y for _, y in points)
        assert all(low - 1e-6 <= y <= high + 1e-6 for _, y in thin)


def test_the_modules_can_be_put_together_into_one_script():
    """What `script` relies on: plain imports, and no top-level name twice."""
    owners: dict[str, str] = {}
    for name in MODULES:
        text = module(name)
        for statement in re.findall(r"^import .*", text, re.MULTILINE):
            imported = re.fullmatch(r'import \{ ([\w, ]+) \} from "\./(\w+\.js)";', statement)
            assert imported, f"{name}: {statement}"
            for name_of_export in imported[1].split(", "):
                assert re.search(
                    rf"^export (?:async )?(?:function|const|class) {name_of_export}\b",
                    module(imported[2]),
                    re.MULTILINE,
                )
        assert not re.search(r"^export (?!(async )?function |const |class )|^export default", text, re.MULTILINE)
        for name_of_export in re.findall(
            r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", text, re.MULTILINE
        ):
            assert owners.setdefault(name_of_export, name) == name, (
                f"{name_of_export} stands in {owners[name_of_export]} and {name}"
            )
    joined = script()
    assert "import " not in re.sub(r"//.*", "", joined).replace("import(", "")
    assert "export " not in re.sub(r"//.*", "", joined)
    assert "</script" not in joined
    assert policy_hash(joined) in policy()


def test_no_module_parses_markup_or_runs_text():
    for name in MODULES:
        text = module(name)
        for way in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "DOMParser",
        ):
            assert way not in text, f"{name} uses {way}"


def test_a_server_gives_what_the_page_names_and_nothing_of_it_is_from_elsewhere():
    names = set(re.findall(r'(?:src|href)="/page/([^"]+)"', served()["index.html"].decode()))
    assert names == served().keys() - {"index.html"}
    assert served()["script.js"].decode() == script()
    for name, content in served().items():
        addresses = set(re.findall(rb"(?:https?:)?//[a-z0-9.-]+\.[a-z]+[^\s\"']*", content)) - {
            b"http://www.w3.org/2000/svg"
        }
        assert addresses == set(), name
