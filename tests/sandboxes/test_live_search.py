"""The live web, as far as a machine without one can show: real servers on the loopback, behind the real proxy."""

from __future__ import annotations

import http.server
import threading
import time

import pytest

from agentgym import Call, Task
from agentgym.messages import ResultStatus
from agentgym.sandboxes.search import LiveSearch
from agentgym.sandboxes.search.html_text import read_html
from agentgym.sandboxes.search.live import MAX_BYTES

HOME = """<html><head><title>Lamp &amp; oil</title><style>p {color: red}</style></head><body>
<h1>Lamps</h1><p>Made by <a href="/ida?x=1">Ida <b>Berg</b></a>.<script>document.write('no')</script></p>
<ul><li>one</li><li><a href="http://other.test/">elsewhere</a></li></ul></body></html>"""


class Site(http.server.BaseHTTPRequestHandler):
    """Pages by path."""

    def do_GET(self):
        path = self.path.partition("?")[0]
        status, kind, body, headers = {
            "/": (200, "text/html", HOME.encode(), {}),
            "/ida": (200, "text/html; charset=utf-8", "<p>Ida was born in Ålmhåm.</p>".encode(), {}),
            "/plain": (200, "text/plain", b"just text", {}),
            "/picture": (200, "image/png", b"\x89PNG", {}),
            "/long": (200, "text/html", b"<p>word " * 900_000, {}),
            "/away": (302, "text/html", b"", {"location": "http://127.0.0.2:1/"}),
            "/around": (302, "text/html", b"", {"location": "/around"}),
        }.get(path, (404, "text/html", b"none", {}))
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        return


@pytest.fixture(scope="module")
def site():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.handle_error = lambda *_: None  # a client that hangs up
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
async def web(site):
    environment = LiveSearch(allow=[site])
    await environment.reset(Task("t", "me/web-v1", "Where was Ida born?"), seed=0)
    yield environment
    await environment.close()


async def ask(environment, tool, **arguments):
    return await environment.call(Call(tool, arguments))


async def test_a_page_is_read_and_its_links_are_followed(web, site):
    opened = await ask(web, "open", url=f"http://{site}/")
    assert opened.content == (f"# Lamp & oil\nhttp://{site}/\nLamps\nMade by [Ida Berg].\none\n[elsewhere]")
    followed = await ask(web, "follow", link="[Ida Berg]")
    assert followed.content.endswith("/ida?x=1\nIda was born in Ålmhåm.")
    assert (await ask(web, "find", text="born")).content == "(part 1) Ida was born in Ålmhåm."


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("http://127.0.0.2:9/", "is not on the allow list of this sandbox"),
        ("http://169.254.169.254/latest/meta-data", "is not on the allow list of this sandbox"),
        ("file:///etc/passwd", "is no address of a page"),
        ("http://user:pass@{site}/", "is no address of a page"),
        ("http://{site}/away", "is not on the allow list of this sandbox"),
        ("http://{site}/around", "cannot be read"),
        ("http://{site}/picture", "of the type 'image/png'"),
        ("http://{site}/nowhere", "answers with status 404"),
        ("not an address", "is no address of a page"),
        ("http://[::1", "is no address of a page"),
    ],
)
async def test_what_may_not_or_cannot_be_read_is_said_to_the_agent(web, site, url, complaint):
    result = await ask(web, "open", url=url.format(site=site))
    assert result.status is ResultStatus.TOOL_ERROR
    assert complaint in result.content


async def test_a_page_without_end_is_cut(web, site):
    result = await ask(web, "open", url=f"http://{site}/long", part=2)
    assert result.ok
    assert len(web._here.text) <= MAX_BYTES


async def test_without_an_allow_list_nothing_is_reached(site):
    web = LiveSearch()
    await web.reset(Task("t", "me/web-v1", "Q"), seed=0)
    assert (await ask(web, "open", url=f"http://{site}/")).content == "No place of the web may be reached here."
    assert "no search here" in (await ask(web, "search", query="x")).content
    await web.close()


async def test_a_subclass_says_what_may_be_reached(site):
    class Mine(LiveSearch):
        """A web of one site. Not isolated."""

        allow = (site,)

    web = Mine()
    await web.reset(Task("t", "me/web-v1", "Q"), seed=0)
    assert (await ask(web, "open", url=f"http://{site}/plain")).content.endswith("just text")
    await web.close()
    await web.close()


@pytest.mark.parametrize("html", ["", "<", "<a href", "</title></a></script>", "<script>" * 50, "&#xFFFFFFFF;<p>x"])
def test_broken_html_is_read_as_far_as_it_goes(html):
    assert isinstance(read_html("http://x/", html).text, str)


@pytest.mark.parametrize("beginning", ["", "<script>", "<title>"])
@pytest.mark.parametrize(
    "piece", ["<!-- ", "<![", "<a ", "<a a='", '<a href="', "</", "&#", "<?", "<svg>", "<div>", "<a href=x>y"]
)
def test_a_page_that_is_made_to_take_long_takes_time_in_proportion_to_its_length(beginning, piece):
    """html.parser took minutes for the first of these at this length, and nothing else in the process went on."""
    html = beginning + piece * (500_000 // len(piece))
    started = time.process_time()
    read_html("http://x/", html)
    assert time.process_time() - started < 5


def test_closing_what_was_never_opened_takes_no_time_either():
    started = time.process_time()
    read_html("http://x/", "<svg>" * 50_000 + "</head>" * 50_000)
    assert time.process_time() - started < 5


def test_an_endless_character_number_is_a_replacement_character():
    assert read_html("http://x/", f"<p>a&#{'9' * 5_000};b&#x{'f' * 9};c").text == "a\ufffdb\ufffdc"


@pytest.mark.parametrize(
    ("html", "text", "links"),
    [
        ("<p title='a>b'>one<br/>two", "one\ntwo", {}),
        ("a<!-- <p>x</p> -->b<!-->c", "abc", {}),
        ("<script>if (a<b && '</div>') x</script>y<style>p>a{}</style>z", "yz", {}),
        ("<A HREF=/q>one <b>two</b></A>", "[one two]", {"one two": "/q"}),
        ("<a name=x>no</a> <a href='/a?b=1&amp;c=2' class=k>yes</a>", "no [yes]", {"yes": "/a?b=1&c=2"}),
        ("<svg/>seen<svg>not seen</svg>", "seen", {}),
        ("<head><title>T &amp; U</title>", "", {}),
        ("1 < 2 &amp; 3 > 2", "1 < 2 & 3 > 2", {}),
    ],
)
def test_markup_is_told_from_text(html, text, links):
    page = read_html("http://x/", html)
    assert (page.text, page.links) == (text, links)
    assert page.title == ("T & U" if "title>" in html else "http://x/")


def test_brackets_of_a_page_make_no_link():
    page = read_html("http://x/", "<p>[fake] <a href='/y'>real [one]</a></p>")
    assert page.links == {"real (one)": "/y"}
