"""The C text of the functions that note where a rank is (``whereabouts.h``), made from the table of calls.

A function ``noted_X`` stands in front of whatever else takes the place of MPI's X, or of X itself, which it
calls by the pointer ``under_X``.
"""

import re
from collections.abc import Sequence

from workloads.native.calls import COLLECTIVES, Call, exported, indented, nonblocking, text_of

COLLECTIVE_CALLS = {*COLLECTIVES, *map(nonblocking, COLLECTIVES), *(f"{name}_init" for name in COLLECTIVES)}
COLLECTIVE_CALLS |= {"Comm_idup", "Comm_idup_with_info", "Win_fence", "Win_free"}
"""These calls are collective, and so are those of the kinds below: all ranks make them in the same order."""

COLLECTIVE_KINDS = ("collective", "meeting", "entering", "exposing")

STARTING = ("starting", "preparing", "lasting", "unrung", "advancing")
NOT_STARTING = ("Start", "Cancel", "Request_free")
"""Calls of these kinds, but for some, give a request that a later call waits for."""

MADE = re.compile(r"MPI_(Comm|Win) \*(newcomm|comm_\w+|intercomm|newintracomm|win)")
"""The argument by which a call returns the communicator or window that it makes."""


def is_collective(call: Call) -> bool:
    return call.kind in COLLECTIVE_KINDS or call.name.removesuffix("_c") in COLLECTIVE_CALLS


def declarations(calls: Sequence[Call]) -> str:
    """Text for ``declared.h``: the functions, and the pointers to those under them."""
    lines = []
    for call in calls:
        lines.append(f"extern __typeof__(((struct own_mpi *)0)->{call.name}) under_{call.name};")
        lines.append(f"int noted_{call.name}({call.parameters});")
    return exported(lines)


def definitions(calls: Sequence[Call]) -> str:
    """Text for ``made.c``."""
    names = ", ".join(f'"{call.name}"' for call in calls)
    lines = [
        '#include "whereabouts.h"',
        f"const char *const noted_calls[] = {{{names}}};",
        f"const int noted_count = {len(calls)};",
    ]
    for number, call in enumerate(calls):
        lines += _function(number, call)
    return text_of(*lines)


def _function(number: int, call: Call) -> list[str]:
    before, after = _around(number, call)
    return [
        f"__typeof__(mpi.{call.name}) under_{call.name};",
        f"int noted_{call.name}({call.parameters})",
        "{",
        *indented(before),
        f"    struct subject subject = {{{number}, {', '.join(_subject(call))}}};",
        "    struct noted noted __attribute__((cleanup(note_left))) =",
        "        note_entered(&subject, __builtin_frame_address(0));",
        f"    int error = under_{call.name}({call.passed});",
        "",
        *indented(after),
        f"    if (!error{_found(call)})",
        "        note_progress(&noted);",
        "    return error;",
        "}",
    ]


def _subject(call: Call) -> list[str]:
    """What the call is about: communicator, receiver, sender or root, tag, size and number of items."""
    names = set(call.names)
    tag = next((name for name in ("recvtag", "tag") if name in names and "comm" in names), "0")
    items = "0"
    item_bytes = "0"
    if "request" in names:
        items = "1"
    elif "requests" in names:
        items = "count"
    elif "dest" in names:
        sends = "sendtype" in names
        items = "sendcount" if sends else "count"
        item_bytes = f"item_bytes({'sendtype' if sends else 'datatype'})"
    return [
        _communicator(call),
        "PEER(dest)" if "dest" in names else "NO_PEER",
        next((f"PEER({name})" for name in ("source", "root") if name in names), "NO_PEER"),
        tag,
        item_bytes,
        items,
    ]


def _communicator(call: Call) -> str:
    names = set(call.names)
    if "win" in names and "comm" not in names:
        win = "win ? *win : MPI_WIN_NULL" if call.name == "Win_free" else "win"
        return f"note_collective(listed_window({win}))" if is_collective(call) else f"listed_window({win})"
    name = next((name for name in ("comm", "local_comm") if name in names), None)
    if name is None or call.name in ("Comm_free", "Comm_disconnect"):
        return "NOT_LISTED"
    return f"note_collective(listed({name}))" if is_collective(call) else f"listed({name})"


def _found(call: Call) -> str:
    """A test without success is no progress."""
    if call.kind != "polling":
        return ""
    return " && *flag" if "flag" in call.names else " && *outcount > 0"


def _around(number: int, call: Call) -> tuple[list[str], list[str]]:
    """Statements before the call, and after it."""
    if call.name == "Finalize":
        return ["note_stage(FINALIZING);"], ["note_stage(FINALIZED);"]
    if call.name == "Win_free":
        freed = ["if (!error)", "    note_window_freed(before);"]
        return ["MPI_Win before = win ? *win : MPI_WIN_NULL;"], freed
    if "MPI_Request *request" in call.arguments and call.kind in STARTING and call.name not in NOT_STARTING:
        return [], ["if (!error && request)", "    note_started(*request, &subject);"]
    made = next((match for argument in call.arguments if (match := MADE.fullmatch(argument))), None)
    if made is None or call.kind not in ("entering", "exposing"):
        return [], []
    what, name = made.groups()
    null = f"MPI_{what.upper()}_NULL"
    note = "communicator" if what == "Comm" else "window"
    # A call that succeeds may have made nothing: for this rank, or where a handler of errors returned.
    return (
        [f"MPI_{what} before = {name} ? *{name} : {null};", "", f"if ({name})", f"    *{name} = {null};"],
        [
            f"if (error && {name} && *{name} == {null})",
            f"    *{name} = before;",
            f"if (!error && {name})",
            f"    note_{note}(comm, *{name}, {number});",
        ],
    )
