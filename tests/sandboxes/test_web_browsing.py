"""What a person does with a browser, one small page for each thing, by the tools of `agentgym/web-v2`."""

from __future__ import annotations

import asyncio

import pytest
from web_pages import Visit, folder_of

import agentgym
from agentgym.messages import ResultStatus

pytestmark = [
    pytest.mark.needs_namespaces,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("browsers_end"),
]
WEB = "agentgym/web-v2"
COPY = "<label>From <input id=a value='{text}'></label><label>To <textarea id=b></textarea></label>"


# ---- the clipboard ---------------------------------------------------------------------------------------------------


async def copied(visit):
    await visit.call("click", target="From")
    await visit.call("press", key="Control+a")
    await visit.call("press", key="Control+c")


async def pasted(visit, key="Control+v"):
    await visit.call("click", target="To")
    await visit.call("press", key="Control+a")
    await visit.call("press", key=key)
    return await visit.environment.evaluate("document.querySelector('#b').value")


async def test_what_one_episode_copies_no_other_pastes(tmp_path):
    """Eight at once copy and paste their own; an episode that copied nothing pastes nothing, also a later one."""
    tasks = []
    for number in range(8):
        (folder := tmp_path / str(number)).mkdir()
        tasks.append(folder_of(folder, WEB, start=COPY.format(text=f"secret {number}")))
    visits = await asyncio.gather(*(Visit.to(task) for task in tasks))
    try:
        await asyncio.gather(*map(copied, visits))
        assert await asyncio.gather(*map(pasted, visits)) == [f"secret {number}" for number in range(8)]
        async with await Visit.to(tasks[0]) as other:
            for key in ("Control+v", "Shift+Insert", "Control+Shift+v"):
                assert await pasted(other, key) == ""
    finally:
        await asyncio.gather(*(visit.environment.close() for visit in visits))
    async with await Visit.to(tasks[0]) as later:
        assert await pasted(later) == ""


async def test_cut_the_pages_own_copy_button_and_the_clipboard_of_scripts_share_one_clipboard(tmp_path):
    task = folder_of(
        tmp_path,
        WEB,
        start=COPY.format(text="some words")
        + """<pre>in <b>bold</b></pre><button onclick="getSelection().selectAllChildren(document.querySelector('pre'));
        document.execCommand('copy')">Copy text</button>
        <button onclick="navigator.clipboard.writeText('by a script')">Write</button>
        <button onclick="navigator.clipboard.readText().then(text => document.title = text)">Read</button>
        <script>addEventListener('copy', event => { if (window.own) { event.clipboardData.setData('text/plain', own);
        event.preventDefault() } });
        addEventListener('paste', event => seen = event.clipboardData.getData('text/plain'))</script>""",
    )
    async with await Visit.to(task) as visit:
        js = visit.environment.evaluate
        await visit.call("click", target="From")
        await visit.call("press", key="Control+a")
        await visit.call("press", key="Control+x")
        assert await js("document.querySelector('#a').value") == ""
        assert await pasted(visit) == "some words"
        assert await js("seen") == "some words"
        await visit.call("click", target="Copy text")
        assert await pasted(visit) == "in bold"
        await visit.call("click", target="Write")
        assert await pasted(visit, "Shift+Insert") == "by a script"
        await js("own = 'the page decides'")
        await visit.call("press", key="Control+a")
        await visit.call("press", key="Control+c")
        await visit.call("click", target="Read")
        await visit.call("wait", seconds=0.0)
        assert "Page 'the page decides'" in visit.page


# ---- the pointer -----------------------------------------------------------------------------------------------------


async def test_what_is_covered_is_told_and_what_is_covered_in_part_is_clicked_beside(tmp_path):
    task = folder_of(
        tmp_path,
        WEB,
        page="""<button onclick="document.title='paid'">Pay</button>
        <button style="position:absolute;left:100px;top:200px;width:200px;height:40px"
         onclick="document.title='partly'">Partly</button>
        <div id=half style="position:absolute;left:150px;top:190px;width:200px;height:60px;background:#ccc">Half</div>
        <div id=banner style="position:fixed;inset:0 0 450px 0;background:#eee"
         onclick="document.title='banner'">We use cookies <button onclick="banner.remove();
         event.stopPropagation()">Accept</button></div>""",
    )
    async with await Visit.to(task) as visit:
        refused = await visit.call("click", target="Pay")
        assert refused.status is ResultStatus.TOOL_ERROR
        assert 'is covered by div "We use cookies Accept"' in refused.content
        assert await visit.environment.evaluate("document.title") == "page"
        await visit.call("click", target="Accept")
        await visit.call("click", target="Pay")
        assert "Page 'paid'" in visit.page
        await visit.call("click", target="Partly")
        assert "Page 'partly'" in visit.page


