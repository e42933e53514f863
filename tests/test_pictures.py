"""The pictures of the pages are those that their scripts make, and screen readers can tell them."""

import re
import runpy
from xml.etree import ElementTree

import pytest
from browser import BROWSER
from PIL import Image
from places import ROOT, tracked

PICTURES = ROOT / "docs" / "pictures"


def pictures():
    """The pictures of the project; where git does not know its files, all that are there."""
    names = tracked()
    there = [path for kind in ("png", "svg") for path in (ROOT / "docs").rglob(f"*.{kind}")]
    return {path for path in there if names is None or path.relative_to(ROOT).as_posix() in names}


STORED = pictures()
DRAWN = sorted(path.name for path in STORED if path.parent == PICTURES and path.suffix == ".svg")
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
BYTES = 150_000


@pytest.fixture(scope="module")
def again(tmp_path_factory):
    """A directory of the pictures, drawn again."""
    folder = tmp_path_factory.mktemp("pictures")
    runpy.run_path(str(PICTURES / "make.py"))["main"](folder)
    return folder


def test_the_stored_pictures_are_what_the_script_draws(again, golden):
    assert sorted(path.name for path in again.iterdir()) == DRAWN
    for name in DRAWN:
        golden(PICTURES / name, (again / name).read_text())


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_has_texts_for_screen_readers(name):
    root = ElementTree.parse(PICTURES / name).getroot()
    title, description = (root.find(f"{{http://www.w3.org/2000/svg}}{tag}").text for tag in ("title", "desc"))
    assert title and len(description) > len(title)


def pictures_of(page):
    """Each picture that a page shows, with its text for screen readers."""
    text = page.read_text()
    shown = [(path, alt) for alt, path in re.findall(r"!\[([^]]*)\]\((\S+)\)", text)]
    for picture in re.findall(r"(?s)<picture>.*?</picture>", text):
        (alt,) = re.findall(r' alt="(.*?)"', picture)
        shown += [(path, alt) for path in re.findall(r' src(?:set)?="(.*?)"', picture)]
    return [(page.parent / path, alt) for path, alt in shown if "://" not in path]


def test_pages_show_all_pictures_and_have_a_text_for_each():
    shown = [one for page in PAGES for one in pictures_of(page)]
    assert [path for path, alt in shown if not alt or not path.is_file()] == []
    assert {path.resolve() for path, _ in shown} == STORED
    assert [path.name for path in STORED if path.stat().st_size > BYTES] == []


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here")
def test_a_page_is_photographed_light_and_dark_from_an_element_on(tmp_path):
    (tmp_path / "page.html").write_text(
        "<!doctype html><meta name=color-scheme content='light dark'>"
        "<div style='height: 3000px'></div><div id=begin style='height: 3000px; background: blue'></div>"
    )
    script = runpy.run_path(str(PICTURES / "screens.py"))
    for name, begin in (("top", ""), ("below", "begin")):
        script["photograph"](script["Screen"](name, "page.html", begin, 300), tmp_path, tmp_path)
    colours = {}
    for name in ("top", "top-dark", "below"):
        with Image.open(tmp_path / f"{name}.png") as image:
            assert image.size == (2 * script["WIDTH"], 600)
            colours[name] = image.convert("RGB").getpixel((100, 100))
    assert colours["top"] == (255, 255, 255)
    assert max(colours["top-dark"]) < 64
    assert colours["below"] == (0, 0, 255)
