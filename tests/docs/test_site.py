"""The documentation site: every document has a page, links lead to pages, and a phone shows them in its width."""

from __future__ import annotations

import os
import re
import runpy
import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"
BUILT = ROOT / "build" / "site" / "html"
PHONE = {"width": 390, "height": 844}


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


pages = runpy.run_path(str(SITE / "pages.py"))


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    pages["write_site"](folder)
    return folder


def test_every_document_and_every_public_package_has_a_place_in_the_navigation(written):
    listed = set(re.findall(r"- (\S+\.md)$", (written / "mkdocs.yml").read_text(), re.MULTILINE))
    documents = {pages["page_of"](str(path.relative_to(ROOT))) for path in (ROOT / "docs").rglob("*.md")}
    packages = {f"api/{package}.md" for package in pages["public_packages"]()}
    assert documents | packages | {"index.md"} <= listed
    assert {page for page in listed if not (written / "pages" / page).is_file()} == set()


def test_a_link_out_of_the_documents_leads_to_a_page_that_shows_the_file(written):
    text = (written / "pages" / "credit.md").read_text()
    assert "](../tests" not in text
    page, line = re.search(r"\]\((source/tests/credit/test_unbiasedness\.py\.md)#__codelineno-0-(\d+)\)", text).groups()
    source = (ROOT / "tests/credit/test_unbiasedness.py").read_text().splitlines()
    assert source[int(line) - 1].startswith("def test_")
    assert source[int(line) - 1] in (written / "pages" / page).read_text()


@pytest.mark.parametrize("link", ["../nowhere.py", "../agentgym/errors.py#NoSuchError"])
def test_a_link_to_what_does_not_exist_is_an_error_that_names_it(link, tmp_path):
    for folder in ("docs", "agentgym"):
        (tmp_path / folder).mkdir()
    for name in ("README.md", "docs/README.md"):
        (tmp_path / name).write_text("# Title\n")
    (tmp_path / "docs" / "page.md").write_text(f"[it]({link})\n")
    shutil.copytree(SITE, tmp_path / "docs" / "site")
    shutil.copy(ROOT / "agentgym" / "errors.py", tmp_path / "agentgym")
    copied = runpy.run_path(str(tmp_path / "docs" / "site" / "pages.py"))
    with pytest.raises(copied["BrokenLink"], match=r"nowhere\.py|NoSuchError"):
        copied["write_site"](tmp_path / "site")


@pytest.fixture(scope="module")
def phone():
    """A page in a browser as wide as a phone, at the first page of the built site."""
    if not (BUILT / "index.html").is_file():
        assert not os.environ.get("AGENTGYM_CI_SITE"), "CI builds the site before the tests"
        pytest.skip("there is no built site: make site")
    api = pytest.importorskip("playwright.sync_api")
    if not (chromium := shutil.which("chromium")):
        pytest.skip("there is no chromium here")
    handler = partial(QuietHandler, directory=BUILT)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, api.sync_playwright() as playwright:
        Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser.new_page(viewport=PHONE, base_url=f"http://127.0.0.1:{server.server_port}")
        browser.close()
        server.shutdown()


@pytest.mark.parametrize("name", ["index", "credit", "systems", "api/agentgym.credit", "environments/screens"])
def test_a_phone_shows_a_page_without_scrolling_sideways(phone, name):
    phone.goto(f"/{name}.html")
    assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_the_search_leads_to_a_class_of_the_api(phone):
    # The results are in a closed shadow root, where the test could not wait for them.
    phone.add_init_script(
        "const attach = Element.prototype.attachShadow;"
        "Element.prototype.attachShadow = function () { return attach.call(this, {mode: 'open'}); };"
    )
    phone.goto("/index.html")
    phone.wait_for_load_state("networkidle")
    phone.locator("header label[for=__search]").click()
    phone.get_by_role("combobox", name="Search").fill("EpisodeManager", timeout=120_000)
    match = phone.locator("a[href$='#agentgym.EpisodeManager']").first
    match.wait_for(timeout=120_000)  # the index of all pages is read first
    match.click()
    phone.wait_for_url("**#agentgym.EpisodeManager", wait_until="commit", timeout=120_000)
