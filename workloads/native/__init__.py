"""Two-phase waits for any MPI program: a library that is preloaded, made when it is first used.

The library has two parts. ``preload`` is preloaded into every process, and leaves alone what has no MPI;
``wrappers`` is made with the compiler wrapper of one MPI, and loaded where a program initializes that one.
docs/native.md says what programs get; the C files say how.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from workloads.launcher_names import OF_MPIS
from workloads.own_directories import check_way, private
from workloads.validation import LockstepError
from workloads.waiting_rules import Waiting


def recall(place: Path, question: str) -> str | None:
    """The answer that was kept for a question; None without one, or if a file under it has changed."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # none, or half of one
        kept = json.loads(_file(place, question).read_bytes())
        if all(_state(path) == state for path, state in kept["files"].items()):
            return str(kept["answer"])
    return None


def remember(place: Path, question: str, answer: str, files: Iterable[Path]) -> None:
    """Keep the answer to a question, which rests on these files; without room for it nothing is kept."""
    with suppress(OSError):
        kept = {"answer": answer, "files": {str(path): _state(path) for path in files}}
        _file(place, question).write_text(json.dumps(kept))  # a reader of half of it finds no JSON


def _file(place: Path, question: str) -> Path:
    return place / f"known-{hashlib.sha256(os.fsencode(question)).hexdigest()[:24]}"


