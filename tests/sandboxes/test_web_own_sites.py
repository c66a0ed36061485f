"""Sites of one's own: folders as static hosts serve them, and applications that are started in the sandbox."""

from __future__ import annotations

import json
import textwrap

import pytest
from web_pages import PAGE, Visit, folder_of

import agentgym
from agentgym import EpisodeManager, JudgeError, MissingExtraError, RolloutConfig, SandboxDied, ScriptedPolicy, Task
from agentgym.errors import TaskError
from agentgym.messages import Message
from agentgym.registry import load_reward

pytestmark = [
    pytest.mark.needs_namespaces,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("browsers_end"),
]
WEB = "agentgym/web-v2"
APP = """
    import http.server, json, os, sqlite3, time, urllib.parse

    PAGES = {
        "/frames": "<h1>Outside</h1><iframe src=/first></iframe>",
        "/first": "<a href=/next>Onward</a>",
        "/next": "<h2>Next</h2><iframe src=/slow></iframe>",
        "/slow": "<h3>Inside</h3>...<h4>Last</h4>",
    }

    class Todo(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        def answer(self, body, status=200, **headers):
            self.send_response(status)
            parts = body.split("...")  # what comes after dots comes later
            length = sum(map(len, parts))
            for name, value in {"Content-Type": "text/html", "Content-Length": length, **headers}.items():
                self.send_header(name.replace("_", "-"), str(value))
            self.end_headers()
            for number, part in enumerate(parts):
                time.sleep(0.2 * (number > 0))
                self.wfile.write(part.encode())
        def do_GET(self):
            if self.path == "/die":
                print("dying")
                os._exit(3)
            if self.path in PAGES:
                return self.answer(PAGES[self.path])
            rows = sqlite3.connect("db").execute("SELECT text FROM todo").fetchall()
            seen = self.headers.get("Cookie", "none")
            items = "".join(f"<li>{text}</li>" for text, in rows)
            self.answer(f"<title>Todo</title><p>Cookie: {seen}</p><ul>{items}</ul>"
                "<form method=post action=/add><label>New <input name=text></label><button>Add</button></form>"
                "<button onclick=\\"fetch('/api', {method: 'DELETE'}).then(r => r.text()).then(t => document.title = t)"
                "\\">Clear</button>", Set_Cookie="user=ada")
        def do_POST(self):
            fields = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            with sqlite3.connect("db") as db:
                db.execute("INSERT INTO todo (text) VALUES (?)", fields["text"])
            self.answer("", 303, Location="/")
        def do_DELETE(self):
            with sqlite3.connect("db") as db:
                db.execute("DELETE FROM todo")
            self.answer("cleared")

    if __name__ == "__main__":
        http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Todo).serve_forever()
"""
SETUP = """
    import json, sqlite3
    with sqlite3.connect("db") as db:
        db.execute("CREATE TABLE todo (id INTEGER PRIMARY KEY, text TEXT)")
        db.executemany("INSERT INTO todo (text) VALUES (?)", [(text,) for text in json.load(open("data.json"))["todo"]])
"""
STATE = """
    import json, sqlite3
    print(json.dumps({"todo": dict(sqlite3.connect("db").execute("SELECT id, text FROM todo").fetchall())}))
"""


@pytest.fixture
def app(tmp_path):
    for name, code in (("app", APP), ("prepare", SETUP), ("state", STATE)):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(code))
    return {
        "site": "server",
        "folder": str(tmp_path),
        "command": ["python3", "app.py"],
        "setup": ["python3", "prepare.py"],
        "state": ["python3", "state.py"],
        "data": {"todo": ["Buy milk"]},
    }


def task_of(parameters, **truth):
    return Task("own", WEB, "Do it.", parameters=parameters, truth=truth)


async def outcome(visit):
    end = await visit.call("answer")
    return json.loads(end.content.partition("\n")[2])


async def test_an_application_is_started_for_each_episode_and_its_changes_are_the_effects(app):
    async with await Visit.to(task_of(app)) as visit, await Visit.to(task_of(app)) as other:
        assert "Page 'Todo' http://app.test/" in visit.page
        assert "Buy milk" in visit.page
        await visit.call("type", target="New", text="Call Bo")
        await visit.call("click", target="Add")
        assert "Call Bo" in visit.page
        assert "Cookie: user=ada" in visit.page
        await other.call("click", target="Clear")
        await other.call("wait", seconds=0.1)
        assert "Page 'cleared'" in other.page
        checkpoint = await visit.environment.checkpoint()
        assert (await outcome(visit))["effects"] == {"todo": {"2": "Call Bo"}}
        assert (await outcome(other))["effects"] == {"todo": {"1": None}}
    twin = agentgym.make(WEB)
    try:
        await twin.restore(task_of(app), checkpoint, seed=0)
        async with Visit(twin, [Message("user", "")]) as visit:
            assert (await outcome(visit))["effects"] == {"todo": {"2": "Call Bo"}}
    finally:
        await twin.close()


