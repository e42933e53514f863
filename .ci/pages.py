"""What the site has beyond docs/: other pages, references from declarations, and links that fit a site."""

import ast
import html
import importlib
import inspect
import json
import posixpath
import re
import textwrap
from functools import partial
from pathlib import Path

from mkdocs.structure.files import File

from harness.cli import parser
from harness.commands import COMMAND_GROUPS

ROOT = Path(__file__).resolve().parent.parent
MOVED = {"docs/first-steps.ipynb": "first-steps.md", "CHANGELOG.md": "changelog.md"}
MOVED |= {"CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
"""Pages of the site by files of the repository; other files of docs/ keep their places."""

PUBLIC = ("lockstep", "lockstep.plot", "coordinator.policies", "coordinator.view")


def on_files(files, config):
    """Add pages that are not Markdown in docs/."""
    made = {page: (ROOT / file).read_text() for file, page in MOVED.items()}
    made["first-steps.md"] = notebook(json.loads(made["first-steps.md"]))
    made["reference/command-line.md"] = "\n\n".join(["# Command line", *command_line()])
    made["reference/python.md"] = "\n\n".join(["# Python interface", *python_interface()])
    made["assets/iframe-worker.js"] = Path(__file__).with_name("iframe-worker.js").read_text()
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))


def on_page_markdown(markdown, page, **_):
    """Let links of the repository lead to pages of the site; what is not on the site remains as text."""
    here = page.file.src_uri
    folder = posixpath.dirname(next((file for file in MOVED if MOVED[file] == here), f"docs/{here}"))

    def link(found):
        mark, text, target, anchor = found.groups(default="")
        file = posixpath.normpath(posixpath.join(folder, target))
        if file not in MOVED and not file.startswith("docs/") and (ROOT / file).exists():
            return text
        there = MOVED.get(file, file.removeprefix("docs/"))
        return f"{mark}[{text}]({posixpath.relpath(there, posixpath.dirname(here) or '.')}{anchor})"

    return re.sub(r"(!?)\[([^]]*)\]\(([^)\s:#]+)(#[^)\s]*)?\)", link, markdown)


def notebook(document):
    """The page of a notebook, which is stored without outputs."""
    cells = (("".join(cell["source"]), cell["cell_type"]) for cell in document["cells"])
    shown = [f"```python\n{text}\n```" if kind == "code" else text for text, kind in cells]
    return "\n\n".join([*shown, "[This page as a notebook](first-steps.ipynb)"])


def command_line():
    """Every command with its options, by what it is for; from the parser."""
    commands = {command.name: command for command in parser().get_default("whole")()[1]}
    for group, names in COMMAND_GROUPS.items():
        yield f"## {group.capitalize()}"
        for command in map(commands.get, names):
            command.formatter_class = partial(command.formatter_class, width=80)
            yield f"### lockstep {command.name}\n\n{plain(command.description)} {plain(command.epilog or '')}"
            yield f"```text\n{command.format_usage()}```"
            form = command._get_formatter()
            for action in command._actions[1:]:  # without --help
                yield f"`{form._format_action_invocation(action)}`\n:   {plain(form._expand_help(action))}"


def plain(text):
    """The text without a meaning in Markdown."""
    return re.sub(r"([\\`*_\[\]])", r"\\\1", html.escape(text, quote=False))


def python_interface():
    """Every public name with its declaration and docstring."""
    for module in map(importlib.import_module, PUBLIC):
        yield f"## `{module.__name__}`\n\n{prose(module)}"
        for name, thing in public(module):
            yield f"### `{name}`\n\n{declaration(thing)}\n\n{prose(thing)}"
            for method, function in public(thing) if inspect.isclass(thing) else ():
                yield f"#### `{name}.{method}`\n\n{declaration(function)}\n\n{prose(function)}"


def public(owner):
    """Functions and classes of a module; methods and properties of a class."""
    for name in getattr(owner, "__all__", vars(owner)):
        thing = getattr(getattr(owner, name), "fget", getattr(owner, name))
        ours = hasattr(owner, "__all__") or inspect.getmodule(thing) is inspect.getmodule(owner)
        if ours and name[0] != "_" and (inspect.isfunction(thing) or inspect.isclass(thing)):
            yield name, thing


def declaration(thing):
    """Of a function all before its docstring; of a class also its fields."""
    source = textwrap.dedent(inspect.getsource(thing))
    lines, (first, *others) = source.splitlines(), ast.parse(source).body[0].body
    shown = lines[: first.lineno - 1]
    for node in others if inspect.isclass(thing) else ():
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr):
            shown += lines[node.lineno - 1 : node.end_lineno]
    return "\n".join(["```python", *shown, "```"])


def prose(thing):
    """A docstring as Markdown."""
    text = re.sub(r"(:\w+:)?(`+)([^`]+)\2", r"`\3`", inspect.getdoc(thing) or "")
    text = re.sub(r"\bdocs/([\w/-]+)\.md", r"[\1](../\1.md)", text)

    def section(found):
        items = re.sub(r"^(\w+): ", r"- `\1`: ", textwrap.dedent(found[2]), flags=re.MULTILINE)
        return f"**{found[1]}**\n\n{items}"

    return re.sub(r"^(Args|Returns|Raises|Attributes):\n((?: {4}.*\n?)+)", section, text, flags=re.MULTILINE)
