"""The C text of the functions that take the places of MPI's, made from the table of calls.

Recording functions, which are made in the same way, are in ``recorded.py``.
"""

import json
import re
from collections.abc import Sequence, Set
from pathlib import Path

from workloads.native.calls import TWO_PHASE, WAITS, Call, exported, indented, text_of


def entries(calls: Sequence[Call], left: Set[str], libraries: Sequence[Path]) -> str:
    """``entries.h``: the files of an MPI, and an entry for each call; those of ``left`` stay MPI's own.

    Entries take each argument as wide as a register.
    """
    lines = [
        f"#define LIBRARIES {', '.join(_quoted(str(library)) for library in libraries)}",
        f"#define ENTRIES {len(calls)}",
        f"#define NAMES {', '.join(_quoted(call.name) for call in calls)}",
        f"#define LEFT {', '.join(str(int(call.name in left)) for call in calls)}",
        f"#define ENTRY_OF {', '.join(f'(any_function *)entry_{call.name}' for call in calls)}",
    ]
    for number, call in enumerate(calls):
        places = range(len(call.arguments))
        taken = ", ".join(f"word a{place}" for place in places) or "void"
        passed = ", ".join(f"a{place}" for place in places)
        lines.append(f"ENTRY({number}, {call.name}, ({taken}), ({passed}))")
    return text_of(*lines)


def _quoted(text: str) -> str:
    return json.dumps(text)


def declarations(calls: Sequence[Call], declared: Set[str]) -> str:
    """``declared.h``: MPI's own functions, and those that take their places."""
    names = _own(calls)
    members = [f"    __typeof__(PMPI_{name}) *{name};" for name in names]
    prototypes = [
        f"int {prefix}_{call.name}({call.parameters});"
        for prefix in ("lockstep", "timed", "recorded")
        for call in calls
        if prefix == "recorded" or call.kind in (WAITS if prefix == "timed" else TWO_PHASE)
    ]
    # To call one of these by its name would lead back to the entry.
    poisoned = " ".join(f"MPI_{name} PMPI_{name}" for name in names)
    lines = [
        f"#define LARGE_COUNTS {int('MPI_Recv_c' in declared)}",
        *("struct own_mpi {", *members, "};"),
        "int find_own_mpi(struct own_mpi *own, void *(*find)(const char *name));",
        exported(prototypes).rstrip(),
        f"#pragma GCC poison {poisoned}",
    ]
    return text_of(*lines)


def definitions(calls: Sequence[Call]) -> str:
    finds = [f'    FIND({name}, "PMPI_{name}")' for name in _own(calls)]
    lines = [
        '#include "wrappers.h"',
        "#define FIND(name, text) if ((own->name = (__typeof__(own->name))find(text)) == 0) return 0;",
        "int find_own_mpi(struct own_mpi *own, void *(*find)(const char *name))",
        *("{", *finds, "    return 1;", "}"),
    ]
    for call in calls:
        if call.kind in TWO_PHASE and call.kind not in ("own", "waiting"):
            lines += _function("lockstep", call, _body(call))
        if call.kind in WAITS:
            lines += _function("timed", call, _timed(call))
    return text_of(*lines)


def _own(calls: Sequence[Call]) -> list[str]:
    return sorted({name for call in calls for name in (call.name, call.needs)})


def _function(prefix: str, call: Call, body: Sequence[str]) -> list[str]:
    return [
        f"int {prefix}_{call.name}({call.parameters})",
        *("{", *indented(body), "}"),
    ]


def _timed(call: Call) -> list[str]:
    return [
        "int64_t begin_ns = now_ns();",
        f"int error = mpi.{call.name}({call.passed});",
        f"wait_timed({WAITS[call.kind]}, begin_ns);",
        "return error;",
    ]


def _carried(call: Call, request: str) -> list[str]:
    """Tell the next wait how much leaves this rank, once MPI has accepted it.

    A receive's count is only the room that it has. What MPI ignores need not be a datatype, and to look at
    one that is none would terminate the program.
    """
    for count, datatype in (("count", "datatype"), ("sendcount", "sendtype")):
        if not {count, datatype} <= set(call.names) or ("source" in call.names and "dest" not in call.names):
            continue
        accepted = [f"{request} != MPI_REQUEST_NULL"]
        if "dest" in call.names:
            accepted.append("dest != MPI_PROC_NULL")
        if "root" in call.names:
            from_root = re.match("I?(bcast|scatter)", call.name, re.IGNORECASE)
            accepted.append("is_root(comm, root)" if from_root else "root >= 0")  # else of two groups
        if datatype == "sendtype":
            accepted.append("sendbuf != MPI_IN_PLACE")
        return [f"if ({' && '.join(accepted)})", f"    wait_carries({count}, {datatype});"]
    return []


