"""Photographed pages: the boxes are where the browser drew, no photograph is in two strata, and floors are low."""

from __future__ import annotations

import hashlib
import io
import random
import re
import zipfile
from collections import Counter, defaultdict

import pytest
from PIL import Image

from agentgym import EpisodeManager, RolloutConfig, ScriptedPolicy, Task, make
from agentgym.errors import SandboxUnavailable, TaskError
from agentgym.registry import close_backends, load, load_task_set
from agentgym.rewards.boxes import inside, overlap
from agentgym.sandboxes.gui import close_browsers
from agentgym.sandboxes.gui.browsers import chromium
from agentgym.tasks.pages.camera import elements_of, photograph
from agentgym.tasks.pages.photographs import Element, Photograph, photographs, picture, read_index, write
from agentgym.tasks.pages.questions import questions_of
from agentgym.tasks.pages.visits import Stop, Visit

PAGES = "gui/pages-v1"


@pytest.fixture(scope="module")
def pages():
    return load_task_set(PAGES)


async def play(tasks, player):
    return await EpisodeManager(lambda task: ScriptedPolicy(player(task)), RolloutConfig(concurrency=8)).collect(tasks)


async def test_the_oracle_solves_every_kind_of_task_and_the_imperfect_oracle_none(pages):
    first = {task.tags[:2]: task for task in [*pages["train"], *pages["held_out"]]}
    tasks = list(first.values())
    assert [t.success for t in await play(tasks, pages.oracle)] == [1.0] * len(tasks)
    assert [t.success for t in await play(tasks, pages.imperfect_oracle)] == [0.0] * len(tasks)


def test_floors_of_pointing_without_looking(pages):
    sizes = {page.name: page.size for page in photographs()}
    tasks = [*pages["train"], *pages["held_out"]]
    rng = random.Random(0)
    hits, middle = 0, 0
    for task in tasks:
        width, height = sizes[task.parameters["screen"]["name"]]
        hits += inside((rng.randrange(width), rng.randrange(height)), task.truth["box"])
        middle += inside((width / 2, height / 2), task.truth["box"])
    assert hits / len(tasks) < 0.02
    assert middle / len(tasks) < 0.02


def test_who_knows_the_training_pages_by_heart_and_looks_at_none_finds_little(pages):
    """Answers each question with the point that was right most often where the same was asked in training."""
    boxes = defaultdict(list)
    for task in pages["train"]:
        boxes[asked_for(task)].append(task.truth["box"])
    for stratum in ("validation", "unseen_worlds", "unseen_site"):
        tasks = [task for task in [*pages["validation"], *pages["held_out"]] if stratum in task.tags]
        hits = 0
        for task in tasks:
            known = boxes[asked_for(task)]
            points = [((left + right) / 2, (top + bottom) / 2) for left, top, right, bottom in known]
            if points:
                best = max(points, key=lambda point: sum(inside(point, box) for box in known))
                hits += inside(best, task.truth["box"])
        assert hits / len(tasks) < 0.15, stratum


def asked_for(task: Task) -> str:
    return re.sub(r"^(Point at|Where is|Click|Find) |[.?]$", "", task.prompt)


def test_what_is_held_out_is_never_seen_in_training(pages):
    names_by_stratum, digests = defaultdict(set), {}
    for page in photographs():
        digest = hashlib.sha256(picture(page.name)).hexdigest()
        assert digest not in digests, f"{page.name} shows what {digests[digest]} shows"
        digests[digest] = page.name
        names_by_stratum[page.stratum].add(page.site)
    assert "forum" not in names_by_stratum["train"] | names_by_stratum["validation"]
    assert names_by_stratum["unseen_site"] == {"forum"}
    assert {task.tags[1] for task in pages["held_out"] if "unseen_questions" in task.tags} == {"beside"}
    assert "beside" not in {task.tags[1] for task in pages["train"]}


def test_every_box_holds_something_that_is_drawn():
    for page in photographs()[::3]:
        screenshot = Image.open(io.BytesIO(picture(page.name))).convert("RGB")
        assert screenshot.size == page.size
        for element in page.elements:
            left, top, right, bottom = element.box
            assert 0 <= left < right <= page.size[0]
            assert 0 <= top < bottom <= page.size[1]
            colours = len(screenshot.crop(element.box).getcolors(100_000))
            assert colours > (1 if element.role == "textbox" else 3), (page.name, element)  # an empty field is a frame


