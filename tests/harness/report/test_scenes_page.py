"""The page of ``lockstep show`` in a browser: three widths, steps by keys and buttons, no complaint."""

import pytest
from browser import BROWSER, WIDTHS, cut, look, overlaps

from harness import cli

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here")]

SHOWN = {
    "array": ("gang", "--set", "packing=continuous", "--jobs", "4,6,3,8,1"),
    "tree": ("dqt", "--processors", "16"),
    "office": ("multilevel-two-queue", "--jobs", "4,2,4,3,1,1"),
    "blocks": ("scan-up",),
    "cube": ("hypercube", "--processors", "16", "--jobs", "4,3,16,5"),
    "shared": ("none",),
    "owners": ("condor",),
    "crowd": ("none", "--processors", "2", "--jobs", ",".join(["1", "2"] * 8)),
}

STEPS = """
<script>
const seen = () => [...document.querySelectorAll(".scene")].filter((one) => one.getClientRects().length)
  .map((one) => one.querySelector("h2").textContent).join(" | ");
const type = (where, key) => where.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
const press = (key) => type(document.body, key);
const inside = (key) => type(document.querySelector(".scroll"), key);
const click = (id) => document.getElementById(id).click();
const found = [seen()];
const step = (act, on) => { act(on); found.push(seen()); };
step(press, "ArrowRight"); step(click, "on"); step(press, "ArrowLeft"); step(click, "back");
step(press, "ArrowLeft"); step(press, "End"); step(press, "ArrowRight"); step(press, "Home");
step(inside, "ArrowRight");
for (const one of [...found, document.getElementById("place").textContent]) document.body.append(
  Object.assign(document.createElement("p"), {textContent: one}));
</script>
"""


@pytest.fixture(scope="module")
def looked(tmp_path_factory):
    """What a browser makes of the pages of some policies; on the one called steps a script acts."""
    folder = tmp_path_factory.mktemp("pages")
    pages = {}
    for name, words in SHOWN.items():
        assert cli.main(["show", *words, "-o", str(folder / "page")]) == 0
        pages[name] = (folder / "page").read_text()
    return look(pages | {"steps": pages["array"].replace("</body>", f"{STEPS}</body>")}, folder)


def test_pages_are_whole_in_every_width_and_ask_nobody(looked):
    for name, by_width in looked.sights.items():
        assert list(by_width) == list(WIDTHS)
        for width, sight in by_width.items():
            texts = [line.text for line in sight.lines]
            assert "Slots over processors, until" in " ".join(texts)
            assert not overlaps(sight.lines) and not cut(sight.lines, width), f"{name} in {width}"
            assert sight.reaches <= width
            assert name != "crowd" or not [line for line in sight.lines if line.right > width]
    assert "CONSOLE" not in looked.log and looked.asked == set()


def test_keys_and_buttons_step_and_paper_has_all_scenes(looked):
    lines = [line.text for line in looked.sights["steps"][1300].lines][-11:]
    first = "0 ms: A arrives (size 4)"
    second = "50 ms: B arrives (size 6)"
    third = "100 ms: C arrives (size 3)"
    assert lines[:6] == [first, second, third, second, first, first]
    assert lines[6] == lines[7] and " ends" in lines[6]
    assert lines[8] == lines[9] == first, "keys scroll a wide picture that has the focus"
    assert lines[10].startswith("1 of 10: 0 ms: A")
    on_paper = [line.text for line in looked.sights["array"][WIDTHS[1]].lines]
    assert {first, second, third, lines[6]} <= {*on_paper}
