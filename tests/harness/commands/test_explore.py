"""``lockstep explore``: what it refuses, before anything is simulated."""

import os

import pytest
from runs import needs_two

from harness import application, cli
from harness.commands import explore, shared


@pytest.mark.parametrize(
    "words, message",
    [
        ("critical-sections", "has no bulk-synchronous program"),
        ("adaptive", "level = 'jobs': has no processes that could run or be looked at"),
        ("tracer", "is neither a file nor one of the"),
    ],
)
def test_an_experiment_without_lanes_is_refused_and_no_file_made(words, message, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert cli.main(["explore", words, "--results", str(tmp_path), "-o", str(page)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not page.exists()


@pytest.mark.parametrize(
    "measured, said", [([], "simulated"), (["none", "gang"], "simulated, and measured under none, gang")]
)
def test_the_answer_names_the_policies_whose_runs_are_on_the_page(
    measured, said, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(explore, "write", lambda *_: measured)
    monkeypatch.chdir(tmp_path)  # a longer path may be wrapped
    assert cli.main(["explore", "demo", "--results", ".", "-o", "page.html"]) == 0
    assert " ".join(capsys.readouterr().out.split()).endswith(f"page.html: demo, {said}")


@needs_two
@pytest.mark.parametrize("words", ["explore -o", "demo -o", "run demo --junit"])
def test_a_file_that_cannot_be_written_is_refused_before_the_work(words, monkeypatch, tmp_path, capsys):
    for deed in ("explore", "run"):
        monkeypatch.setattr(application, deed, lambda *_, **__: pytest.fail("it began"))
    file = str(tmp_path / "nowhere" / "file")
    assert cli.main([*words.split(), file, "--results", str(tmp_path)]) == 2
    assert f"'{file}': cannot be written: no such file" in capsys.readouterr().err


def test_looking_whether_a_file_can_be_written_leaves_it_as_it_is(tmp_path):
    pipe = tmp_path / "pipe"
    link = tmp_path / "link"
    os.mkfifo(pipe)  # which nobody reads: to open it would take for ever
    link.symlink_to(tmp_path / "later")
    for path in (pipe, link, tmp_path / "new"):
        shared.check_writable("--output", path)
    assert sorted(tmp_path.iterdir()) == [link, pipe]
