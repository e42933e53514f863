"""The checker of language fails on what it is there to find, and on nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKER = Path(__file__).resolve().parent.parent / ".ci" / "style.py"


@pytest.fixture
def check(tmp_path):
    """Checks a repository of one page and one module, in which no match is allowed."""
    checker = tmp_path / "style.py"
    shutil.copy(CHECKER, checker)
    (tmp_path / "style.json").write_text("{}\n")
    root = tmp_path / "root"

    def run(page="Plain words.\n", module='"""Plain words."""\n', *options):
        root.mkdir()
        (root / "page.md").write_text(page)
        (root / "module.py").write_text(module)
        for words in (["init", "-q"], ["add", "."]):
            subprocess.run(["git", *words], cwd=root, check=True)
        return subprocess.run(
            [sys.executable, "-P", checker, root, *options], capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.parametrize(
    "page, module",
    [
        ("Nobody knows.\n", ""),
        ("", '"""Nobody knows."""\n'),
        ("", "x = 1  # nobody knows\n"),
        ("", 'x = "nobody knows"\n'),
        ("Both stand beside it.\n", ""),
        ("word " * 31 + "end.\n", ""),
    ],
)
def test_a_new_match_fails_and_is_shown(page, module, check):
    run = check(page, module)
    assert run.returncode == 1
    assert ("page.md: " if page else "module.py: ") in run.stdout


@pytest.mark.parametrize(
    "page",
    ["The user `nobody` may.\n", "```\nnobody\n```\n", "word " * 16 + "end. " + "Word " * 16 + "end.\n"],
)
def test_code_and_short_sentences_pass(page, check):
    run = check(page)
    assert run.returncode == 0, run.stdout


def test_allowed_numbers_only_fall(check, tmp_path):
    allowed = tmp_path / "style.json"
    allowed.write_text('{"S2": 3, "S4": 5}\n')
    assert check("Nobody, nobody.\n", "", "--renew").returncode == 0
    assert allowed.read_text() == '{\n  "S2": 2\n}\n'
