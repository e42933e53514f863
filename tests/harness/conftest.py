"""What tests of the harness share: the command on made-up runs."""

import pytest


@pytest.fixture
def undrawn(monkeypatch):
    """Pages without pictures, which take seconds to draw; a file of one picture has it."""
    from harness.report import rendering  # noqa: PLC0415 - few need it

    monkeypatch.setattr(rendering, "_both", lambda one: {})


@pytest.fixture
def drawn():
    """Pages with their pictures."""


@pytest.fixture(autouse=True)
def _undrawn(request):
    """Only the rooms that are about pictures draw them, and who asks for them."""
    if request.path.parent.name not in ("report", "papers") and "drawn" not in request.fixturenames:
        request.getfixturevalue("undrawn")


@pytest.fixture
def lockstep(monkeypatch, tmp_path, capsys):
    """The command on made-up runs in ``tmp_path``; gives status, stdout, stderr."""
    from fake_runs import command_on_made_up_runs  # noqa: PLC0415 - few need it

    return command_on_made_up_runs(monkeypatch, tmp_path, capsys)
