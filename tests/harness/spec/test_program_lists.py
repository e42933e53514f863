"""Commands of colocate and turns, as words."""

import pytest

from harness.spec.colocate import lines, split
from workloads.validation import InputError


@pytest.mark.parametrize("name", ["with blank", "a\nb \"c'd", "a;b", "$x"])
def test_the_path_of_a_program_is_one_word_whatever_its_name(tmp_path, name):
    program = tmp_path / name
    program.write_text("")
    assert split([str(program), ":::", "echo 'a b'"]) == [[str(program)], ["echo", "a b"]]
    if "\n" not in name:
        assert lines(str(program), "commands.txt") == [[str(program)]]


@pytest.mark.parametrize(
    "words",
    [
        ["./a:::./b"],
        ["./a", ":::", "./b"],
        ["./a:::", "./b"],
        ["./a", ":::./b"],
        ["./a ::: ./b"],
    ],
)
def test_the_separator_needs_no_blanks_where_it_can_be_nothing_else(words):
    assert split(words) == [["./a"], ["./b"]]


def test_a_separator_within_a_word_beside_others_is_refused_unless_it_is_quoted():
    with pytest.raises(InputError, match=r"write ./b ::: ./c, or quote"):
        split(["./a", ":::", "./b:::./c"])
    assert split(["sh -c 'echo a:::b'", ":::", "./c"]) == [["sh", "-c", "echo a:::b"], ["./c"]]


def test_a_file_may_have_the_separator_in_its_name(tmp_path):
    program = tmp_path / "a:::b"
    program.write_text("")
    assert split([str(program)]) == [[str(program)]]
