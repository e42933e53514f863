"""Archives in OTF2, read back by the package that other tools read them with, and compared with the trace."""

import json
from collections import Counter, defaultdict

import other_tools
import pytest
from fake_runs import TOOLS, ImitatedSimulator

from harness import application, cli
from harness.predict import missing
from harness.report import perfetto

pytestmark = [pytest.mark.tools, pytest.mark.slow]


@pytest.fixture(scope="module")
def otf2(tmp_path_factory):
    place = other_tools.installed(tmp_path_factory.mktemp("packages"), "otf2")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        yield __import__("otf2")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Made-up runs with a timeline, with slots and messages, and their simulations."""
    place = tmp_path_factory.mktemp("runs") / "results"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "real_tools", lambda *nodes, **also: TOOLS)
        patch.setattr(missing, "back_end", ImitatedSimulator)
        scheduler = "schedulers=[{policy='gang',quantum_ms=10}]"
        words = ["run", "three-jobs", "--timeline", "--results", str(place), "--set", "repeats=1"]
        assert cli.main([*words, "--set", scheduler]) == 0
    return place


def trace(store, file, *options):
    assert cli.main(["trace", str(store), "-o", str(file), *options]) == 0


@pytest.fixture(params=[(), ("--window", "0.004", "0.010")], ids=["all", "window"])
def both(request, otf2, store, tmp_path):
    """The events of a trace, and the archive of the same run."""
    trace(store, tmp_path / "trace.json", *request.param)
    trace(store, tmp_path / "archive", "--format", "otf2", *request.param)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    with otf2.reader.open(str(tmp_path / "archive/traces.otf2")) as archive:
        yield events, archive


def ns(us):
    return round(us * 1e3)


def test_the_archive_has_the_states_of_the_trace(both):
    events, archive = both
    names = {}
    for one in events:
        if one["ph"] == "M" and "args" in one and "name" in one["args"]:
            names[one["name"], one["pid"], one["tid"]] = one["args"]["name"]
    shown = defaultdict(Counter)
    for one in (one for one in events if one["ph"] == "X"):
        side = names["process_name", one["pid"], 0]
        thread = side, names["thread_name", one["pid"], one["tid"]]
        shown[thread][ns(one["ts"]), ns(one["ts"] + one["dur"]), one["name"]] += 1
    kept, entered = defaultdict(Counter), {}
    for location, event in archive.events:
        thread = location.group.system_tree_parent.name, location.name
        if type(event).__name__ == "Enter":
            assert thread not in entered, "states do not nest"
            entered[thread] = event
        elif type(event).__name__ == "Leave":
            begun = entered.pop(thread)
            assert begun.region is event.region
            kept[thread][begun.time, event.time, event.region.name] += 1
    assert not entered
    assert kept == shown and {side.split(":")[0] for side, _ in kept} == {"measured", "simulated"}


def test_the_archive_has_the_messages_of_the_trace(both):
    events, archive = both
    thread = {
        (one["pid"], one["tid"]): one["args"]["name"]
        for one in events
        if one["ph"] == "M" and one["name"] == "thread_name"
    }
    ends = defaultdict(dict)
    for one in (one for one in events if one["ph"] in "sf"):
        ends[one["id"]][one["ph"]] = thread[one["pid"], one["tid"]], ns(one["ts"]), one["name"]
    shown = Counter()
    for one in ends.values():
        kind = perfetto.MESSAGES.index(one["s"][2])
        shown["MpiSend", one["s"][0], one["f"][0], one["s"][1], kind] += 1
        shown["MpiRecv", one["s"][0], one["f"][0], one["f"][1], kind] += 1
    kept = Counter()
    for location, event in archive.events:
        kind = type(event).__name__
        if kind in ("MpiSend", "MpiRecv"):
            rank = event.receiver if kind == "MpiSend" else event.sender
            pair = [location.name, event.communicator.location(rank).name]
            kept[(kind, *pair[:: 1 if kind == "MpiSend" else -1], event.time, event.msg_tag)] += 1
    assert kept == shown and kept


def test_a_directory_that_exists_is_not_written_into(otf2, store, tmp_path, capsys):
    (tmp_path / "mine").write_text("x")
    assert cli.main(["trace", str(store), "--format", "otf2", "-o", str(tmp_path)]) == 2
    assert "cannot be made" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
