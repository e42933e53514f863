"""The pictures of the pages are those that their script draws, and screen readers can tell them."""

import runpy
from xml.etree import ElementTree

import pytest
from places import ROOT

PICTURES = ROOT / "docs" / "pictures"
DRAWN = sorted(path.name for path in PICTURES.glob("*.svg"))


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
def test_a_picture_has_texts_for_screen_readers_and_a_page(name):
    root = ElementTree.parse(PICTURES / name).getroot()
    title, description = (root.find(f"{{http://www.w3.org/2000/svg}}{tag}").text for tag in ("title", "desc"))
    assert title and len(description) > len(title)
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert any(f"pictures/{name})" in page.read_text() for page in pages)
