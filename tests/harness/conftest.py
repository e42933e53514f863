"""What tests of the harness share: the command on made-up runs."""

import pytest


@pytest.fixture
def undrawn(monkeypatch):
    """Pages without pictures, which take seconds to draw."""
    from harness.report import rendering  # noqa: PLC0415 - few need it

    monkeypatch.setattr(rendering, "drawn", lambda draw: {})


@pytest.fixture
def lockstep(monkeypatch, tmp_path, capsys):
    """The command on made-up runs in ``tmp_path``; gives status, stdout, stderr."""
    from fake_runs import command_on_made_up_runs  # noqa: PLC0415 - few need it

    return command_on_made_up_runs(monkeypatch, tmp_path, capsys)