async def test_an_episode_on_an_application_is_judged_by_its_effects(app):
    task = task_of(app, effects={"todo": {"2": "Call Bo"}})
    for text, success in ("call  bo", 1.0), ("Call Al", 0.0):
        script = [
            Message("assistant", "", (agentgym.Call("type", {"target": "New", "text": text}),)),
            Message("assistant", "", (agentgym.Call("click", {"target": "Add"}),)),
            Message("assistant", "", (agentgym.Call("answer", {}),)),
        ]
        [episode] = await EpisodeManager(lambda _, script=script: ScriptedPolicy(script)).collect([task])
        assert episode.error is None
        assert episode.success == success


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"command": ["python3", "no.py"]}, "its command ended with 2: .*No such file"),
        ({"command": ["no-such-program"]}, "its command \\['no-such-program'\\] cannot be started"),
        ({"command": ["sleep", "9"], "start_s": 0.3}, "does not listen on 127.* after 0.3 s: it printed nothing"),
        (
            {"setup": ["python3", "-c", "raise SystemExit('no database')"]},
            "its setup command .* ended with 1: no database",
        ),
        ({"state": ["echo", "x"]}, "its state command printed no JSON"),
        ({"page": "/die"}, "when its first page was asked for, its command ended with 3: dying"),
        ({"command": "python3 app.py"}, "parameters\\['command'\\] must be a list of texts, not 'python3 app.py'"),
        ({"command": []}, "parameters\\['command'\\] is missing"),
    ],
)
async def test_an_application_that_does_not_start_is_named_when_the_episode_begins(app, change, complaint):
    environment = agentgym.make(WEB)
    try:
        with pytest.raises(TaskError, match=complaint):
            await environment.reset(task_of({**app, **change}), seed=0)
        await environment.reset(task_of(app), seed=0)
    finally:
        await environment.close()


async def test_a_package_that_is_not_installed_is_named_and_one_that_is_can_be_imported(app, tmp_path):
    environment = agentgym.make(WEB)
    try:
        with pytest.raises(
            MissingExtraError, match="'no-such-package' is not installed\\. Run: pip install no-such-package"
        ):
            await environment.reset(task_of({**app, "packages": ["no-such-package"]}), seed=0)
        (tmp_path / "prepare.py").write_text("import annotated_types\n" + textwrap.dedent(SETUP))
        await environment.reset(task_of({**app, "packages": ["pydantic"]}), seed=0)
    finally:
        await environment.close()


async def test_a_frame_inside_a_frame_that_went_to_another_page_is_waited_for(app):
    async with await Visit.to(task_of({**app, "page": "/frames"})) as visit:
        assert (await visit.call("click", target="Onward")).ok
        assert 'heading2 "Next"' in visit.page
        assert 'heading4 "Last"' in visit.page


async def test_an_application_that_dies_is_told_to_the_agent_and_in_the_end_state(app):
    async with await Visit.to(task_of(app)) as visit:
        await visit.call("go", to="/die")
        assert "The application does not answer" in visit.page
        end = await outcome(visit)
        assert end["effects"] == {}
        assert end["application"].startswith("its command ended with 3: ")


async def test_a_state_that_the_agent_has_spoiled_is_its_failure(app, tmp_path):
    """The hook worked when the application was set up; the agent's row has no text that it could print."""
    (tmp_path / "state.py").write_text(textwrap.dedent(STATE) + "assert 'poison' not in str(open('db', 'rb').read())\n")
    task = task_of(app, effects={"todo": {"2": "poison"}})
    script = [
        Message("assistant", "", (agentgym.Call("type", {"target": "New", "text": "poison"}),)),
        Message("assistant", "", (agentgym.Call("click", {"target": "Add"}),)),
        Message("assistant", "", (agentgym.Call("answer", {}),)),
    ]
    [episode] = await EpisodeManager(lambda _: ScriptedPolicy(script)).collect([task])
    assert (episode.error, episode.success) == (None, 0.0)
    assert "its state command" in json.loads(episode.turns[-1].results[0].content.partition("\n")[2])["failed"]


