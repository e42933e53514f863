"""Pages in a headless Chromium: which texts overlap or are cut, and which sections and charts are empty."""

from __future__ import annotations

import html
import json
import math
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)

OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--window-size=1400,900"),
    *("--allow-file-access-from-files", "--virtual-time-budget=100000", "--dump-dom"),
)
NO_ORIGIN = "not an origin"

PAPER = 718
"""Width of a sheet of A4 without its margins, in pixels; in this width pages are shown as in print."""

WIDTHS = (390, PAPER, 1300)
"""A telephone, paper, a window."""

SCRIPT = """
function lines(page) {
  const found = [];
  const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, range = page.createRange();
    if (!node.data.trim() || node.parentElement.closest("script,style")) continue;
    const scroll = node.parentElement.closest(".scroll");
    range.selectNodeContents(node);
    for (const box of range.getClientRects())
      if (box.width && box.height)
        found.push([node.data.trim().slice(0, 60), box.left, box.top, box.right, box.bottom,
                    !!scroll && getComputedStyle(scroll).overflowX == "auto"]);
  }
  return found;
}
const shown = (element) => element.getClientRects().length > 0;
const data = /var\\(--(?!surface|muted|grid|band|ink)|fill: #/;
const coloured = (mark) => data.test(mark.getAttribute("style")) && !mark.closest("[id*='matplotlib.axis']");
function empty(page) {
  const found = [];
  for (const section of page.querySelectorAll("section")) {
    const name = section.querySelector("h2").textContent;
    const content = [...section.querySelectorAll("dd,li,tbody tr,svg")].filter(shown);
    if (!content.length) found.push(name);
    for (const table of section.querySelectorAll("table"))
      if (!table.tBodies[0].rows.length) found.push(name + ": table");
    for (const axes of section.querySelectorAll("svg g[id*='-axes_']"))
      if (shown(axes.closest("svg")) && ![...axes.querySelectorAll("path,use")].some(coloured))
        found.push(name + ": " + axes.id);
  }
  return found;
}
function print(page) {
  for (const rule of page.styleSheets[0].cssRules)
    if (rule.media && rule.media.mediaText == "print") rule.media.mediaText = "all";
}
async function look(name, width) {
  const frame = document.createElement("iframe");
  frame.width = width;
  frame.height = 900;
  const loaded = new Promise((done) => frame.onload = done);
  frame.src = name;
  document.body.append(frame);
  await loaded;
  const page = frame.contentDocument;
  if (width == PAPER && page.styleSheets.length) print(page);
  const made = {lines: lines(page), empty: empty(page), reaches: page.documentElement.scrollWidth};
  frame.remove();
  return made;
}
addEventListener("load", async () => {
  const made = {};
  for (const name of NAMES) {
    made[name] = {};
    for (const width of WIDTHS) made[name][width] = await look(name + ".html", width);
  }
  const result = document.createElement("pre");
  result.id = "found";
  result.textContent = JSON.stringify(made);
  document.body.replaceChildren(result);
});
"""


@dataclass(frozen=True)
class Line:
    """A line of text, with the edges of its box in pixels; ``scrolls`` if it is in a box that scrolls."""

    text: str
    left: float
    top: float
    right: float
    bottom: float
    scrolls: bool = False


@dataclass(frozen=True)
class Sight:
    """What there is to see of a page in one width.

    Attributes:
        lines: of text.
        empty: sections without content, tables without rows and axes without a coloured mark.
        reaches: how far the page reaches to the right in pixels; beyond its width it scrolls sideways.
    """

    lines: Sequence[Line]
    empty: Sequence[str]
    reaches: int


@dataclass(frozen=True)
class Looked:
    """What a browser made of pages.

    Attributes:
        sights: what there is to see, by page and width.
        log: of the browser, with the complaints of pages.
        asked: addresses that pages asked the network for.
    """

    sights: Mapping[str, Mapping[int, Sight]]
    log: str
    asked: set[str]


