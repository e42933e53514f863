"""How much each processor is used, as the kernel counts it."""

from coordinator.host import processor_load
from coordinator.host.processor_load import ProcessorLoads


def test_loads_are_those_between_two_looks_without_waits_for_disks(tmp_path, monkeypatch):
    monkeypatch.setattr(processor_load, "STAT", tmp_path / "stat")
    loads = ProcessorLoads()
    assert loads.look() == {}  # there is no such file
    (tmp_path / "stat").write_text("cpu  9 9 9 9\ncpu0 10 0 10 50 30 0 0 0 7 7\ncpu3 0 0 0 0 0 0 0 0 0 0\n")
    assert loads.look() == {}
    (tmp_path / "stat").write_text("cpu0 20 0 20 60 90 5 5 0 90 0\ncpu3 0 0 0 4 0 0 0 0\nintr 5 5\n")
    assert loads.look() == {0: 0.3, 3: 0.0}
    assert loads.look() == {0: 0.0, 3: 0.0}
