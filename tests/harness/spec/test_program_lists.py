"""Commands of beside and turns, as words."""

import pytest

from harness.spec.beside import lines, split


@pytest.mark.parametrize("name", ["with blank", "a\nb \"c'd", "a;b", "$x"])
def test_the_path_of_a_program_is_one_word_whatever_its_name(tmp_path, name):
    program = tmp_path / name
    program.write_text("")
    assert split([str(program), ":::", "echo 'a b'"]) == [[str(program)], ["echo", "a b"]]
    if "\n" not in name:
        assert lines(str(program)) == [[str(program)]]