async def test_every_button_double_clicks_and_keys_held(tmp_path):
    task = folder_of(
        tmp_path,
        WEB,
        page="""<button>Target</button><script>seen = [];
        for (const type of ['click', 'dblclick', 'auxclick', 'contextmenu'])
          addEventListener(type, e => { seen.push([type, e.button, e.ctrlKey, e.shiftKey]); e.preventDefault() });
        </script>""",
    )
    async with await Visit.to(task) as visit:
        for arguments, expected in (
            ({"button": "right"}, ["contextmenu", 2, False, False]),
            ({"button": "middle"}, ["auxclick", 1, False, False]),
            ({"count": 2}, ["dblclick", 0, False, False]),
            ({"held": "Control+Shift"}, ["click", 0, True, True]),
        ):
            await visit.call("click", target="Target", **arguments)
            assert expected in await visit.environment.evaluate("seen.splice(0)")
        refused = await visit.call("click", target="Target", held="Super")
        assert "'Super' is not a modifier key" in refused.content


async def test_every_key_and_combination_reaches_the_page(tmp_path):
    task = folder_of(
        tmp_path,
        WEB,
        page="<input aria-label=Field><script>seen = []; onkeydown = e => seen.push(e.key + ' ' + e.code + ' ' +"
        " [e.altKey, e.ctrlKey, e.metaKey, e.shiftKey].map(Number).join(''))</script>",
    )
    async with await Visit.to(task) as visit:
        await visit.call("click", target="Field")
        for key, expected in (
            ("a", "a KeyA 0000"),
            ("Shift+a", "A KeyA 0001"),
            ("+", "+ Equal 0000"),
            ("Control++", "+ Equal 0100"),
            ("Shift+2", "@ Digit2 0001"),
            ("F5", "F5 F5 0000"),
            ("Control+s", "s KeyS 0100"),
            ("Alt+ArrowLeft", "ArrowLeft ArrowLeft 1000"),
            ("Control+Alt+Shift+Delete", "Delete Delete 1101"),
            ("Meta", "Meta MetaLeft 0010"),
            ("é", "é  0000"),
        ):
            await visit.call("press", key=key)
            assert (await visit.environment.evaluate("seen.splice(0)"))[-1] == expected
        assert await visit.environment.evaluate("document.querySelector('input').value") == "aA+@é"
        await visit.call("type", target="Field", text="one two")
        await visit.call("press", key="Control+Backspace")
        await visit.call("press", key="Shift+Home")
        await visit.call("press", key="x")
        await visit.call("press", key="Control+z")
        assert await visit.environment.evaluate("document.querySelector('input').value") == "one "
        refused = await visit.call("press", key="Enterr")
        assert "'Enterr' is no key" in refused.content


DND = """<div id=card draggable=true style="width:80px;height:40px;background:#ddd">Card</div>
<div id=zone style="margin-top:100px;width:200px;height:80px;background:#eee">Zone</div><script>
log = []; card.ondragstart = e => e.dataTransfer.setData('text/plain', 'the card');
card.ondragend = () => log.push('end');
zone.ondragover = e => e.preventDefault(); zone.ondrop = e => log.push(e.dataTransfer.getData('text/plain'));
</script>"""


async def test_an_html_drag_arrives_every_time(tmp_path):
    task = folder_of(tmp_path, WEB, page=DND)
    async with await Visit.to(task) as visit:
        for _ in range(10):
            await visit.call("drag", path=[visit.number('text "Card"'), [50, 200]])
        assert await visit.environment.evaluate("log") == ["the card", "end"] * 10


async def test_a_drag_follows_a_path(tmp_path):
    task = folder_of(
        tmp_path, WEB, page="<script>seen = []; onmousemove = e => e.buttons && seen.push([e.x, e.y])</script>"
    )
    async with await Visit.to(task) as visit:
        await visit.call("drag", path=[[10, 10], [100, 10], [100, 100]])
        seen = await visit.environment.evaluate("seen")
        assert [100, 10] in seen
        assert seen[-1] == [100, 100]


# ---- dialogs, tabs, files, history -----------------------------------------------------------------------------------


async def test_confirmations_and_prompts_are_answered_by_choice(tmp_path):
    task = folder_of(
        tmp_path,
        WEB,
        page="""<button onclick="document.title = confirm('Delete?') ? 'deleted' : 'kept'">Delete</button>
        <button onclick="document.title = String(prompt('Your name?', 'Bo')) + (confirm('Sure?') ? '!' : '?')">
        Name</button>
        <button onclick="alert('Hello')">Greet</button>""",
    )
    async with await Visit.to(task) as visit:
        await visit.call("click", target="Delete")
        assert "The page asks (confirm): 'Delete?'. Answer it with dialog." in visit.page
        refused = await visit.call("click", target="Greet")
        assert "waits for an answer" in refused.content
        await visit.call("dialog", accept=False)
        assert "Page 'kept'" in visit.page
        await visit.call("click", target="Delete")
        await visit.call("dialog", accept=True)
        assert "Page 'deleted'" in visit.page
        await visit.call("click", target="Name")
        assert "The page asks (prompt): 'Your name?' (default 'Bo')" in visit.page
        await visit.call("dialog", accept=True, text="Ada")
        assert "The page asks (confirm): 'Sure?'" in visit.page
        checkpoint = await visit.environment.checkpoint()
        await visit.call("dialog", accept=True)
        assert "Page 'Ada!'" in visit.page
        twin = agentgym.make(WEB)
        try:
            await twin.restore(task, checkpoint, seed=0)
            assert "Ada?" in (await twin.dialog(False))
        finally:
            await twin.close()
        await visit.call("click", target="Greet")
        assert "The page said: 'Hello'" in visit.page
        refused = await visit.call("dialog", accept=True)
        assert "No dialog is open" in refused.content
        await visit.call("click", target="Delete")
        assert (await visit.call("answer")).final, "an open dialog does not keep an episode from ending"