def _state(path: str | Path) -> list[str | int]:
    """The state of the file at a path: another file there, or another content, has another one."""
    found = os.stat(path)  # noqa: PTH116 - twenty of them at each start
    # A link's own time is not enough: what it leads to may be exchanged.
    return [os.path.realpath(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns]


HERE = Path(__file__).parent
FLAGS = ("-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-std=gnu11", "-Wall", "-Wextra")
PRELOAD = ("-fno-builtin-dlsym", "-foptimize-sibling-calls", "-Wl,-z,nopack-relative-relocs")
"""Flags for ``preload``: it must work in old containers, and its dlsym must end in a jump."""
WRAPPERS = ("-fexceptions", "-pthread")
"""Flags for ``wrappers``: exceptions of C++ may pass it, and stop what has begun; it has a thread."""
OPERATIONS = "LOCKSTEP_OPERATIONS"  # names the directory for recordings

COMPILERS = re.compile("PATH$|CPATH$|C_INCLUDE_PATH$|GCC_|COMPILER_PATH$|MPICH_|OMPI_|OPAL_|I_MPI_|MPICC")
"""Environment variables that choose compilers and what wrappers pass to them."""


class NativeError(LockstepError):
    """The library cannot be made, and nothing can be done about it here."""

    exit_status = 2


@dataclass(frozen=True)
class Library:
    """The library made for one MPI."""

    preload: Path  # the library that is preloaded
    libraries: tuple[Path, ...]  # the files of that MPI
    needed: tuple[str, ...] = ()  # names of all libraries that programs of that MPI load

    def environment(
        self, waiting: Waiting, operations: Path | None = None, around: Mapping[str, str] = os.environ
    ) -> dict[str, str]:
        """What to set for a command so that its MPI programs wait by the rule; its MPI does the spinning.

        With a directory ``operations`` each rank leaves a recording there (docs/reference). What ``around``
        preloads stays.
        """
        numbers = (waiting.rule, waiting.switch_ns, waiting.round_trip_ns, waiting.fixed_ns)
        before = around.get("LD_PRELOAD", "")
        return {
            "LD_PRELOAD": f"{self.preload} {before}".strip(),
            "LOCKSTEP_WAITING": ",".join(map(str, numbers)),
            **({} if operations is None else {OPERATIONS: str(operations.absolute())}),
        }


def is_launcher(command: Sequence[str]) -> bool:
    """Whether a command is an mpiexec, by its name."""
    return bool(command) and Path(command[0]).name.partition(".")[0] in OF_MPIS


def wrapper(command: Sequence[str]) -> Path:
    """The compiler wrapper of a command's MPI: the one in the directory of its launcher, else mpicc."""
    launcher = shutil.which(command[0]) if is_launcher(command) else None
    if launcher:
        for beside in _wrappers_beside(Path(launcher)):
            if beside.exists():
                return beside
    found = shutil.which("mpicc")
    if found is None:
        raise NativeError(
            "no compiler wrapper mpicc beside the launcher or on the PATH: install the MPI's development "
            "package (Debian: libmpich-dev or libopenmpi-dev), or name the wrapper with --mpicc (exec, tune)"
        )
    return Path(found)


def _wrappers_beside(launcher: Path) -> Iterator[Path]:
    """Where the wrapper of a launcher's MPI may be, the surest first.

    Where several MPIs share a directory, a suffix tells them apart; a launcher without one of its MPI is
    also there under a name with it (Debian: mpiexec.hydra as mpiexec.mpich).
    """
    real = launcher.resolve()
    for folder in dict.fromkeys((launcher.parent, real.parent)):
        others = [other for name in OF_MPIS for other in sorted(folder.glob(f"{name}.*"))]
        same = [launcher, *(other for other in others if other.resolve() == real)]
        suffixes = dict.fromkeys("".join(one.name.partition(".")[1:]) for one in same)
        yield from (folder / f"mpicc{suffix}" for suffix in suffixes if suffix)
        yield folder / "mpicc"


def readable(made: Library, folder: Path) -> Library:
    """A copy of the library in ``folder``, a new directory: other users may read it, only we may change it.

    Raises:
        OSError: the copy cannot be made there, or others can change the way to it.
    """
    check_way(folder.parent)
    folder.mkdir(mode=0o700)
    for part in (made.preload, made.preload.with_name("wrappers.so")):
        copied = folder / part.name
        shutil.copyfile(part, copied)
        copied.chmod(0o644)
    folder.chmod(0o755)
    return replace(made, preload=folder / made.preload.name)


Tell = Callable[[str], None]
"""Gets a line for a person."""

Care = Callable[[Path], AbstractContextManager[object]]
"""Removes the directory that it is given, if this process is killed in this context."""


def of_command(
    command: Sequence[str], mpicc: str | None, tell: Tell, care: Care, leave: Set[str] = frozenset()
) -> Library:
    """The library for the MPI of a command, or of the wrapper ``mpicc``; the others as in ``library``."""
    if compiled := carried(command, leave):
        return compiled
    return library(Path(mpicc) if mpicc else wrapper(command), tell, care=care, leave=leave)


def library(
    mpicc: Path,
    tell: Tell = lambda line: None,
    care: Care = nullcontext,
    *,
    leave: Set[str] = frozenset(),
) -> Library:
    """The library for the MPI of a compiler wrapper: as it was made before, or made now.

    It is kept in the user's cache directory under a digest of our sources, the MPI's header and the
    compiler. ``tell`` gets a line when it is made, and one when its calls are tried first, because
    the MPI is unknown here. ``leave`` names calls that stay MPI's own.
    """
    place = _cache()
    question = _question(mpicc, leave)
    if (known := recall(place, question)) and (made := _made(place / known)):
        return made
    _check_compiler(
        "two-phase waits are compiled here",
        "or bring ~/.cache/lockstep from a host with the same MPI; "
        'programs run as they are without lockstep exec, and in experiments with waits = "mpi" and no record',
    )
    header = _run([str(mpicc), "-E", "-include", "mpi.h", "-x", "c", os.devnull])
    digest = hashlib.sha256(f"{mpicc} {_run([str(mpicc), '--version'])} {header} {FLAGS}".encode())
    digest.update(_digests(_sources()).encode())
    digest.update(" ".join(sorted(leave)).encode())
    folder = place / f"native-{digest.hexdigest()[:24]}"
    if not folder.exists():
        tell(f"compiling two-phase waits for the MPI of {mpicc} (once)")
        declared = set(re.findall(r"\bMPI_\w+(?=\s*\()", header))
        _make(partial(_compile, mpicc, declared, leave, tell), folder, care)
    made = _made(folder)
    if made is None:
        raise NativeError(f"{folder} is damaged: remove it")
    remember(place, question, folder.name, _rests_on(mpicc, header, made))
    return made


def carried(command: Sequence[str], leave: Set[str] = frozenset()) -> Library | None:
    """The library that another host has made for the same MPI, where there is no compiler; None with one.

    The user has brought it here in the cache directory. If libraries of several MPIs fit, it is the one for
    the MPI whose files are nearest to the command's launcher.
    """
    if shutil.which("cc"):
        return None
    fitting = []
    for folder in sorted(_cache().glob("native-*")):
        with suppress(OSError):  # not all files of its MPI are here
            made = _made(folder)
            if made and (folder / "origin").read_text() == _origin(made.libraries, leave):
                fitting.append(made)
    near = shutil.which(command[0]) or "/"
    return max(fitting, key=lambda made: len(os.path.commonpath([near, *made.libraries])), default=None)


def _origin(libraries: Sequence[Path], leave: Set[str]) -> str:
    """What a library was made from: our sources, the files of an MPI, and the calls left to it."""
    return _digests([*_sources(), *libraries]) + " ".join(sorted(leave))


def _digests(files: Iterable[Path]) -> str:
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}\n" for file in files)