async def test_a_page_on_which_the_state_script_fails_is_the_agents_failure_and_a_script_that_is_none_is_an_error(
    tmp_path,
):
    parameters = {"state": "({count: count})"}
    task = folder_of(tmp_path, WEB, parameters, one="<script>var count = 1</script><a href=two.html>Two</a>", two="")
    task = Task(task.id, WEB, task.prompt, parameters=task.parameters, truth={"effects": {}, "answer": "yes"})
    answer = Message("assistant", "", (agentgym.Call("answer", {"text": "yes"}),))
    script = [Message("assistant", "", (agentgym.Call("click", {"target": "Two"}),)), answer]
    [episode] = await EpisodeManager(lambda _: ScriptedPolicy(script)).collect([task])
    assert (episode.error, episode.success) == (None, 0.0)
    broken = folder_of(tmp_path, WEB, {"state": "({count: "}, one="", two="")
    environment = agentgym.make(WEB)
    try:
        with pytest.raises(TaskError, match="its state script is not valid JavaScript: SyntaxError"):
            await environment.reset(broken, seed=0)
    finally:
        await environment.close()


async def test_a_page_that_crashes_before_the_end_is_loaded_anew_and_judged(tmp_path):
    parameters = {"state": "({count: Number(localStorage.count)})"}
    page = "<button onclick='localStorage.count = 1'>Count</button>"
    async with await Visit.to(folder_of(tmp_path, WEB, parameters, one=page)) as visit:
        await visit.call("click", target="Count")
        with pytest.raises(SandboxDied):
            await visit.environment._ask({"do": "crash"})
        assert (await outcome(visit))["effects"] == {"count": 1}


async def test_a_click_waits_for_an_element_that_has_no_size_while_its_image_loads(tmp_path):
    body = """<button onclick="document.title = 'clicked'" onmouseenter="if (this.late) return; this.late = true;
        this.style.display = 'none'; setTimeout(() => this.style.display = '', 600)">Go</button>"""
    async with await Visit.to(folder_of(tmp_path, WEB, one=body)) as visit:
        await visit.call("click", target=visit.number('button "Go"'))
        assert await visit.environment.evaluate("document.title") == "clicked"


async def test_a_page_that_replaces_the_timers_of_the_browser_is_shown_all_the_same(tmp_path):
    task = folder_of(tmp_path, WEB, one="<script>setTimeout = () => 0</script><h1>Still</h1>")
    async with await Visit.to(task) as visit:
        assert "Still" in visit.page
        assert "did not answer" not in (await visit.call("scroll", direction="down")).content


async def test_a_folder_is_served_as_a_host_of_static_sites_does(tmp_path):
    for name in ("index", "about", "guide/index", "404"):
        (tmp_path / f"{name}.html").parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.html").write_text(PAGE.format(title=name, body="<a href=next.html>Next</a>"))
    (tmp_path / "guide/next.html").write_text(
        PAGE.format(title="next", body="<form method=post><button>Send</button></form>")
    )
    (tmp_path / "notes.txt").write_text("Grüße.\n", encoding="utf-8")
    task = folder_of(tmp_path, WEB, {"page": "guide"}, extra="")
    async with await Visit.to(task) as visit:
        assert "Page 'guide/index' http://pages.test/guide/" in visit.page
        await visit.call("click", target="Next")
        assert "Page 'next'" in visit.page, "relative links of an index file lead on"
        await visit.call("click", target="Send")
        assert "nothing can be sent to it" in visit.page
        head = (
            "fetch('/notes.txt', {method: 'HEAD'}).then(answer => answer.status + answer.headers.get('Content-Length'))"
        )
        assert await visit.environment.evaluate(head) == "2009"
        await visit.call("go", to="/notes.txt")
        assert "Grüße" in visit.page
        for address, title in (("/", "index"), ("/about", "about"), ("/nowhere", "404")):
            await visit.call("go", to=address)
            assert f"Page '{title}'" in visit.page
        end = await visit.call("answer")
        assert '"url": "http://pages.test/nowhere"' in end.content


async def test_a_first_page_that_does_not_exist_is_an_error_of_the_task(tmp_path):
    task = folder_of(tmp_path, WEB, {"page": "strat.html"}, start="")
    environment = agentgym.make(WEB)
    with pytest.raises(TaskError, match=r"has no page 'strat\.html'"):
        await environment.reset(task, seed=0)
    await environment.close()