async def test_tabs_are_opened_switched_and_closed(tmp_path):
    task = folder_of(
        tmp_path,
        WEB,
        first="<button onclick=\"window.open('second.html')\">New</button>",
        second="<button onclick='window.close()'>Close me</button>",
    )
    async with await Visit.to(task) as visit:
        refused = await visit.call("tab", do="close")
        assert "only tab cannot be closed" in refused.content
        await visit.call("click", target="New")
        assert "second.html (tab 2 of 2)" in visit.page
        await visit.call("tab", do="open")
        assert "first.html (tab 3 of 3)" in visit.page
        await visit.call("tab", do="close", number=1)
        assert "first.html (tab 2 of 2)" in visit.page
        await visit.call("tab", do="switch", number=1)
        assert "second.html (tab 1 of 2)" in visit.page
        await visit.call("click", target="Close me")
        assert "first.html\n" in visit.page, "a page may close its own tab"
        assert "second" not in visit.page


async def test_back_forward_reload_and_addresses_of_the_site(tmp_path):
    task = folder_of(
        tmp_path,
        WEB,
        first="<input aria-label=Field><a href=second.html>On</a>",
        second="<h1>Second</h1>",
    )
    async with await Visit.to(task) as visit:
        await visit.call("click", target="On")
        await visit.call("go", to="back")
        assert "first.html" in visit.page
        await visit.call("go", to="forward")
        assert "second.html" in visit.page
        assert "no page to go forward to" in (await visit.call("go", to="forward")).content
        await visit.call("go", to="first.html")
        await visit.environment.evaluate("document.title = 'changed'")
        await visit.call("go", to="reload")
        assert "Page 'first'" in visit.page
        await visit.call("go", to="http://pages.test/second.html#x")
        assert "second.html#x" in visit.page
        for address in (
            "http://example.org/",
            "file:///etc/passwd",
            "chrome://version",
            "javascript:alert(1)",
            "//shop.test",
        ):
            refused = await visit.call("go", to=address)
            assert "only pages of http://pages.test/ can" in refused.content, address


async def test_files_are_uploaded_and_downloaded_and_a_judge_sees_them(tmp_path):
    (tmp_path / "report.csv").write_text("a,b\n1,2\n")
    task = folder_of(
        tmp_path,
        WEB,
        {"files": {"notes.txt": "My notes.", "plan b.md": "Plan."}},
        page="""<input type=file multiple aria-label=Files onchange="show(this.files)">
        <button onclick="chosen.click()">Attach</button><input type=file id=chosen hidden onchange="show(this.files)">
        <a href=report.csv download>Get report</a>
        <button onclick="const a = document.createElement('a'); a.download = 'made.txt';
        a.href = window.URL.createObjectURL(new Blob(['made here'])); a.click()">Export</button>
        <script>async function show(files) { document.title = (await Promise.all([...files].map(async f =>
        f.name + '=' + await f.text()))).join('; ') }</script>""",
    )
    async with await Visit.to(task) as visit:
        refused = await visit.call("upload", element="Files", files=["passwd"])
        assert "There is no file 'passwd'. Files: notes.txt, plan b.md." in refused.content
        await visit.call("upload", element="Files", files=["notes.txt", "plan b.md"])
        await visit.call("wait", seconds=0.1)
        assert "Page 'notes.txt=My notes.; plan b.md=Plan.'" in visit.page
        await visit.call("click", target="Get report")
        assert "Downloaded 'report.csv' (8 bytes)" in visit.page
        await visit.call("click", target="Export")
        assert "Downloaded 'made.txt' (9 bytes)" in visit.page
        await visit.call("click", target="Attach")
        assert "The page asks for a file: give it with upload." in visit.page
        await visit.call("upload", element="Attach", files=["made.txt"])
        await visit.call("wait", seconds=0.1)
        assert "Page 'made.txt=made here'" in visit.page
        end = await visit.call("answer")
        assert '"downloads": {"made.txt": "made here", "report.csv": "a,b\\n1,2\\n"}' in end.content