def _made(folder: Path) -> Library | None:
    try:
        libraries = tuple(map(Path, (folder / "libraries").read_text().splitlines()))
        needed = tuple((folder / "needed").read_text().splitlines())
    except OSError:
        return None
    return Library(folder / "preload.so", libraries, needed)


def _question(mpicc: Path, leave: Set[str]) -> str:
    """What the library is asked for by: this Lockstep, the wrapper, and what may change it, but for files."""
    told = sorted(f"{name}={value}" for name, value in os.environ.items() if COMPILERS.match(name))
    wrapper_file = Path(shutil.which(mpicc) or mpicc).absolute()
    return "\n".join([*map(str, (HERE, wrapper_file)), *FLAGS, *told, *sorted(leave)])


def _rests_on(mpicc: Path, header: str, made: Library) -> Iterable[Path]:
    """The files that the library for a wrapper rests on: the compilers, all headers, the MPI, our sources."""
    compilers = filter(None, map(shutil.which, (str(mpicc), "cc", "gcc")))
    headers = re.findall(r'(?m)^# \d+ "(/[^"]+)"', header)
    return map(Path, dict.fromkeys([*compilers, *headers, *made.libraries, *_sources()]))


def compiled(source: Path, tell: Tell = lambda line: None, care: Care = nullcontext) -> Path:
    """The library of one C file that needs no MPI: as it was made before, or made now.

    It is kept like ``library``. ``tell`` gets a line when it is made.
    """
    text = f"{source.read_text()} {FLAGS} {os.uname().machine}"
    folder = _cache() / f"{source.stem}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    made = folder / f"{source.stem}.so"
    if not made.exists():
        _check_compiler("locks are compiled here", "patterns other than LOCK need none")
        tell(f"compiling {source.name} (once)")
        _make(lambda place: _compile_alone(source, place / made.name), folder, care)
    return made


def rule(folder: Path) -> Path:
    """The waiting rules alone, made in ``folder``, to be loaded into this process."""
    made = folder / "rule.so"
    _compile_alone(HERE / "waiting_rule.c", made)
    return made


def _compile_alone(source: Path, made: Path) -> None:
    _run(["cc", *FLAGS, "-fvisibility=default", "-o", str(made), str(source)])


def _check_compiler(reason: str, without: str) -> None:
    if shutil.which("cc") is None:
        raise NativeError(f"no C compiler cc on the PATH, and {reason}: install one (Debian: gcc); {without}")


def _sources() -> list[Path]:
    modules = [
        HERE / f"{name}.py" for name in ("__init__", "calls", "noted", "profiled", "recorded", "replacing")
    ]
    return [*sorted(HERE.glob("*.[ch]")), *modules, *sorted((HERE / "conformance").glob("*.[chp]*"))]


def _cache() -> Path:
    """Where libraries are kept; no other user can put or exchange one there, as long as programs load it."""
    remedy = "set XDG_CACHE_HOME to a directory of your own"
    try:
        place = private(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "lockstep"))
    except PermissionError as error:
        if error.errno is not None:  # the kernel's word, and none on other users
            raise NativeError(f"cannot keep the compiled library: {error}; {remedy}") from error
        raise NativeError(f"{error}, and a library from there would run as you; {remedy}") from error
    except (OSError, RuntimeError) as error:
        raise NativeError(f"cannot keep the compiled library: {error}; {remedy}") from error
    if re.search(r"[\s:;=$]", str(place)):
        raise NativeError(f"{str(place)!r} has a character that LD_PRELOAD cannot carry; {remedy} without it")
    if os.statvfs(place).f_flag & os.ST_NOEXEC:
        raise NativeError(f"{place} is mounted noexec, and no library from there can be loaded; {remedy}")
    return place