def _ignored(call: Call) -> list[str]:
    """Replace what MPI ignores in a blocking call, and nonblocking forms do not always ignore."""
    names = set(call.names)
    if call.name.startswith("Bcast"):
        return ["if (is_empty(datatype, comm))", "    count = 0;"]
    if not names & {"sendtype", "sendtypes"}:
        return []
    from_root = "Scatter" in call.name
    to_root = "Gather" in call.name
    lines = []
    if not call.name.startswith("Neighbor"):
        place = "recvbuf" if from_root else "sendbuf"
        lines += _alike(names, f"{place} == MPI_IN_PLACE", "recv" if from_root else "send")
    if from_root or to_root:
        lines += _alike(names, "!is_root(comm, root)", "send" if from_root else "recv")
    if call.name.startswith("Alltoallv"):
        for side in ("send", "recv"):
            lines += [f"if (is_empty({side}type, comm))", f"    {side}counts = no_counts(comm);"]
    return lines


def _alike(names: Set[str], where: str, side: str) -> list[str]:
    """Where this holds, let one side's counts and datatypes be the other's."""
    other = {"send": "recv", "recv": "send"}[side]
    lines = [
        f"    {name} = {name.replace(side, other, 1)};"
        for name in (f"{side}counts", f"{side}type", f"{side}types")
        if name in names and name.replace(side, other, 1) in names
    ]
    lines += [f"    {side}count = 0;"] if f"{side}count" in names else []
    lines += ["    sdispls = rdispls;"] if "sdispls" in names else []
    return [f"if ({where}) {{", *lines, "}"]


def _body(call: Call) -> list[str]:
    """The lines that take the place of a call."""
    met = f"return error ? error : mpi.{call.name}({call.passed});"
    if call.kind in ("meeting", "entering", "exposing"):
        brief = ["nap_briefly();"] if call.kind == "exposing" else []
        return ["int error = stays_own(comm) ? MPI_SUCCESS : wait_entered(comm);", *brief, met]
    own = f"error = mpi.{call.name}({call.passed})"
    if call.kind == "polling":
        found = "flag" if "flag" in call.names else "outcount"
        begun = "int announced __attribute__((cleanup(poll_left))) = poll_begin();"
        return [begun, f"int {own};", "", f"return poll_end(&announced, error, {found});"]
    if call.kind in ("advancing", "lasting", "unrung"):
        then = "nap_briefly();" if call.kind == "unrung" else "ring_all();"
        lasts = ["requests_last();"] if call.kind == "lasting" or call.name == "Grequest_start" else []
        lasts += ["requests_of_files();"] if re.match("File_i.*_all", call.name) else []
        made = [f"int {own};", ""]
        if call.name.startswith("Win_"):  # in which ranks often wait
            made = ["int error;", "", "wait_own(1);", f"{own};", "wait_own(0);"]
        return [*made, *lasts, then, "return error;"]
    peers = [name for name in ("dest", "source") if name in call.names]
    if call.kind == "starting":
        rings = [f"ring_receiver(comm, {peer});" for peer in peers] or ["collective_started(comm);"]
        rung = ["if (!error) {", *(f"    {ring}" for ring in rings), "}", "return error;"]
        if "request" not in call.names:
            return [f"int {own};", *rung]
        started = ", ".join([*call.names[:-1], "request ? &made : request"])
        before = ["idup_starts(comm);"] if call.name.startswith("Comm_idup") else []
        return [
            "MPI_Request made = MPI_REQUEST_NULL;",
            *("int error;", "", *before, f"error = mpi.{call.name}({started});"),
            *("if (!error && request)", "    *request = made;"),
            *_carried(call, "made"),
            *rung,
        ]
    wait = f"wait_sent(&request, comm, {peers[0]})" if peers else "wait_collective(&request, comm)"
    remote = "stays_own(comm) || spans_groups(comm)" if "root" in call.names else "stays_own(comm)"
    own = "dest == MPI_PROC_NULL" if peers else remote  # which fails where the communicator was revoked
    plain = [f"if ({own})", f"    return mpi.{call.name}({call.passed});"]
    start = f"error = mpi.{call.needs}({call.passed}, &request);"
    if call.meets_in_place:
        plain += ["if (sendbuf == MPI_IN_PLACE) {", "    error = wait_entered(comm);", f"    {met}", "}"]
    plain += _ignored(call)
    carried = _carried(call, "request")
    return [
        *("MPI_Request request = MPI_REQUEST_NULL;", "int error;", *plain, start, *carried),
        f"return error ? error : {wait};",
    ]