def test_a_question_has_one_answer():
    for page in photographs():
        questions = questions_of(page)
        assert max(Counter(form for question in questions for form in question.forms).values(), default=0) <= 1
        for question in questions:
            if question.kind in ("link", "button", "field"):
                alike = [e for e in page.elements if (e.role, e.name) == (question.element.role, question.element.name)]
                assert len(alike) == 1


def listed() -> Photograph:
    """A list of two things with a heading above it, as an application would show it."""
    rows = [
        ("columnheader", "Product", (0, 0, 90, 20)),
        ("columnheader", "Price", (100, 0, 190, 20)),
        ("link", "Alpine Kettle", (5, 25, 60, 35)),
        ("cell", "12.50", (100, 20, 190, 40)),
        ("button", "Remove", (200, 22, 250, 38)),
        ("link", "Silent Pan", (5, 45, 60, 55)),
        ("cell", "12.50", (100, 40, 190, 60)),
        ("button", "Remove", (200, 42, 250, 58)),
    ]
    return Photograph("0000", "train", "shop", (260, 60), tuple(Element(*row) for row in rows))


def test_things_of_a_list_are_told_by_their_row_and_column():
    boxes = {question.forms[0]: question.element.box for question in questions_of(listed())}
    assert boxes['Point at what the column "Price" says of "Silent Pan".'] == (100, 40, 190, 60)
    assert boxes['Point at the link "Alpine Kettle".'] == (5, 25, 60, 35)
    assert not [form for form in boxes if '"Remove"' in form or '"12.50"' in form], "there are two of each"


def test_what_is_broken_over_lines_cut_off_or_nameless_is_left_out():
    boxes = [
        [1, "link", 'link "Whole"', [10, 10, 50, 24.4]],
        [2, "link", 'link "Broken"', [60.2, 10, 90, 24]],
        [3, "link", 'link "Below"', [10, 90, 50, 104]],
        [4, "table", "table", [0, 0, 99, 99]],
        [5, "heading", 'heading1 "Top"', [0, 30, 99, 50]],
    ]
    elements = elements_of(boxes, [(60.0, 10.0)], (100, 100))
    assert elements == [Element("link", "Whole", (10, 10, 50, 24)), Element("heading", "Top", (0, 30, 99, 50))]


def test_an_archive_is_read_as_it_was_written(tmp_path):
    write(tmp_path / "one.zip", [(listed(), b"picture")])
    write(tmp_path / "two.zip", [(listed(), b"picture")])
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert read_index(archive.read("pages.json")) == (listed(),)
        assert archive.read("0000.webp") == b"picture"


async def test_a_page_that_there_is_not_is_named():
    with pytest.raises(TaskError, match="There is no page '9999'"):
        load("assets", "gui/pages")("9999")
    task = Task("t", "agentgym/ground-v1", "?", parameters={"screen": {"asset": "gui/pages", "name": "x"}})
    with pytest.raises(TaskError, match="There is no page 'x'"):
        await make("agentgym/ground-v1").reset(task, seed=0)


@pytest.mark.needs_namespaces
async def test_chromium_says_where_its_elements_are():
    """A photograph taken now: buttons and fields of a form lie where they are drawn."""
    try:
        chromium()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    data = {"title": "Form", "fields": [{"kind": "text", "name": "city", "label": "City"}], "buttons": ["Save", "Send"]}
    environment = make("agentgym/web-v1", observe=("screenshot",))
    try:
        visit = Visit("form", data, (480, 240), (Stop("/", "button { background: #f00; border: 0 }", 0),))
        [(elements, image)] = await photograph(environment, visit)
    finally:
        await environment.close()
        await close_browsers()
        await close_backends()
    screenshot = Image.open(io.BytesIO(image)).convert("RGB")
    where = {element.name: element.box for element in elements}
    assert where.keys() >= {"City", "Save", "Send", "Form"}
    red = [(x, y) for x in range(480) for y in range(240) if screenshot.getpixel((x, y)) == (255, 0, 0)]
    for name in ("Save", "Send"):
        mine = [point for point in red if inside(point, where[name])]
        painted = (min(mine)[0], min(y for _, y in mine), max(mine)[0] + 1, max(y for _, y in mine) + 1)
        assert overlap(painted, where[name]) > 0.85
    assert overlap(where["Save"], where["Send"]) == 0.0