def opened(address, profile, *options, without=""):
    """What the browser writes of a page, and its log; ``without`` the usual option of such a name."""
    usual = [option for option in OPTIONS if not without or without not in option]
    command = [str(BROWSER), *usual, *options, f"--user-data-dir={profile}", address]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, ran.stderr


def look(pages, folder):
    """Each page in each width; one browser looks at them one after the other. PAPER is shown as in print."""
    for name, page in pages.items():
        (folder / f"{name}.html").write_text(page)
    known = f"const NAMES = {json.dumps(list(pages))}, WIDTHS = {json.dumps(list(WIDTHS))}, PAPER = {PAPER};"
    outer = folder / "look at all.html"
    net_log = folder / "net.json"
    outer.write_text(f"<!doctype html><meta charset=utf-8><body><script>{known}{SCRIPT}</script>")
    written, log = opened(outer.as_uri(), folder / "profile", f"--log-net-log={net_log}")
    (found,) = re.findall(r'<pre id="found">(.*?)</pre>', written, flags=re.DOTALL)
    sights = {
        name: {
            int(width): Sight([Line(*line) for line in sight["lines"]], sight["empty"], sight["reaches"])
            for width, sight in by_width.items()
        }
        for name, by_width in json.loads(html.unescape(found)).items()
    }
    # The browser's own chatter has no origin.
    events = [event.get("params", {}) for event in json.loads(net_log.read_text())["events"]]
    urls = {one["url"] for one in events if one.get("initiator", NO_ORIGIN) != NO_ORIGIN and "url" in one}
    return Looked(sights, log, {url for url in urls if not url.startswith(("file:", "data:"))})


def dom(page, *options):
    """The elements of a page at the end of its scripts, in a window, and the log of the browser."""
    written, log = opened(page.as_uri(), page.parent / "profile of one", *options)
    return html.unescape(written), log


PAINTED = """
<img id="held" alt="" style="position: absolute" src="http://127.0.0.1:{port}/">
<script>
new PerformanceObserver((list) => list.getEntriesByName("first-contentful-paint").forEach((one) => {{
  const said = {{textContent: `PAINTED ${{one.startTime}}`}};
  document.body.append(Object.assign(document.createElement("p"), said));
  document.getElementById("held").removeAttribute("src");
}})).observe({{type: "paint", buffered: true}});
</script>
"""


def painted_ms(page, folder):
    """When a page first has content in its window, by the browser's clock from its begin; inf after 5 s.

    The page is written out once it is loaded, which may be before it is painted: a picture that never comes
    holds it until then.
    """
    file = folder / "painted.html"
    options = [one for one in OPTIONS if "virtual-time" not in one and "resolver" not in one]
    options += ["--timeout=5000", f"--user-data-dir={folder / 'profile'}"]
    with socket.create_server(("127.0.0.1", 0)) as never:
        file.write_text(page.replace("</body>", f"{PAINTED.format(port=never.getsockname()[1])}</body>"))
        command = [str(BROWSER), *options, file.as_uri()]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        except subprocess.TimeoutExpired:  # the host is too busy for a browser
            return math.inf
    return min(map(float, re.findall(r"<p>PAINTED ([\d.]+)</p>", ran.stdout)), default=math.inf)


def overlaps(lines, least=1.5):
    """Pairs of lines of text whose boxes share more than ``min_processes`` pixels in both directions.

    A box has the height of its font, which is more than that of its letters: 20 % of it count as empty.
    """
    found = []
    boxes = sorted(lines, key=lambda box: box.top)
    for number, one in enumerate(boxes):
        for other in boxes[number + 1 :]:
            if other.top >= one.bottom:
                break
            room = 0.2 * min(one.bottom - one.top, other.bottom - other.top)
            wide = min(one.right, other.right) - max(one.left, other.left) > least
            if wide and min(one.bottom, other.bottom) - max(one.top, other.top) > least + room:
                found.append((one.text, other.text))
    return found


def cut(lines, width):
    """Lines of text that reach beyond the page at the left or the right, but for those that scroll."""
    still = (line for line in lines if not line.scrolls)
    return [line.text for line in still if line.left < -0.5 or line.right > width + 0.5]
