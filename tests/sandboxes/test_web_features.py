"""What a page of one's own may be made of, each on a small page: an action, and what the page made of it."""

from __future__ import annotations

import pytest
from web_pages import Visit, folder_of

pytestmark = [
    pytest.mark.needs_namespaces,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("browsers_end"),
]
DONE = "document.title = 'done'"
ONCE_DONE = """new Promise(answer => {
  const look = () => document.title === 'done' ? answer('done') : setTimeout(look, 10);
  look();
})"""
PAGES = {
    "shadow roots": (
        f"<div id=host></div><script>host.attachShadow({{mode: 'open'}}).innerHTML = '<button>Go</button>';"
        f"host.shadowRoot.firstChild.onclick = () => {DONE}</script>",
        ("click", {"target": "Go"}),
    ),
    "text that can be edited": (
        f"<div contenteditable role=textbox aria-label=Note oninput=\"if (this.innerText === 'Ada') {DONE}\">old</div>",
        ("type", {"target": "Note", "text": "Ada"}),
    ),
    "a canvas": (
        "<body style='margin:0'><canvas width=200 height=100></canvas><script>"
        f"document.querySelector('canvas').onclick = e => {{ if (e.offsetX === 150) {DONE} }}</script>",
        ("click", {"target": [150, 50]}),
    ),
    "addresses that a script changes": (
        "<button onclick=\"history.pushState(0, '', '?page=2'); if (location.search) " + DONE + '">Go</button>',
        ("click", {"target": "Go"}),
    ),
    "modules": (
        "<button>Go</button><script type=module>const {title} = await import("
        "'data:text/javascript,export const title = \"done\"');"
        "document.querySelector('button').onclick = () => document.title = title</script>",
        ("click", {"target": "Go"}),
    ),
    "requests of a script": (
        "<button onclick=\"fetch('other.html').then(r => r.text())"
        '.then(t => document.title = t.match(/done/)[0])">Go</button>',
        ("click", {"target": "Go"}),
    ),
    "workers": (
        "<button onclick=\"new Worker(window.URL.createObjectURL(new Blob(['postMessage(6 * 7)']))).onmessage = "
        f'e => {{ if (e.data === 42) {DONE} }}">Go</button>',
        ("click", {"target": "Go"}),
    ),
}


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_may_have(tmp_path, name):
    page, (tool, arguments) = PAGES[name]
    async with await Visit.to(folder_of(tmp_path, "agentgym/web-v2", page=page, other="done")) as visit:
        result = await visit.call(tool, **arguments)
        assert result.ok, result.content
        assert await visit.environment.evaluate(ONCE_DONE) == "done"
