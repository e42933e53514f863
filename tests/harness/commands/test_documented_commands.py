"""Commands that README and docs show exist, with options, experiments, keys and files; links lead on."""

import re
import shlex

import pytest
from places import ROOT

from harness.cli import parser
from harness.spec import experiment
from workloads.validation import InputError

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BEFORE = r" *(?:\$ |RUN |- |- run: )?(?:\w+=\S+ )*(?:[\w.]+/bin/)?"
"""What may stand before a command in a block: a prompt, the syntax of a CI or a Dockerfile, variables."""
MOST_WORDS = 3000
PLACEHOLDERS = {"EXPERIMENT": "three-jobs", "N": "1", "repeats=N": "repeats=1"}


def shown(page, program):
    """The commands of ``program`` on a page: in code blocks and within sentences, each as words."""
    text = page.read_text()
    blocks = re.findall(r"^```.*?^```", text, flags=re.MULTILINE | re.DOTALL)
    sentences = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(rf"`({program} [^`]*)`", sentences)
    for block in blocks:
        found += re.findall(rf"^{BEFORE}({program} .*)$", block.replace("\\\n", " "), flags=re.MULTILINE)
    alone = (re.sub(r" > \S+$", "", " ".join(command.split())) for command in found)
    commands = [shlex.split(command, comments=True) for command in alone]
    return [[PLACEHOLDERS.get(word, word) for word in command] for command in commands]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page, capsys):
    for command in shown(page, "lockstep"):
        words = command[1:]
        for names in ([], ["three-jobs"], ["three-jobs", "x"]):  # a sentence may leave out what is meant
            try:
                options = parser().parse_args([*words, *names])
            except SystemExit as end:
                if not end.code:  # --help
                    break
                continue
            except InputError:
                continue
            if options.command in ("run", "simulate", "submit") and not options.experiment.endswith(".toml"):
                log = getattr(options, "log", None)
                experiment.load(options.experiment, settings=options.settings, log=log)
            break
        else:
            pytest.fail(f"{shlex.join(command)}: {capsys.readouterr().err}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_scripts_exist(page):
    for command in shown(page, "python(?: -P)?"):
        for word in command:
            if word.startswith(("tests/", "docs/", "harness/")):
                assert (ROOT / word).exists(), shlex.join(command)


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        if ":" not in path:
            target = page.parent / path if path else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


def test_the_indices_name_every_page():
    """From the home page the index of each section is one step away, and every page is named there."""
    home = ROOT / "docs" / "index.md"
    sections = linked([home])
    assert linked([home, *sections]) | {home} >= {*PAGES[2:]}


def linked(pages):
    paths = [
        (page.parent / path).resolve()
        for page in pages
        for path in re.findall(r"\]\(([^)#:\s]+)[^)\s]*\)", page.read_text())
    ]
    return {path for path in paths if path.suffix == ".md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_short(page):
    assert page.name == "decisions.md" or len(page.read_text().split()) <= MOST_WORDS
