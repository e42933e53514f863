"""Photograph pages that Lockstep writes, light and dark, with Chromium.

    python docs/pictures/screens.py PAGES [DIRECTORY]

writes a PNG file of each picture and scheme next to this file, or into DIRECTORY. PAGES is a directory with
the pages that SCREENS names; the pages of docs that show the pictures have the commands that write them. A
page is as wide as a narrow screen; a pixel of it has four in the file.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from PIL import Image

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH = 390
COLOURS = 256
FRAME = """<!doctype html><meta name="color-scheme" content="light dark"><body style="margin: 0">
<iframe src="{}" style="border: 0; width: 100vw; height: 100vh; display: block"></iframe>"""
"""Chromium photographs the begin of a page only; what is in a frame may be scrolled."""

SCHEMES = {"": 1, "-dark": 0}
"""What the names of files have at the end, by Chromium's number for the scheme."""


class Screen(NamedTuple):
    name: str
    page: str
    begin: str
    """The id of the element at the top; none for the begin of the page."""

    height: int


SCREENS = (
    Screen("slowdowns", "report.html", "slowdowns", 500),
    Screen("breakdowns", "report.html", "breakdowns", 600),
    Screen("gantt", "gantt.html", "gantt", 410),
    Screen("maps", "maps.html", "maps", 700),
    Screen("explorer", "explorer.html", "", 1010),
)


def photograph(screen: Screen, pages: Path, folder: Path) -> None:
    """Write the files of one picture."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit("this script needs Chromium; install the package chromium")
    for end, scheme in SCHEMES.items():
        file = folder / f"{screen.name}{end}.png"
        with tempfile.TemporaryDirectory() as profile:
            frame = Path(profile, "frame.html")
            frame.write_text(FRAME.format(f"{Path(pages, screen.page).resolve().as_uri()}#{screen.begin}"))
            options = [
                *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                *("--force-device-scale-factor=2", "--virtual-time-budget=5000"),
                f"--blink-settings=preferredColorScheme={scheme}",
                f"--window-size={WIDTH},{screen.height}",
                *(f"--user-data-dir={profile}", f"--screenshot={file}"),
            ]
            subprocess.run([browser, *options, frame.as_uri()], capture_output=True, check=True, timeout=120)
        with Image.open(file) as image:
            small = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        small.save(file, optimize=True)


def main(pages: Path, folder: Path) -> None:
    """Write all files."""
    for screen in SCREENS:
        photograph(screen, pages, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).parent))
