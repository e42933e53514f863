"""Pages in a headless Chromium: which texts overlap, or are cut."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)

OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

SCRIPT = """
function lines(frame) {
  const found = [], page = frame.contentDocument;
  const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, range = page.createRange();
    if (!node.data.trim() || node.parentElement.closest("script,style")) continue;
    range.selectNodeContents(node);
    for (const box of range.getClientRects())
      if (box.width && box.height)
        found.push([node.data.trim().slice(0, 60), box.left, box.top, box.right, box.bottom,
                    !!node.parentElement.closest(".scroll")]);
  }
  return found;
}
addEventListener("load", () => {
  const made = {};
  for (const frame of document.querySelectorAll("iframe")) made[frame.id] = lines(frame);
  document.body.innerHTML = "<pre id=found></pre>";
  document.getElementById("found").textContent = JSON.stringify(made);
});
"""


def texts(page: str, widths: Sequence[int], folder: Path) -> Mapping[int, list[Any]]:
    """The lines of text of a page in each width: [text, left, top, right, bottom, whether it scrolls]."""
    frames = "".join(
        f'<iframe id="{width}" width="{width}" height="900" srcdoc="{html.escape(page)}"></iframe>'
        for width in widths
    )
    outer = folder / "frames.html"
    outer.write_text(f"<!doctype html><meta charset=utf-8><script>{SCRIPT}</script><body>{frames}")
    command = [str(BROWSER), *OPTIONS, f"--user-data-dir={folder / 'profile'}", "--window-size=1400,900"]
    command += ["--virtual-time-budget=10000", "--dump-dom", outer.as_uri()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    (found,) = re.findall(r'<pre id="found">(.*?)</pre>', ran.stdout, flags=re.DOTALL)
    return {int(width): lines for width, lines in json.loads(html.unescape(found)).items()}


def overlaps(lines: Sequence[Sequence[Any]], least: float = 1.5) -> list[tuple[str, str]]:
    """Pairs of lines of text whose boxes share more than ``least`` pixels in both directions.

    A box has the height of its font, which is more than that of its letters: 20 % of it count as empty.
    """
    found = []
    boxes = sorted(((*line[:5],) for line in lines), key=lambda box: box[2])
    for number, (one, left, top, right, bottom) in enumerate(boxes):
        for other, left2, top2, right2, bottom2 in boxes[number + 1 :]:
            if top2 >= bottom:
                break
            room = 0.2 * min(bottom - top, bottom2 - top2)
            wide = min(right, right2) - max(left, left2) > least
            if wide and min(bottom, bottom2) - max(top, top2) > least + room:
                found.append((one, other))
    return found


def cut(lines: Sequence[Sequence[Any]], width: int) -> list[str]:
    """Lines of text that reach beyond the page at the left or the right, but for those that scroll."""
    return [line[0] for line in lines if not line[5] and (line[1] < -0.5 or line[3] > width + 0.5)]
