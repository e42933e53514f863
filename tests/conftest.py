"""What all tests share: a process that can be interrupted, however it was started, and emulated hosts."""

import os
import signal
import site

import pytest
from golden import Golden
from netns_cluster import reused, unavailable


def pytest_addoption(parser):
    parser.addoption("--renew", action="store_true", help="write the golden files again")


def pytest_configure(config):
    """Undo what a shell does to jobs in the background (and nohup), which children would inherit."""
    if not config.getoption("with_mpi", False):  # those tests have no use for what takes long to import
        from hypothesis import HealthCheck, settings  # noqa: PLC0415

        # No test rests on time, nor on chance: new examples are drawn on request only.
        slow = [HealthCheck.too_slow]
        same = not os.environ.get("LOCKSTEP_NEW_EXAMPLES")
        settings.register_profile("lockstep", deadline=None, suppress_health_check=slow, derandomize=same)
        settings.load_profile("lockstep")
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    usual |= {signal.SIGQUIT: signal.SIG_DFL}
    for signum, handler in usual.items():
        if signal.getsignal(signum) is signal.SIG_IGN:
            signal.signal(signum, handler)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Have the usual tests run in two processes, if pytest-xdist is there and ``-n`` says nothing else.

    Most tests wait, and real runs take two processors. One file, and what is marked, has one process.
    The files keep their order, which ``pytest_collection_modifyitems`` chooses.
    """
    option = config.option
    usual = "not slow" in option.markexpr or "not soak" in option.markexpr
    several = len(config.args) > 1 or ".py" not in config.args[0]
    alone = option.usepdb or getattr(option, "with_mpi", False) or hasattr(config, "workerinput")
    if usual and several and not alone and getattr(option, "numprocesses", 0) is None:
        option.numprocesses, option.dist = 2, "loadfile"  # a worker has whole files
        option.loadscopereorder = False  # else files of few tests, however long these take, would be last


@pytest.fixture(autouse=True)
def _alone(monkeypatch, request):
    """No test rests on what else runs on this host."""
    if not request.config.getoption("with_mpi", False):
        from among_others import once  # noqa: PLC0415 # tests that run on ranks do without

        once(monkeypatch.setattr)


@pytest.fixture
def uncalibrated(monkeypatch):
    """Runs have nominal constants."""
    from among_others import uncalibrated  # noqa: PLC0415 # as above

    uncalibrated(monkeypatch.setattr)


def pytest_collection_modifyitems(config, items):
    """Leave files without slow tests for the end, so that all processes end at about the same time.

    The first file compiles the kernel of processes, and the rooms beside it simulate nothing: no two test
    processes compile the same.
    """
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: (item.path not in slow, _place(item.path)))


def _place(file):
    """Where a file comes in the order of the files that have slow tests."""
    if file.name == "test_simulator_reference.py":
        return 0
    return 1 if file.parent.name in ("workloads", "host") else 2


REAL = {"again", "compiled", "host", "hosts", "newest"}
"""Fixtures of real processes, whose tests are slow."""


def pytest_itemcollected(item):
    if REAL & {*getattr(item, "fixturenames", ())}:
        item.add_marker(pytest.mark.slow)


OF_USERS = {"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "MPLCONFIGDIR", "MATPLOTLIBRC"}
OF_USERS |= {"PYTEST_ADDOPTS"}
"""Variables that name places beside the home, or options: this session has read those, others do without."""


def pytest_sessionstart(session):
    """Begin with an empty home, before anything of ours is imported: it finds its places there.

    Test processes, which start later and inherit it, and the commands that tests start share it, so
    that each kernel and library is compiled once. ``NUMBA_CACHE_DIR`` keeps kernels from one session to
    the next.
    """
    config = session.config
    if hasattr(config, "workerinput") or config.getoption("with_mpi", False):
        return
    home = config._tmp_path_factory.getbasetemp() / "home"
    home.mkdir(mode=0o700)
    os.environ |= {"PYTHONUSERBASE": site.getuserbase(), "HOME": str(home)}  # packages there belong to Python
    for name in OF_USERS & os.environ.keys():
        del os.environ[name]


@pytest.fixture(scope="session", autouse=True)
def _apart(request):
    """Tests find nothing that stands in the checkout, nor the runs of tests beside them.

    They begin in an empty directory, and leave none of MPI's files, whose places it does not let us choose.
    """
    if request.config.getoption("with_mpi", False):
        yield None
        return
    factory = request.getfixturevalue("tmp_path_factory")
    runtime = factory.mktemp("r")  # a short name, for sockets in it
    empty = factory.mktemp("empty")
    began_s = empty.stat().st_ctime
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        # With it each of some thousand starts of Python would compile all modules.
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.chdir(empty)
        yield empty
        from coordinator.host import cleanup  # noqa: PLC0415 # tests that run on ranks do without

        with cleanup.leftovers(everything=False) as (found, _):
            assert not [run for run in found if run.path.is_relative_to(runtime)]
        cleanup.remove_files(began_s)  # those of MPI's launchers that tests start themselves, and end


@pytest.fixture(autouse=True)
def _leaves_nothing(_apart):
    """What a test left in the directory where it began would be there for the next one."""
    yield
    left = os.listdir(_apart) if _apart else []  # noqa: PTH208 - it counts, for each test
    assert not left, f"a test that writes files changes to a directory of its own: {left}"


@pytest.fixture
def golden(request):
    return Golden(request.config.getoption("renew"))


@pytest.fixture(scope="module")
def clusters():
    """A function that gives two emulated hosts and a head."""
    if reason := unavailable():
        pytest.skip(reason)
    with reused(2) as give:
        yield give


@pytest.fixture
def hosts(clusters):
    """Two emulated hosts and a head, on which nothing is left of another test."""
    return clusters()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """A function that compiles one of the programs of ``tests/support/native`` for an MPI, once."""
    from native_programs import compiled_in  # noqa: PLC0415 # tests that run on ranks do without

    return compiled_in(tmp_path_factory.mktemp("programs"))
