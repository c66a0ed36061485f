"""What is read of a page, one small page for each thing: long pages, frames, marks."""

from __future__ import annotations

import pytest
from web_pages import Visit, folder_of

pytestmark = [
    pytest.mark.needs_namespaces,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("browsers_end"),
]
WEB = "agentgym/web-v2"


@pytest.mark.parametrize("views", [("tree",), ("text",)])
async def test_every_row_of_a_long_table_can_be_read(tmp_path, views):
    rows = "".join(f"<tr><td>Row {n}.</td><td><a href=#>Edit</a></td></tr>" for n in range(400))
    task = folder_of(tmp_path, WEB, table=f"<h1>Rows</h1><table>{rows}</table><p>The end.</p>")
    async with await Visit.to(task, observe=views) as visit:
        seen = set()
        for _ in range(60):
            seen |= {n for n in range(400) if f"Row {n}." in visit.page}
            assert len(visit.page) < 6_800
            if "The end." in visit.page:
                break
            assert "scroll for the rest" in visit.page
            await visit.call("scroll", direction="down")
        assert seen == set(range(400))


async def test_what_does_not_fit_is_cut_and_scrolling_goes_on_there(tmp_path):
    """Also where more is in view than may be shown."""
    task = folder_of(tmp_path, WEB, dense="".join(f"<button>B{n}.</button>" for n in range(300)))
    async with await Visit.to(task, max_chars=800) as visit:
        seen = set()
        for _ in range(40):
            seen |= {n for n in range(300) if f'"B{n}."' in visit.page}
            await visit.call("scroll", direction="down")
        assert seen == set(range(300))


async def test_of_a_page_of_100000_nodes_only_what_is_in_view_is_read(tmp_path):
    cells = "document.write(Array.from({length: 25000}, (_, n) => `<p>Line ${n}. <i>x</i></p>`).join(''))"
    banner = "<div style='position:fixed;bottom:0;right:0'><button>Accept</button></div>"
    task = folder_of(tmp_path, WEB, huge=f"<script>{cells}</script>{banner}")
    async with await Visit.to(task) as visit:
        assert len(visit.page) < 4_000
        assert "Line 3." in visit.page
        assert 'button "Accept"' in visit.page, "what is placed on its own is found, too"
        await visit.environment.evaluate("scrollTo(0, document.body.scrollHeight / 2)")
        await visit.call("wait", seconds=0.0)
        assert "Line 12500." in visit.page
        assert 'button "Accept"' in visit.page
        await visit.call("press", key="End")
        await visit.call("wait", seconds=0.2)
        assert "Line 24999." in visit.page


async def test_a_list_that_scrolls_inside_the_page_and_a_very_long_text_are_read_where_they_are_in_view(tmp_path):
    items = "".join(f"<li><button>Item {n}</button></li>" for n in range(1_000))
    words = " ".join(f"word{n}" for n in range(6_000))
    task = folder_of(
        tmp_path,
        WEB,
        inner=f"<div style='height:200px;overflow:auto' aria-label=Items role=listbox>{items}</div><p>{words}</p>",
    )
    async with await Visit.to(task) as visit:
        assert 'button "Item 3"' in visit.page
        assert 'button "Item 40"' not in visit.page
        await visit.call("scroll", direction="down", element="Item 3")
        assert 'button "Item 12"' in visit.page
        assert "word5 " in visit.page
        assert "word5999" not in visit.page
        await visit.call("press", key="End")
        await visit.call("wait", seconds=0.2)
        assert "word5999" in visit.page


# ---- frames ----------------------------------------------------------------------------------------------------------

FRAMES = """<h1>Outside</h1><p style="height:300px"></p><iframe src=inner.html title=Inner
 width=400 height=200></iframe><iframe sandbox="allow-scripts" srcdoc="<label>Code <input id=c></label><button
 onclick=&quot;this.textContent='Sent '+document.querySelector('#c').value&quot;>Send</button>"></iframe>
"""
INNER = """<h2>Inside</h2><select aria-label=Way><option>air<option>sea</select><a href=next.html>Onward</a>
<iframe srcdoc="<button onclick=&quot;this.textContent='Deep '+event.button&quot;>Deepest</button>"></iframe>"""


async def test_frames_are_seen_and_acted_on_as_the_page_is(tmp_path):
    """Same-origin, nested, and one of an origin of its own."""
    task = folder_of(tmp_path, WEB, page=FRAMES, inner=INNER, next="<h2>Next</h2><iframe src=inner.html></iframe>")
    async with await Visit.to(task, observe=("tree", "text", "marks")) as visit:
        assert 'heading2 "Inside"' in visit.page
        await visit.call("type", target="Code", text="abc")
        assert 'textbox "Code"' in visit.page
        await visit.call("click", target="Send")
        assert 'button "Sent abc"' in visit.page
        await visit.call("click", target="Deepest")
        assert 'button "Deep 0"' in visit.page
        await visit.call("select", element="Way", option="sea")
        assert 'combobox "Way" value="sea"' in visit.page
        assert visit.page.count("Inside") >= 2, "in the tree and in the text"
        assert (await visit.call("click", target="Onward")).ok
        assert 'heading2 "Next"' in visit.page
        assert 'heading2 "Inside"' in visit.page


