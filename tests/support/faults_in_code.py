"""Small faults in the product's own text, and the tests of a file: what ``planted_faults.py`` draws from.

A fault is what a hurried developer writes: another comparison, a sum for a difference, a bound that is off by
one, a condition turned round, a call left out. Nothing here knows what the code does.
"""

import ast
import random
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOMS = ("workloads", "coordinator", "harness", "slurm", "lockstep")

COMPARISONS = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
ARITHMETIC = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "//",
    ast.LShift: ">>",
    ast.RShift: "<<",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}
OTHER_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
TEXTS = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set)

C_TOKEN = re.compile(
    r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|/\*.*?\*/|//[^\n]*|^[ \t]*#(?:\\\n|[^\n])*'
    r"|[A-Za-z_]\w*|0[xX][\da-fA-F]+|\d+|<<=|>>=|[<>=!+\-*/&|]=|&&|\|\||<<|>>|\+\+|--|->|.",
    re.S | re.M,
)
C_OTHER = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"},
    **{"+": "-", "+=": "-=", "-=": "+=", "<<": ">>", ">>": "<<", "|=": "&=", "&=": "|="},
}
C_CALL = re.compile(r"^[ \t]+[a-z_]\w*\([^;{}]*\);$", re.M)


@dataclass(frozen=True)
class Fault:
    """A text of a file in another text's place; ``begin`` and ``end`` are offsets in bytes."""

    file: str
    line: int
    kind: str
    begin: int
    end: int
    new: str

    def planted(self, source):
        return source[: self.begin] + self.new.encode() + source[self.end :]


def draw(root, count, seed, *, c, only=""):
    """Different faults, each place as likely as any other, in an order that ``seed`` decides."""
    suffixes = (".c", ".h") if c else (".py",)
    files = [file for file in _tracked(root) if file.endswith(suffixes) and file.startswith(only)]
    of_file = in_c if c else in_python
    places = [fault for file in files for fault in of_file(file, (root / file).read_bytes())]
    chosen = random.Random(seed).sample(places, k=min(len(places), 4 * count))
    valid = (fault for fault in chosen if compiles(root, fault))
    return [fault for fault, _ in zip(valid, range(count), strict=False)]


def compiles(root, fault):
    """Whether the file with its fault is still a text of its language."""
    source = fault.planted((root / fault.file).read_bytes())
    if fault.file.endswith(".py"):
        try:
            ast.parse(source)
        except SyntaxError:
            return False
        return True
    if fault.file.endswith(".h"):
        return True
    command = ["mpicc", "-x", "c", "-fsyntax-only", "-I", str((root / fault.file).parent), "-"]
    return subprocess.run(command, input=source, stderr=subprocess.DEVNULL, check=False).returncode == 0


