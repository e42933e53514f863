"""The C text of the functions that record calls, made from the table of calls.

Each notes what the call was when it has returned (``operation.h``). Calls that wait or test for requests
are written in C, in ``recorded.c``. ``KINDS`` are the kinds of operations in a recording.
"""

import re
from collections.abc import Sequence

from workloads.native.calls import COLLECTIVES, WAITS, Call, indented, nonblocking, text_of

SENDS = ("SEND", "SSEND", "BSEND")
KINDS = (
    *("COMPUTE", "MORE", "OTHER", "PROBE", "WAIT"),
    *(*SENDS, "RECV", *(f"I{name}" for name in SENDS), "IRECV"),
    *(*(name.upper() for name in COLLECTIVES), "COMMUNICATOR"),
    *(f"I{name.upper()}" for name in COLLECTIVES),
)
"""Kinds of operations by their numbers (docs/reference). From BARRIER on they are collective. Those with I
only start, and WAIT ends them. COMMUNICATOR makes one, or a window."""

RECEIVING = {"Recv", "Mrecv", "Imrecv", "Sendrecv", "Sendrecv_replace", "Isendrecv", "Isendrecv_replace"}
RECEIVING |= {"Probe", "Mprobe", "Iprobe", "Improbe"}
"""Of these a recording needs the status or the message, too."""

OF_REQUESTS: dict[str, tuple[list[str], list[str]]] = {
    "Start": ([], ["op_started(*request);"]),
    "Startall": ([], ["for (int number = 0; number < count; number++)", "    op_started(requests[number]);"]),
    "Request_free": (["MPI_Request before = *request;", ""], ["op_forget(before);"]),
}
"""Statements before and after calls that start and free requests."""

WRITTEN = {"Finalize", "Test", "Testall", "Testany", "Testsome"}
"""These are written in C, and so are other calls that wait."""


def declarations(calls: Sequence[Call]) -> str:
    """Text for ``declared.h``: the kinds, and for each call UNDER_X, the function that a recorded X calls."""
    lines = [f"enum {{ {', '.join(f'KIND_{kind}' for kind in KINDS)} }};"]
    for call in calls:
        as_mpi = f"timed_{call.name}" if call.kind in WAITS else f"mpi.{call.name}"
        ours = f"mpi.{call.name}" if call.kind == "preparing" else f"lockstep_{call.name}"
        if call.name == "Finalize":
            as_mpi = "timed_Finalize"
        lines.append(
            f"#define UNDER_{call.name}(...) (wait_as_mpi() ? {as_mpi}(__VA_ARGS__) : {ours}(__VA_ARGS__))"
        )
    return text_of(*lines)


def definitions(calls: Sequence[Call]) -> str:
    """Text for ``made.c``: the functions ``recorded_X`` that the C text does not have."""
    lines = ['#include "operation.h"']
    for call in calls:
        base = call.name.removesuffix("_c")
        if base in RECEIVING or base in OF_REQUESTS:
            lines += _function(call, *(OF_REQUESTS.get(base) or _receiving(call)))
        elif call.kind != "waiting" and base not in WRITTEN:
            lines += _function(call, [], _noted(call))
    return text_of(*lines)


def _function(call: Call, before: Sequence[str], noted: Sequence[str]) -> list[str]:
    return [
        f"int recorded_{call.name}({call.parameters})",
        "{",
        *indented(before),
        "    int outer __attribute__((cleanup(op_left))) = op_begin();",
        f"    int error = UNDER_{call.name}({call.passed});",
        *("", "    if (outer) {", "        op_returned();", "        if (!error) {"),
        *(f"            {line}" for line in noted),
        *("        }", "        op_end();", "    }", "    return error;", "}"),
    ]


OTHER = "op_add(KIND_OTHER, 0, NO_RANK, 0, OTHERS, 0);"


def _noted(call: Call) -> list[str]:
    """Lines that note a call that is not written in C."""
    if call.kind in ("advancing", "unrung", "polling"):
        found = "*flag" if "flag" in call.names else "*outcount"
        return [*([f"if ({found})"] if call.kind == "polling" else []), OTHER]
    base = call.name.removesuffix("_c").removesuffix("_init")
    if "partitions" in call.names:
        return []
    request = "request" if "request" in call.names else "NULL"
    prepared = int(call.kind in ("preparing", "lasting"))
    if call.kind in ("entering", "exposing"):
        made = next((name for name in call.names if re.match("newcomm|comm_", name)), None)
        note = [f"if (*{made} != MPI_COMM_NULL)", f"    members_of(*{made});"] if made else []
        return ["op_collective(KIND_COMMUNICATOR, 0, MPI_PROC_NULL, comm, NULL, 0);", *note]
    peer = next((name for name in ("dest", "source") if name in call.names), None)
    if peer:
        kind = _kind_of_message(base, started=request != "NULL")
        bytes_ = "op_bytes(count, datatype)"
        return [f"op_message(KIND_{kind}, {bytes_}, {peer}, tag, comm, {request}, {prepared});"]
    if base.startswith("Comm_idup"):
        return ["op_collective(KIND_IBARRIER, 0, MPI_PROC_NULL, comm, request, 0);"]
    blocking = next(name for name in COLLECTIVES if base in (name, nonblocking(name)))
    kind = ("I" if request != "NULL" else "") + blocking.upper()
    root = "root" if "root" in call.names else "MPI_PROC_NULL"
    lines, bytes_ = _bytes(blocking, call)
    if root == "root":  # negative in one of two groups, where some or all else is ignored
        bytes_ = f"root {'< 0' if 'sendtype' in call.names else '== MPI_PROC_NULL'} ? 0 : {bytes_}"
    return [*lines, f"op_collective(KIND_{kind}, {bytes_}, {root}, comm, {request}, {prepared});"]


