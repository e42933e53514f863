"""Whatever the library's variables say, a program ends as without the library, and soon.

``LOCKSTEP_VARIABLES`` says how many sets of values the long form tries.
"""

import os
import random
import subprocess
import sys

import pytest
from native_programs import PROGRAMS, launcher, wrapper

from workloads import native

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("LOCKSTEP_VARIABLES", "200"))
PATIENCE_S = 10.0

NUMBERS = ("0", "-1", "1", "7", "1e9", "9223372036854775807", "-9223372036854775808", "9" * 40, "nan", "")
TEXTS = (
    *NUMBERS,
    "x",
    ",",
    ",,,",
    "%s%n",
    "é\n",
    "\udcff\udcfe",
    "a" * 5000,
    "/",
    "/dev/null",
    "/no/such",
    ".",
    " ",
    "\t5",
)
WORDS = ("LOCKSTEP_RECORD", "LOCKSTEP_OPERATIONS", "LOCKSTEP_IF_OVERSUBSCRIBED")
HOSTS = ("", "localhost", "127.0.0.1", "no.such.host.invalid", "256.1.1.1", "::1", "a" * 300)

CHOSEN = (
    {"LOCKSTEP_WAITING": "0,9223372036854775807,9223372036854775807,9223372036854775807"},
    {"LOCKSTEP_WAITING": "2,-9223372036854775808,-1,-9223372036854775808"},
    {"LOCKSTEP_WAITING": "4,9223372036854775807,-9223372036854775808,0"},
    {"LOCKSTEP_WAITING": "-7,0,0,0"},
    {"LOCKSTEP_REGISTRAR": "k" * 2000 + ",/no/such,1,127.0.0.1"},
    {"LOCKSTEP_REGISTRAR": "key,/dev/null,99999999999,256.1.1.1,"},
    {"LOCKSTEP_RECORD": "/dev/null", "LOCKSTEP_LISTENER": "a" * 5000, "LOCKSTEP_OPERATIONS": "/dev/null"},
    {"LOCKSTEP_OPERATIONS": ".", "LOCKSTEP_OPERATIONS_BYTES": "-9223372036854775808"},
)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A command of two ranks, and the variables that load the library into them."""
    folder = tmp_path_factory.mktemp("absurd")
    binary = folder / "bsp"
    subprocess.run([wrapper("here"), "-O1", "-o", binary, PROGRAMS / "bsp.c"], check=True)
    library = native.library(wrapper("here"))
    return [*launcher("here"), "-n", "2", str(binary), "20", "1", "300"], {"LD_PRELOAD": str(library.preload)}


def ends(program, tmp_path, variables):
    argv, loading = program
    keywords = {"cwd": tmp_path, "env": {**os.environ, **loading, **variables}, "capture_output": True}
    result = subprocess.run(argv, **keywords, timeout=PATIENCE_S, check=False)
    assert result.returncode == 0, (variables, result.stderr[-2000:])
    assert result.stdout.split()[1] == b"600", (variables, result.stdout)


@pytest.mark.parametrize("variables", CHOSEN, ids=",".join)
def test_a_program_ends_under_absurd_variables(program, tmp_path, variables):
    ends(program, tmp_path, variables)


def absurd(chance):
    """Some of the library's variables, with numbers, texts and addresses that mean nothing."""
    variables = {
        "LOCKSTEP_WAITING": ",".join(chance.choices(NUMBERS, k=4)),
        "LOCKSTEP_REGISTRAR": ",".join([*chance.choices(TEXTS, k=3), *chance.choices(HOSTS, k=2)]),
        "LOCKSTEP_LISTENER": ",".join(chance.choices(TEXTS, k=2)),
        **{
            f"LOCKSTEP_{name}": chance.choice(TEXTS) for name in ("RECORD", "OPERATIONS", "IF_OVERSUBSCRIBED")
        },
        "LOCKSTEP_OPERATIONS_BYTES": chance.choice(NUMBERS),
    }
    return {name: variables[name] for name in chance.sample(sorted(variables), chance.randrange(1, 4))}


@pytest.mark.soak
def test_a_program_ends_under_many_absurd_variables(program, tmp_path):
    seed = os.environ.get("LOCKSTEP_VARIABLES_SEED", str(random.randrange(10**6)))
    sys.stdout.write(f"LOCKSTEP_VARIABLES={COUNT} LOCKSTEP_VARIABLES_SEED={seed}\n")
    for number in range(COUNT):
        ends(program, tmp_path, absurd(random.Random(f"{seed}-{number}")))