def in_python(file, source):
    """The faults that a module can have; none in annotations, texts and what is raised."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def fault(node, kind, new):
        assert node.end_lineno is not None and node.end_col_offset is not None
        begin = starts[node.lineno - 1] + node.col_offset
        return Fault(file, node.lineno, kind, begin, starts[node.end_lineno - 1] + node.end_col_offset, new)

    for node in _code(ast.parse(source)):
        for kind, new in _changes(node):
            yield fault(node, kind, new)


def in_c(file, source):
    text = source.decode("latin-1")  # a byte a character

    def line_of(match):
        return text.count("\n", 0, match.start()) + 1

    for match in C_TOKEN.finditer(text):
        word = match.group()
        new = C_OTHER.get(word) or (str(int(word) + 1) if word.isdigit() else None)
        if new:
            yield Fault(file, line_of(match), f"{word} becomes {new}", *match.span(), new)
    for match in C_CALL.finditer(text):
        yield Fault(file, line_of(match), "a call left out", *match.span(), ";")


def _code(tree):
    """The nodes below ``tree`` that do something when the program runs."""
    for field, value in ast.iter_fields(tree):
        if field in {"annotation", "returns", "type_params", "decorator_list"} or isinstance(tree, ast.Raise):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom):
                continue
            if isinstance(node, ast.expr | ast.stmt):
                yield node
            yield from _code(node)


def _changes(node):  # noqa: PLR0912 - a branch a kind
    """What each kind of fault makes of a node: its name, and the text in the node's place."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            new = COMPARISONS[type(op)]
            yield f"comparison: {new}", f"({ast.unparse(left)} {new} {ast.unparse(right)})"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            if not any(isinstance(side, TEXTS) or _text(side) for side in (left, right)):
                new = ARITHMETIC[type(op)]
                yield f"arithmetic: {new}", f"({_inner(left)} {new} {_inner(right)})"
        case ast.BoolOp(op=op, values=values):
            new = "or" if isinstance(op, ast.And) else "and"
            yield f"boolean: {new}", "(" + f" {new} ".join(map(_inner, values)) + ")"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not left out", _inner(operand)
        case ast.Constant(value=bool() as value):
            yield f"constant: {not value}", str(not value)
        case ast.Constant(value=int() as value):
            yield f"constant: {value + 1}", str(value + 1)
        case ast.Constant(value=float() as value):
            yield f"constant: {value * 2 or 1.0}", repr(value * 2 or 1.0)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield "branches exchanged", f"({_inner(orelse)} if {_inner(test)} else {_inner(body)})"
        case ast.Expr(value=ast.Call()):
            yield "call left out", "pass"
        case ast.AugAssign(target=target, op=ast.Add() | ast.Sub() as op, value=value):
            new = "-=" if isinstance(op, ast.Add) else "+="
            yield f"assignment: {new}", f"{ast.unparse(target)} {new} {ast.unparse(value)}"
        case ast.Continue():
            yield "break for continue", "break"
        case ast.Call(func=ast.Name(id=name)) if name in OTHER_CALLS:
            yield f"call: {OTHER_CALLS[name]}", OTHER_CALLS[name] + ast.unparse(node)[len(name) :]
        case ast.Call(keywords=[*_, ast.keyword(arg=str() as name)]):
            fewer = ast.Call(node.func, node.args, node.keywords[:-1])
            yield f"argument left out: {name}", ast.unparse(fewer)


def _inner(node):
    return f"({ast.unparse(node)})"


def _text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


@cache
def _tracked(root):
    listed = subprocess.check_output(["git", "ls-files", *ROOMS], cwd=root, text=True)
    return tuple(listed.splitlines())


def room(file):
    """The folder of a file's room: ``harness/analyse``, or the top level where it has none inside."""
    parts = Path(file).parent.parts
    return "/".join(parts[:2]) if parts[0] in {"harness", "coordinator"} and len(parts) > 1 else parts[0]


def tests_of(root, file):
    """The tests that a developer would run for a file: those that import its module, then those of its room.

    A source in C stands for the package that it lies in. A room with others inside has no tests of its own.
    """
    module = file[: -len(".py")].replace("/", ".") if file.endswith(".py") else _package(root, file)
    module = module.removesuffix(".__init__")
    own = f"tests/{room(file)}"
    importing = [test for test, names in _imports(root).items() if module in names]
    return sorted(importing) + sorted(
        test for test in _imports(root) if str(Path(test).parent) == own and test not in importing
    )


def _package(root, file):
    folder = Path(file).parent
    while not (root / folder / "__init__.py").exists():
        folder = folder.parent
    stem = folder / f"{Path(file).stem}.py"
    module = stem.with_suffix("") if (root / stem).exists() else folder
    return str(module).replace("/", ".")


@cache
def _imports(root):
    """The modules that each file of tests imports."""
    paths = (path for path in (root / "tests").rglob("test_*.py") if "mpi" not in path.parent.parts)
    return {str(path.relative_to(root)): _named(path) for path in paths}  # those run on ranks are apart


def _named(path):
    names = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names
