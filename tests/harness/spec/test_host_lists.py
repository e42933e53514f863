"""Hosts as they are written in experiment files, on the command line and in host files."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.workload import Node
from harness.cli import main
from harness.spec import experiment, hosts
from slurm import allocation
from workloads.validation import InputError

FILE = """
hosts = ["a:2", "b"]
[[jobs]]
program = { processes = 3, phases = 1 }
[[schedulers]]
policy = "gang"
"""


def test_hosts_say_how_many_processors_there_are(tmp_path):
    file = tmp_path / "x.toml"
    file.write_text(FILE)
    found = experiment.load(str(file), here=True)
    assert found.nodes == (Node("a", 2), Node("b", 1)) and found.processors == 3
    with pytest.raises(InputError, match="must be at most 1 under"):
        experiment.load(str(file), settings=['hosts=["c"]'])


@pytest.mark.parametrize(
    "entries, complaint",
    [
        ("a,b", "must be a list"),
        ([1], "must be a list"),
        (["a:0"], "from 1 to 4096"),
        (["a:x"], "from 1 to 4096"),
        (["-oProxyCommand=x"], "name of a host"),
        (["a b"], "name of a host"),
        (["a,b"], "name of a host"),
        (["c[1-2]", "c2"], "second time"),
        ([":2"], "name of a host"),
        (["a", "b", "a:2"], "second time"),
    ],
)
def test_what_names_no_hosts_is_refused(entries, complaint):
    with pytest.raises(InputError, match=complaint):
        hosts.parse(entries)


def test_a_host_file_is_read_as_launchers_read_it(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("# ours\nnode1:2\n\n node2  # small\n")
    assert hosts.read(file) == ["node1:2", "node2"]
    file.write_text("# nobody\n")
    with pytest.raises(InputError, match="must name a host"):
        hosts.read(file)
    with pytest.raises(InputError, match="cannot be read"):
        hosts.read(tmp_path / "absent")


def test_an_agent_without_a_setup_is_bad_usage(capsys):
    assert main(["agent"]) == 2
    assert "needs the set-up that its driver made" in capsys.readouterr().err


def test_slurms_notation_names_hosts(tmp_path):
    assert hosts.parse(["c[01-02,07]:2", "d"]) == (
        *(Node(f"c{n}", 2) for n in ("01", "02", "07")),
        Node("d", 1),
    )
    file = tmp_path / "x.toml"
    file.write_text(FILE)
    found = experiment.load(str(file), settings=['hosts=["a[1-2]x[08-10]"]'], here=True)
    assert [node.host for node in found.nodes][3:] == ["a2x08", "a2x09", "a2x10"]


SIMPLE = st.from_regex(r"[a-z]{1,3}", fullmatch=True)
NUMBERS = st.lists(
    st.tuples(st.integers(0, 120), st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=3
)


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(st.tuples(SIMPLE, st.none() | NUMBERS), min_size=1, max_size=3))
def test_a_list_stands_for_the_names_that_were_folded(drawn):
    texts = []
    names = []
    for prefix, ranges in drawn:
        if ranges is None:
            texts.append(prefix)
            names.append(prefix)
            continue
        parts = [
            f"{first:0{width}}-{first + more}" if more else f"{first:0{width}}"
            for first, more, width in ranges
        ]
        texts.append(f"{prefix}[{','.join(parts)}]")
        for first, more, width in ranges:
            names += [prefix + str(first + step).zfill(width) for step in range(more + 1)]
    text = ",".join(texts)
    assert allocation.expand(text) == names and allocation.split(text) == texts


@pytest.mark.parametrize(
    "text", ["c[1-2", "c1]", "c[]", "c[2-1]", "c[1,]", "c[a]", "c[1-2[3]]", "c[0-9]" * 6]
)
def test_what_is_no_list_of_hosts_is_refused_with_a_remedy(text, capsys):
    with pytest.raises(ValueError):
        allocation.expand(text)
    assert main(["run", "three-jobs", "--hosts", f"a,{text}:2"]) == 2
    assert "write brackets as Slurm does" in " ".join(capsys.readouterr().err.split())