def _kind_of_message(base: str, *, started: bool) -> str:
    name = base.lower().removeprefix("i")
    kind = {"recv": "RECV", "ssend": "SSEND", "bsend": "BSEND"}.get(
        name, "SEND"
    )  # a ready send is as a plain one
    return f"I{kind}" if started else kind


def _bytes(name: str, call: Call) -> tuple[list[str], str]:
    """Statements, and then an expression for the bytes that a rank gives in a collective operation.

    Where only the root gives, it is what a rank gets; docs/reference/recordings.md.
    """
    ours = "op_bytes(sendcount, sendtype)"
    theirs = "op_bytes(recvcount, recvtype)"
    block = f"(sendbuf == MPI_IN_PLACE ? {theirs} : {ours})"
    expressions = {
        "Barrier": "0",
        "Allgather": block,
        "Allgatherv": f"sendbuf == MPI_IN_PLACE ? op_bytes(recvcounts[op_rank(comm)], recvtype) : {ours}",
        "Alltoall": f"members_of(comm)->ranks * {block}",
        "Gather": block,
        "Gatherv": f"sendbuf == MPI_IN_PLACE ? op_bytes(recvcounts[op_rank(comm)], recvtype) : {ours}",
        "Scatter": f"recvbuf == MPI_IN_PLACE ? {ours} : {theirs}",
        "Scatterv": f"recvbuf == MPI_IN_PLACE ? 0 : {theirs}",
        "Reduce_scatter_block": "members_of(comm)->ranks * op_bytes(recvcount, datatype)",
        "Neighbor_alltoallv": "0",
        "Neighbor_alltoallw": "0",
    }
    terms = {
        "Reduce_scatter": "op_bytes(recvcounts[rank], datatype)",
        "Alltoallv": _both("recvcounts[rank], recvtype", "sendcounts[rank], sendtype"),
        "Alltoallw": _both("recvcounts[rank], recvtypes[rank]", "sendcounts[rank], sendtypes[rank]"),
    }
    if name in terms:
        return _loop(terms[name]), "bytes"
    plain = "op_bytes(count, datatype)" if "count" in call.names else ours
    return [], expressions.get(name, plain)


def _both(in_place: str, sent: str) -> str:
    return f"sendbuf == MPI_IN_PLACE ? op_bytes({in_place}) : op_bytes({sent})"


def _loop(term: str) -> list[str]:
    return [
        *("int64_t bytes = 0;", "int ranks = members_of(comm)->ranks;", ""),
        *("for (int rank = 0; rank < ranks; rank++)", f"    bytes += {term};"),
    ]


def _receiving(call: Call) -> tuple[list[str], list[str]]:
    """Statements before and after a call that receives or probes."""
    base = call.name.removesuffix("_c")
    if base in ("Mrecv", "Imrecv"):
        request = "request" if base == "Imrecv" else "NULL"
        return ["MPI_Message taken = *message;"], [
            f"op_received(taken, op_bytes(count, datatype), {request});"
        ]
    given = ("sendcount", "sendtype") if "sendcount" in call.names else ("count", "datatype")
    room = ("recvcount", "recvtype") if "recvcount" in call.names else ("count", "datatype")
    sent = f"op_bytes({', '.join(given)})"
    fits = f"op_bytes({', '.join(room)})"
    if base.startswith("Isendrecv"):
        return [], [
            f"op_message(KIND_ISEND, {sent}, dest, sendtag, comm, NULL, 0);",
            f"op_message(KIND_IRECV, {fits}, source, recvtag, comm, request, 0);",
        ]
    own = ["MPI_Status own;", "", "status = status == MPI_STATUS_IGNORE ? &own : status;"]
    if "probe" in base.lower():
        message = "message" if "message" in call.names else "NULL"
        polls = "flag" in call.names
        found = "if (*flag) " if polls else ""
        return own, [f"{found}op_probed(comm, status, {message}, {int(polls)});"]
    real = "source == MPI_ANY_SOURCE ? status->MPI_SOURCE : source"
    if base == "Recv":
        tag = "tag == MPI_ANY_TAG ? status->MPI_TAG : tag"
        return own, [f"op_message(KIND_RECV, op_bytes(count, datatype), {real}, {tag}, comm, NULL, 0);"]
    tag = "recvtag == MPI_ANY_TAG ? status->MPI_TAG : recvtag"
    return own, [f"op_exchanged({sent}, dest, sendtag, {fits}, {real}, {tag}, comm);"]
