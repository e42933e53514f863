"""The compiled libraries that a Python program would load, from its text and its packages: nothing runs."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import Distribution, distributions
from pathlib import Path

from harness.measure.planned_launch import text_of
from workloads.shared_libraries import needed

MOST_MODULES = 200
"""Of the program itself, the files that are read."""

WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
ABI_STUBS = re.compile(r"MPI\.\w+\..*so")
"""Extensions of mpi4py for several MPIs, of which it loads one."""


def libraries(interpreter: Path, words: Sequence[str], variables: Mapping[str, str]) -> list[Path]:
    """The libraries that the imports of a program bring along, as far as they can be read.

    ``words`` are those behind the interpreter: options, and a script, ``-m`` with a module, or ``-c``.
    """
    places = [Path(one) for one in variables.get("PYTHONPATH", "").split(":") if one]
    source, folder = _program(words)
    modules = _imports(source, [folder, *places])
    extensions = list(_extensions(modules, [*places, *_installed(interpreter)]))
    stubs = [file for file in extensions if ABI_STUBS.fullmatch(file.name)]
    if len(stubs) > 1:
        extensions = [file for file in extensions if file not in stubs]
    return [
        *extensions,
        *(found or Path(name) for name, found in needed(*extensions, variables=variables).items()),
    ]


def _program(words: Sequence[str]) -> tuple[str, Path]:
    """The text of the program, or one that imports it, and the directory where its own modules are."""
    place = 0
    here = Path()
    while place < len(words) and words[place].startswith("-"):
        word = words[place]
        behind = "".join(words[place + 1 : place + 2])
        if word == "-c":
            return behind, here
        if word == "-m" and behind != "mpi4py":  # mpi4py runs what is named behind it
            return f"import {behind}" if all(map(str.isidentifier, behind.split("."))) else "", here
        place += 2 if word in ("-m", *WITH_VALUE) else 1
    script = Path(*words[place : place + 1])
    return text_of(script), script.parent


def _imports(source: str, folders: Sequence[Path]) -> list[str]:
    """The first parts of the modules that a program imports, also in its own modules in these folders."""
    texts = [source]
    seen = set[str]()
    foreign = list[str]()
    for text in texts:
        for name in _imported(text):
            first = name.partition(".")[0]
            if name in seen:
                continue
            seen.add(name)
            path = Path(*name.split("."))
            own = [
                folder / file
                for folder in folders
                for file in (path.with_suffix(".py"), path / "__init__.py")
            ]
            files = [file for file in own if file.is_file()]
            if files and len(texts) < MOST_MODULES:
                texts.append(text_of(files[0]))
            elif not files and first not in foreign:
                foreign.append(first)
    return foreign


def _imported(text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _installed(interpreter: Path) -> list[Path]:
    """The directories where packages for an interpreter are installed."""
    prefix = interpreter.absolute().parent.parent
    prefixes = [prefix]
    settings = text_of(prefix / "pyvenv.cfg")
    if re.search(r"(?mi)^include-system-site-packages *= *true", settings):
        prefixes += [Path(home).parent for home in re.findall(r"(?m)^home *= *(.+?) *$", settings)]
    patterns = [
        f"{place}lib/python3*/{name}-packages" for place in ("", "local/") for name in ("site", "dist")
    ]
    return [folder for one in prefixes for pattern in patterns for folder in sorted(one.glob(pattern))]


def _extensions(modules: Sequence[str], folders: Sequence[Path]) -> Iterator[Path]:
    """The shared libraries in the distributions of modules, and in those that these require."""
    installed = dict(_distributions(folders))
    coming = [_of_module(one, installed) for one in modules]
    seen = set[str]()
    for name in coming:
        one = installed.get(name)
        if one is None or name in seen:
            continue
        seen.add(name)
        listed = [file for file in one.files or () if ".so" in file.suffixes]
        yield from (Path(str(one.locate_file(file))) for file in listed)
        if not listed:  # a system's package
            for module in (one.read_text("top_level.txt") or name).split():
                yield from sorted(Path(str(one.locate_file(module))).rglob("*.so"))
        required = [text for text in one.requires or () if "extra ==" not in text]
        coming += [_normal(match[0]) for text in required if (match := re.match(r"[\w.-]+", text))]


def _distributions(folders: Sequence[Path]) -> Iterator[tuple[str, Distribution]]:
    """The distributions in directories, by name, without those that an interrupted installation left."""
    for one in distributions(path=list(map(str, folders))):
        with suppress(OSError, ValueError, KeyError, TypeError):  # TypeError: its name is None
            yield _normal(one.name), one


def _of_module(module: str, installed: Mapping[str, Distribution]) -> str:
    """The distribution of a module, by its name or by what it says that it installs."""
    if _normal(module) in installed:
        return _normal(module)
    tops = ((name, (one.read_text("top_level.txt") or "").split()) for name, one in installed.items())
    return next((name for name, modules in tops if module in modules), "")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def interpreter_of(script: Path) -> Path | None:
    """The interpreter that the first line of a file names, if it is Python."""
    with suppress(OSError, ValueError):
        if not script.is_file():
            return None
        with script.open() as file:
            words = file.readline(256).removeprefix("#!").split()
        found = shutil.which(words[-1]) if words and "python" in Path(words[-1]).name else None
        return Path(found) if found else None
    return None