async def test_frames_of_a_long_page_are_read_where_they_are_in_view(tmp_path):
    rows = "".join(f"<p>Line {n}.</p>" for n in range(2_000))
    task = folder_of(tmp_path, WEB, page=f"<iframe src=inner.html height=300></iframe>{rows}", inner=INNER + rows)
    async with await Visit.to(task) as visit:
        assert 'heading2 "Inside"' in visit.page
        await visit.call("click", target="Deepest")
        assert 'button "Deep 0"' in visit.page
        before = visit.page
        await visit.call("scroll", direction="down", element="Inside")
        assert visit.page != before
        assert len(visit.page) < 4_000


async def test_marks_are_on_whatever_reacts_once_each(tmp_path):
    """A listener, the shape of the pointer, a parent that listens; not on plain text."""
    plain = "<p style='margin:40px'>{}</p>"
    pages = {
        "plain": plain.format("<b>Two</b> <i>words</i>"),
        "pointer": plain.format("<span style='cursor:pointer'><b>Two</b> <i>words</i></span>"),
        "parent": plain.format("<span id=one><b>Two</b> <i>words</i></span>")
        + "<script>one.addEventListener('mousedown', () => 0)</script>",
        "both": plain.format("<b tabindex=0>Two</b> <i tabindex=0>words</i>"),
    }
    pictures = {}
    for name, page in pages.items():
        (folder := tmp_path / name).mkdir()
        async with await Visit.to(folder_of(folder, WEB, page=page), observe=("screenshot", "marks")) as visit:
            pictures[name] = [part.data for part in visit.opening[-1].content[-2:]]
    assert pictures["plain"][0] == pictures["plain"][1]
    assert pictures["pointer"][1] == pictures["parent"][1] != pictures["plain"][1]
    assert pictures["both"][1] not in (pictures["parent"][1], pictures["plain"][1])


async def test_what_flows_over_the_edge_of_a_box_is_read_where_it_is_in_view(tmp_path):
    """A page whose main part has the height of the view, as many have, and much more content."""
    lines = "".join(f"<p>Line {n}. <b>x</b></p>" for n in range(1_000))
    task = folder_of(tmp_path, WEB, page=f"<style>html, body, main {{ height: 100% }}</style><main>{lines}</main>")
    async with await Visit.to(task) as visit:
        await visit.environment.evaluate("scrollTo(0, 20000)")
        await visit.call("wait", seconds=0.0)
        assert visit.page.count("Line ") > 10


async def test_pages_are_asked_to_move_little(tmp_path):
    """A dialog that slides in would be seen, and its buttons clicked, on their way."""
    async with await Visit.to(folder_of(tmp_path, WEB, page="<p>Still</p>")) as visit:
        assert await visit.environment.evaluate("matchMedia('(prefers-reduced-motion: reduce)').matches")


async def test_text_of_every_weight_has_a_size(tmp_path):
    """Chromium draws no Type 1 fonts; chosen for a weight, one made text of no size, which nothing could click."""
    weights = "".join(
        f"<p><a href=# style='font:{weight} 14px sans-serif'>Words</a></p>" for weight in range(100, 1000, 100)
    )
    async with await Visit.to(folder_of(tmp_path, WEB, page=weights)) as visit:
        widths = await visit.environment.evaluate(
            "[...document.querySelectorAll('a')].map(one => one.getBoundingClientRect().width)"
        )
        assert min(widths) > 20


@pytest.mark.parametrize(
    "style",
    [
        pytest.param("", id="plain", marks=pytest.mark.thorough),
        pytest.param("html {scroll-behavior: smooth}", id="smooth"),
    ],
)
async def test_scrolling_has_ended_before_the_page_is_read(tmp_path, style):
    """Otherwise the same actions leave the page in different states, as the machine has time or not."""
    lines = "".join(f"<p>Line {n}.</p>" for n in range(300))
    task = folder_of(tmp_path, "agentgym/web-v1", long=f"<style>{style}</style>{lines}<a href='#top'>Up</a>")
    async with await Visit.to(task) as visit:
        for tool, arguments in (
            *(("press", {"key": key}) for key in ("Space", "PageDown", "ArrowDown", "End", "PageUp", "Home")),
            ("scroll", {"direction": "down"}),
            ("scroll", {"direction": "up"}),
        ):
            await visit.call(tool, **arguments)
            key = await visit.environment.state_key()
            await visit.call("wait", seconds=0.7)
            assert await visit.environment.state_key() == key, (tool, arguments)