def _make(compile_into: Callable[[Path], None], folder: Path, care: Care) -> None:
    """Compile into ``folder``, which is there as a whole or not at all."""
    made = folder.parent / f".native-{os.urandom(8).hex()}"
    try:
        with care(made):
            made.mkdir(mode=0o700)
            try:
                compile_into(made)
                made.rename(folder)
            finally:
                shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        if not folder.exists():  # another process was faster
            raise NativeError(
                f"cannot keep the compiled library in {folder.parent}: {error.strerror}"
            ) from error


def _compile(mpicc: Path, declared: set[str], leave: Set[str], tell: Tell, made: Path) -> None:
    from workloads.native import calls, noted, profiled, recorded, replacing  # noqa: PLC0415 - rarely needed

    differing = _differing(mpicc, made, tell)
    covered = calls.covered(declared, differing)
    layers = (recorded, noted, profiled)
    declarations = [
        replacing.declarations(covered, declared),
        *(one.declarations(covered) for one in layers),
    ]
    definitions = [replacing.definitions(covered), *(one.definitions(covered) for one in layers)]
    (made / "declared.h").write_text("".join(declarations))
    (made / "made.c").write_text("".join(definitions))
    sources = [str(source) for source in sorted(HERE.glob("*.c")) if source.name != "preload.c"]
    include = [f"-I{made}", f"-I{HERE}"]
    words = [*FLAGS, *WRAPPERS, *include, "-o", str(made / "wrappers.so"), *sources, str(made / "made.c")]
    _run([str(mpicc), *words])
    if not (made / "wrappers.so").exists():
        raise NativeError(f"{mpicc} has made no library: name the mpicc of the programs' MPI with --mpicc")
    found = dict(re.findall(r"(?m)^\s*(\S+) => (/.*) \(0x", _run(["ldd", str(made / "wrappers.so")])))
    ours = [Path(path).resolve() for name, path in found.items() if name.startswith("libmpi")]
    (made / "libraries").write_text("\n".join(map(str, ours)))
    (made / "needed").write_text("\n".join(found))
    (made / "origin").write_text(_origin(ours, leave))
    left = {call.name for call in covered} - {call.name for call in calls.replaced(covered, differing, leave)}
    (made / "entries.h").write_text(replacing.entries(covered, left, ours))
    _run(["cc", *FLAGS, *PRELOAD, *include, "-o", str(made / "preload.so"), str(HERE / "preload.c")])


def _differing(mpicc: Path, made: Path, tell: Tell) -> set[str]:
    """The calls whose nonblocking forms differ in the MPI of a wrapper; ``made`` keeps what was found out."""
    from workloads.native import conformance  # noqa: PLC0415 - rarely needed

    macros = _run([str(mpicc), "-E", "-dM", "-include", "mpi.h", "-x", "c", os.devnull])
    if name := conformance.identity(macros):
        return set(conformance.FAULTS[name].split())
    tell(f"trying the calls of the MPI of {mpicc}, which Lockstep does not know (once)")
    program = made / "conformance"
    _run(conformance.compiling(mpicc, program))
    launcher = conformance.launcher_beside(mpicc)
    start = [str(launcher), "-n", str(conformance.RANKS)] if launcher else []
    outcomes = conformance.tried(program, start) or conformance.tried(program, [])
    (made / "outcomes").write_text("".join(f"{name} {found}\n" for name, found in outcomes.items()))
    if not outcomes:
        tell("they cannot be tried here")
    return conformance.differing(outcomes) | conformance.of_family(macros)


def _run(command: list[str]) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except OSError as error:
        raise NativeError(f"cannot run {command[0]}: {error.strerror}; a C compiler is needed") from error
    except subprocess.CalledProcessError as error:
        raise NativeError(f"{shlex.join(command)} failed:\n{error.stderr.strip()}") from error
