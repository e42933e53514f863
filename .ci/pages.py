"""What mkdocs asks us for the site: pages that are not Markdown in docs/, and links that lead on.

The Markdown pages are written for readers of the repository, so their links are those of the repository.
"""

import json
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
MOVED = {
    "README.md": "index.md",
    "docs/index.md": "pages.md",
    "docs/first-steps.ipynb": "first-steps.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Pages of the site by files of the repository; other files of docs/ keep their places."""

HOME = {page: file for file, page in MOVED.items()}


def on_files(files, config):
    """Add pages that are not Markdown in docs/."""
    files.remove(files.get_file_from_path("index.md"))
    made = {page: (ROOT / file).read_text() for file, page in MOVED.items()}
    made["first-steps.md"] = notebook(json.loads(made["first-steps.md"]))
    made["assets/iframe-worker.js"] = Path(__file__).with_name("iframe-worker.js").read_text()
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown, page, **_):
    """Let links of the repository lead to pages of the site; what is not on the site remains as text."""
    here = page.file.src_uri
    folder = posixpath.dirname(HOME.get(here, f"docs/{here}"))

    def link(found):
        mark, text, target, anchor = found.groups(default="")
        file = posixpath.normpath(posixpath.join(folder, target))
        if not (ROOT / file).exists():
            return found[0]  # mkdocs says that it leads nowhere
        if file not in MOVED and not file.startswith("docs/"):
            return text
        there = MOVED.get(file, file.removeprefix("docs/"))
        return f"{mark}[{text}]({posixpath.relpath(there, posixpath.dirname(here) or '.')}{anchor})"

    return re.sub(r"(!?)\[([^]]*)\]\(([^)\s:#]+)(#[^)\s]*)?\)", link, markdown)


def notebook(document):
    """The page of a notebook, which is stored without outputs."""
    title, *cells = (("".join(cell["source"]), cell["cell_type"]) for cell in document["cells"])
    below = (f"```python\n{text}\n```" if kind == "code" else text for text, kind in cells)
    return "\n\n".join([title[0], "This page is [a notebook](first-steps.ipynb).", *below])
