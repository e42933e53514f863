"""The documentation as a site: built strictly, looked at in a browser, and searched without a server."""

import html
import re
import resource
import subprocess
import sys

import pytest
from browser import BROWSER, look, opened
from places import ROOT

import lockstep
from harness.cli import parser

pytestmark = [pytest.mark.slow, pytest.mark.site]
needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here")
WIDE = '<!doctype html><body><img src="http://lockstep.example/x.png"><p style="width: 1500px">wide</p>'


BUILD_S = 30
"""CPU time, so that a busy host does not fail the test."""


def processor_s():
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def build(site, tree=ROOT):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    before = processor_s()
    built = build(folder)
    assert built.returncode == 0, built.stderr
    assert processor_s() - before < BUILD_S
    return folder


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("[x](nowhere.md)", "'nowhere.md'"),
        ("[x](glossary.md#nowhere)", "#nowhere"),
        ("[x](../harness/nowhere.py)", "harness/nowhere.py'"),
    ],
)
def test_a_link_that_leads_nowhere_fails(text, complaint, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("docs", ".ci", "mkdocs.yml", *(path.name for path in ROOT.glob("*.md"))):
        subprocess.run(["cp", "-r", ROOT / name, tree], check=True)
    with (tree / "docs" / "index.md").open("a") as page:
        page.write(f"\n{text}\n")
    failed = build(tmp_path / "site", tree)
    assert failed.returncode == 1
    assert complaint in failed.stderr


def test_links_out_of_docs_lead_to_pages_of_the_site_or_are_text(site):
    assert '<a href="contributing.html">CONTRIBUTING</a>' in (site / "development.html").read_text()
    page = (site / "experiments.html").read_text()
    assert "harness/experiments" in page
    assert 'harness/experiments"' not in page


def test_the_references_have_every_option_and_every_public_name(site):
    page = html.unescape((site / "reference" / "command-line.html").read_text())
    commands = parser().get_default("whole")()[1]
    options = {
        option for command in commands for action in command._actions for option in action.option_strings
    }
    words = set(re.findall(r"-[\w-]+", re.sub(r"<pre.*?</pre>", "", page, flags=re.DOTALL)))
    assert options - words <= {"-h", "--help"}
    assert [command.name for command in commands if f"lockstep {command.name}<a" not in page] == []
    page = (site / "reference" / "python.html").read_text()
    assert [name for name in {*lockstep.__all__} - {"plot"} if f"<code>{name}</code>" not in page] == []
    assert ":class:" not in page


@needs_browser
def test_no_page_scrolls_sideways_or_asks_a_host(site):
    names = [path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")]
    pages = {name: (site / f"{name}.html").read_text() for name in names if name != "404"}
    looked = look(pages | {"wide": WIDE}, site)
    scrolls = {
        name: width
        for name, widths in looked.sights.items()
        for width in widths
        if widths[width].reaches > width
    }
    assert len(pages) > 30
    assert scrolls.keys() == {"wide"}, scrolls
    assert looked.asked == {"http://lockstep.example/x.png"}, "only the page that is made so"
    assert len(looked.sights["native"][390].lines) > 60, "all texts are looked at"


@needs_browser
def test_the_search_finds_a_page_from_files(site, tmp_path):
    address = (site / "index.html").as_uri() + "?q=guardian"
    dom, _ = opened(address, tmp_path, without="file-access")
    assert "faults.html?h=guardian" in dom