@pytest.mark.parametrize(
    ("truth", "answer", "success"),
    [
        ({"url": "/two.html"}, "", 1.0),
        ({"url": "/one.html"}, "", 0.0),
        ({"url": "/two.html", "answer": "5"}, "5.0", 1.0),
        ({"answer": "5"}, "nonsense", 0.0),
        ({"effects": {"count": 1}}, "", 1.0),
        ({"effects": {"count": 2}}, "", 0.0),
    ],
)
async def test_a_folder_is_judged_by_address_answer_and_what_its_script_says(tmp_path, truth, answer, success):
    task = folder_of(
        tmp_path,
        WEB,
        {"state": "({count: Number(localStorage.count)})"},
        one="<a href=two.html onclick='localStorage.count = 1'>Two</a>",
        two="",
    )
    task = Task(task.id, WEB, task.prompt, parameters=task.parameters, truth=truth)
    script = [
        Message("assistant", "", (agentgym.Call("click", {"target": "Two"}),)),
        Message("assistant", "", (agentgym.Call("answer", {"text": answer}),)),
    ]
    [episode] = await EpisodeManager(lambda _: ScriptedPolicy(script)).collect([task])
    assert episode.success == success


@pytest.mark.parametrize(
    ("truth", "complaint"),
    [
        ({"effects": {}}, "needs parameters\\['state'\\]"),
        ({"page": True}, "works only for MiniWoB"),
        ({"other": 1}, "the truth has nothing to judge"),
    ],
)
async def test_a_truth_that_the_site_can_never_meet_is_an_error_and_not_a_zero(tmp_path, truth, complaint):
    task = folder_of(tmp_path, WEB, one="")
    [episode] = await EpisodeManager(
        lambda _: ScriptedPolicy([Message("assistant", "done")]), RolloutConfig(reward=None)
    ).collect([task])
    episode.task = Task(task.id, WEB, task.prompt, parameters=task.parameters, truth=truth)
    with pytest.raises(JudgeError, match=complaint):
        load_reward("web").outcome(episode)


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({}, "parameters\\['site'\\] is None"),
        ({"site": "shop"}, "parameters\\['data'\\] must be .* not None"),
        ({"site": "miniwob"}, "parameters\\['page'\\] is ''"),
        ({"site": "folder", "page": "a.html", "folder": "/no/such/place"}, "'/no/such/place' does not exist\\.$"),
        ({"site": "folder", "page": "a.html", "folder": "no/such"}, "'no/such' does not exist in /"),
        ({"site": "folder", "page": "a.html"}, "parameters\\['folder'\\] is None. Give the folder of the pages"),
        ({"site": "server", "command": ["serve"]}, "parameters\\['folder'\\] is None. Give the folder of the applica"),
        (
            {"site": "folder", "page": "a.html", "folder": ".", "command": ["serve"]},
            "\\['command'\\] apply only to the site",
        ),
        (
            {"site": "folder", "page": "a.html", "folder": ".", "state": ["sh"]},
            "'state'\\] must be the text of a JavaScript, not \\['sh'\\]",
        ),
        ({"site": "folder", "page": 5, "folder": "."}, "parameters\\['page'\\] is 5. Give the address"),
        (
            {"site": "server", "folder": ".", "page": "http://app.test"},
            "parameters\\['page'\\] is 'http.*without its host",
        ),
        (
            {"site": "form", "data": {"day": {1}}},
            "parameters\\['data'\\] has a value that JSON does not have: .* set is not",
        ),
        ({"site": "form", "data": {"share": float("nan")}}, "has a value that JSON does not have"),
        ({"site": "form", "data": {}, "seed": "x"}, "parameters\\['seed'\\] must be a whole number, not 'x'"),
        ({"site": "form", "data": {}, "viewport": [1, 1]}, "parameters\\['viewport'\\]"),
        ({"site": "form", "data": {}, "host": 5, "pages": "a"}, "unknown parameters \\['pages'\\]. Known: site, data"),
        *(
            (
                {"site": "folder", "page": "a.html", "folder": ".", "host": host},
                "parameters\\['host'\\] is .*Give a host name",
            )
            for host in (
                "",
                5,
                "App.test",
                "app.test:80",
                "http://app.test",
                "127.0.0.1",
                "a..b",
                "-a.test",
                "a.test\n",
            )
        ),
    ],
)
async def test_a_task_without_a_usable_site_is_refused_by_name(parameters, complaint):
    environment = agentgym.make("agentgym/web-v1")
    with pytest.raises(TaskError, match=complaint):
        await environment.reset(Task("t", "agentgym/web-v1", "Q?", parameters=parameters), seed=0)
    await environment.close()
