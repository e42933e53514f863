"""The MPI calls that the preload covers, and the C text that is made from this table.

One line a call: what kind it is, its name, its arguments as in the MPI standard. COUNT is ``int``,
and ``MPI_Count`` in the form of the call that ends in ``_c``; DISPL likewise ``int`` and
``MPI_Aint``. The kinds:

- collective: becomes its nonblocking form and a two-phase wait in it; a program's own nonblocking
  form is MPI's own, after which all who wait are woken
- meeting: a collective operation whose nonblocking form has faults in this MPI: waits two-phase until all
  ranks of ``comm`` have called it, then is MPI's
- entering: the same, for a call that makes a communicator
- exposing: the same; from then on sleepers nap briefly, since others may need their progress at any time
- sending: a blocking send; becomes its nonblocking form and a two-phase wait
- starting: MPI's own, after which the peer (``dest`` or ``source``) is woken if it waits for this rank
- waiting: written in C, in ``receive.h`` (with its ``_c`` form) and ``complete.c``
- own: likewise, but nobody waits in it; a program that only polls naps
- preparing: stays MPI's own, and makes a request that ``Start`` starts; only recordings note it
- lasting: likewise, for a collective operation or a message in parts; from then on ``Waitall`` tests its
  requests one by one
- noted: likewise; somebody may wait in it, and nothing more is known (a window's or a file's)

Under the rule ``spin`` the calls in which somebody waits stay MPI's own, and are timed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

CALLS = """
collective Barrier(MPI_Comm comm)
collective Bcast(void *buffer, COUNT count, MPI_Datatype datatype, int root, MPI_Comm comm)
collective Gather(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm)
collective Gatherv(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, const COUNT recvcounts[], const DISPL displs[], MPI_Datatype recvtype, int root, MPI_Comm comm)
collective Scatter(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm)
collective Scatterv(const void *sendbuf, const COUNT sendcounts[], const DISPL displs[], MPI_Datatype sendtype, void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm)
collective Allgather(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, MPI_Comm comm)
collective Allgatherv(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, const COUNT recvcounts[], const DISPL displs[], MPI_Datatype recvtype, MPI_Comm comm)
collective Alltoall(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, MPI_Comm comm)
collective Alltoallv(const void *sendbuf, const COUNT sendcounts[], const DISPL sdispls[], MPI_Datatype sendtype, void *recvbuf, const COUNT recvcounts[], const DISPL rdispls[], MPI_Datatype recvtype, MPI_Comm comm)
collective Alltoallw(const void *sendbuf, const COUNT sendcounts[], const DISPL sdispls[], const MPI_Datatype sendtypes[], void *recvbuf, const COUNT recvcounts[], const DISPL rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm)
collective Reduce(const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm)
collective Allreduce(const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
collective Reduce_scatter(const void *sendbuf, void *recvbuf, const COUNT recvcounts[], MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
collective Reduce_scatter_block(const void *sendbuf, void *recvbuf, COUNT recvcount, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
collective Scan(const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
collective Exscan(const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
collective Neighbor_allgather(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, MPI_Comm comm)
collective Neighbor_allgatherv(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, const COUNT recvcounts[], const DISPL displs[], MPI_Datatype recvtype, MPI_Comm comm)
collective Neighbor_alltoall(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, MPI_Comm comm)
collective Neighbor_alltoallv(const void *sendbuf, const COUNT sendcounts[], const DISPL sdispls[], MPI_Datatype sendtype, void *recvbuf, const COUNT recvcounts[], const DISPL rdispls[], MPI_Datatype recvtype, MPI_Comm comm)
collective Neighbor_alltoallw(const void *sendbuf, const COUNT sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[], void *recvbuf, const COUNT recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm)

entering Comm_dup(MPI_Comm comm, MPI_Comm *newcomm)
entering Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm)
entering Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *newcomm)
entering Comm_split_type(MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm *newcomm)
entering Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *newcomm)
entering Cart_create(MPI_Comm comm, int ndims, const int dims[], const int periods[], int reorder, MPI_Comm *comm_cart)
entering Cart_sub(MPI_Comm comm, const int remain_dims[], MPI_Comm *newcomm)
entering Graph_create(MPI_Comm comm, int nnodes, const int index[], const int edges[], int reorder, MPI_Comm *comm_graph)
entering Dist_graph_create(MPI_Comm comm, int n, const int sources[], const int degrees[], const int destinations[], const int weights[], MPI_Info info, int reorder, MPI_Comm *comm_dist_graph)
entering Dist_graph_create_adjacent(MPI_Comm comm, int indegree, const int sources[], const int sourceweights[], int outdegree, const int destinations[], const int destweights[], MPI_Info info, int reorder, MPI_Comm *comm_dist_graph)
entering Intercomm_merge(MPI_Comm comm, int high, MPI_Comm *newintracomm)

exposing Win_create(void *base, MPI_Aint size, DISPL disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win *win)
exposing Win_allocate(MPI_Aint size, DISPL disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr, MPI_Win *win)
exposing Win_allocate_shared(MPI_Aint size, DISPL disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr, MPI_Win *win)
exposing Win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win *win)

sending Send(const void *buf, COUNT count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
sending Ssend(const void *buf, COUNT count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
sending Rsend(const void *buf, COUNT count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)

starting Bsend(const void *buf, COUNT count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
starting Isend(const void *buf, COUNT count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request)
starting Ibsend(const void *buf, COUNT count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request)
starting Issend(const void *buf, COUNT count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request)
starting Irsend(const void *buf, COUNT count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request)
starting Irecv(void *buf, COUNT count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request)

preparing Send_init(const void *buf, COUNT count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request)
preparing Bsend_init(const void *buf, COUNT count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request)
preparing Ssend_init(const void *buf, COUNT count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request)
preparing Rsend_init(const void *buf, COUNT count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request)
preparing Recv_init(void *buf, COUNT count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request)

lasting Psend_init(const void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request)
lasting Precv_init(void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request)

waiting Recv(void *buf, COUNT count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status)
waiting Mrecv(void *buf, COUNT count, MPI_Datatype datatype, MPI_Message *message, MPI_Status *status)
waiting Sendrecv(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status *status)
waiting Sendrecv_replace(void *buf, COUNT count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag, MPI_Comm comm, MPI_Status *status)
waiting Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
waiting Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
waiting Wait(MPI_Request *request, MPI_Status *status)
waiting Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
waiting Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
waiting Waitsome(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
own Test(MPI_Request *request, int *flag, MPI_Status *status)
own Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
own Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
own Testsome(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
own Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
own Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
own Start(MPI_Request *request)
own Startall(int count, MPI_Request requests[])
own Finalize(void)

noted Imrecv(void *buf, COUNT count, MPI_Datatype datatype, MPI_Message *message, MPI_Request *request)
noted Request_free(MPI_Request *request)
noted Win_fence(int assert, MPI_Win win)
noted Win_free(MPI_Win *win)
noted Win_lock(int lock_type, int rank, int assert, MPI_Win win)
noted Win_lock_all(int assert, MPI_Win win)
noted Win_unlock(int rank, MPI_Win win)
noted Win_unlock_all(MPI_Win win)
noted Win_flush(int rank, MPI_Win win)
noted Win_flush_all(MPI_Win win)
noted Win_start(MPI_Group group, int assert, MPI_Win win)
noted Win_complete(MPI_Win win)
noted Win_wait(MPI_Win win)
noted File_open(MPI_Comm comm, const char *filename, int amode, MPI_Info info, MPI_File *fh)
noted File_close(MPI_File *fh)
noted File_sync(MPI_File fh)
noted File_set_view(MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype, const char *datarep, MPI_Info info)
noted File_read_all(MPI_File fh, void *buf, COUNT count, MPI_Datatype datatype, MPI_Status *status)
noted File_write_all(MPI_File fh, const void *buf, COUNT count, MPI_Datatype datatype, MPI_Status *status)
noted File_read_at_all(MPI_File fh, MPI_Offset offset, void *buf, COUNT count, MPI_Datatype datatype, MPI_Status *status)
noted File_write_at_all(MPI_File fh, MPI_Offset offset, const void *buf, COUNT count, MPI_Datatype datatype, MPI_Status *status)
noted Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm)
noted Intercomm_create(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader, int tag, MPI_Comm *newintercomm)
noted Comm_free(MPI_Comm *comm)
noted Comm_disconnect(MPI_Comm *comm)
"""  # noqa: E501

WAITS = dict.fromkeys(("collective", "meeting", "entering", "exposing"), "COLLECTIVE")
WAITS |= {"sending": "MESSAGE", "waiting": "MESSAGE"}
"""What somebody waits for in a call of this kind."""

TWO_PHASE = (*WAITS, "starting", "lasting", "own")
"""Kinds of calls that two-phase waits replace."""


@dataclass(frozen=True)
class Call:
    """A call of MPI that is covered.

    Attributes:
        kind: as in the table.
        name: without "MPI_".
        arguments: each as a C declaration.
        meets_in_place: whether a collective one is as a meeting one where its buffers are MPI_IN_PLACE.
    """

    kind: str
    name: str
    arguments: tuple[str, ...]
    meets_in_place: bool = False

    @property
    def names(self) -> list[str]:
        """The arguments' names."""
        return [re.findall(r"\w+", argument)[-1] for argument in self.arguments]

    @property
    def needs(self) -> str:
        """The function of MPI that carries it out."""
        return nonblocking(self.name) if self.kind in ("collective", "sending") else self.name


def known() -> list[str]:
    """The names of the calls of the table, without "_c"."""
    names = re.findall(r"(?m)^(?!collective)\w+ (\w+)\(", CALLS)
    for name in re.findall(r"(?m)^collective (\w+)\(", CALLS):
        names += [name, nonblocking(name), f"{name}_init"]
    return sorted(names)


def nonblocking(name: str) -> str:
    """The name of the form of a call that only starts it."""
    return f"I{name[0].lower()}{name[1:]}"


def covered(declared: Set[str], differing: Set[str] = frozenset()) -> list[Call]:
    """The calls of the table that an MPI has, by the functions that its header declares ("MPI_Send").

    ``differing`` names those whose nonblocking forms do something else, with ":in-place" if only there.
    """
    calls: list[Call] = []
    for kind, name, text in re.findall(r"(?m)^(\w+) (\w+)\((.*)\)$", CALLS):
        calls += _forms(kind, name, text)
        if kind == "collective":
            calls += _forms("starting", nonblocking(name), f"{text}, MPI_Request *request")
            calls += _forms("lasting", f"{name}_init", f"{text}, MPI_Info info, MPI_Request *request")
    declared_ones = [call for call in calls if {f"MPI_{call.name}", f"MPI_{call.needs}"} <= declared]
    return [_met(call, differing) if call.kind == "collective" else call for call in declared_ones]


def _met(call: Call, differing: Set[str]) -> Call:
    """A collective call as an MPI needs it; only with a root may some ranks be in place, and some not."""
    in_place = f"{call.name}:in-place" in differing
    if call.name in differing or (in_place and "root" in call.names):
        return replace(call, kind="meeting")
    return replace(call, meets_in_place=in_place)


def replaced(calls: Sequence[Call], differing: Set[str], leave: Set[str]) -> list[Call]:
    """The calls that take the places of MPI's own.

    MPI's own stay those to ``leave`` (without "_c"), and those that differ where to wait for all ranks is no
    remedy.
    """
    return [
        call
        for call in calls
        if call.name.removesuffix("_c") not in leave
        and (call.name not in differing or call.kind == "meeting")
    ]


def _forms(kind: str, name: str, text: str) -> Iterator[Call]:
    """A call as it is and, where it has counts, for large ones."""
    small = text.replace("COUNT", "int").replace("DISPL", "int")
    yield Call(kind, name, () if text == "void" else tuple(small.split(", ")))
    if "COUNT" in text or "DISPL" in text:
        large = text.replace("COUNT", "MPI_Count").replace("DISPL", "MPI_Aint")
        yield Call(kind, f"{name}_c", tuple(large.split(", ")))


def entries(calls: Sequence[Call]) -> str:
    """``entries.h``: for each call an entry, whose arguments are as wide as a register."""
    quoted = ", ".join(f'"{call.name}"' for call in calls)
    lines = [f"#define ENTRIES {len(calls)}", f"#define NAMES {quoted}"]
    for number, call in enumerate(calls):
        places = range(len(call.arguments))
        taken = ", ".join(f"word a{place}" for place in places) or "void"
        passed = ", ".join(f"a{place}" for place in places)
        lines.append(f"ENTRY({number}, {call.name}, ({taken}), ({passed}))")
    return "\n".join([*lines, ""])


def declarations(calls: Sequence[Call], declared: Set[str]) -> str:
    """``declared.h``: MPI's own functions, and those that take their places."""
    names = _own(calls)
    members = [f"    __typeof__(PMPI_{name}) *{name};" for name in names]
    prototypes = [
        f"int {prefix}_{call.name}({', '.join(call.arguments) or 'void'});"
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
        *("#pragma GCC visibility push(default)", *prototypes, "#pragma GCC visibility pop"),
        f"#pragma GCC poison {poisoned}",
    ]
    return "\n".join([*lines, ""])


def definitions(calls: Sequence[Call]) -> str:
    """``made.c``: the calls that are all alike."""
    finds = [f'    FIND({name}, "PMPI_{name}")' for name in _own(calls)]
    lines = [
        '#include "back.h"',
        "#define FIND(name, text) if ((own->name = (__typeof__(own->name))find(text)) == 0) return 0;",
        "int find_own_mpi(struct own_mpi *own, void *(*find)(const char *name))",
        *("{", *finds, "    return 1;", "}"),
    ]
    for call in calls:
        if call.kind in TWO_PHASE and call.kind not in ("own", "waiting"):
            lines += _function("lockstep", call, _body(call))
        if call.kind in WAITS:
            lines += _function("timed", call, _timed(call))
    return "\n".join([*lines, ""])


def _own(calls: Sequence[Call]) -> list[str]:
    return sorted({name for call in calls for name in (call.name, call.needs)})


def _function(prefix: str, call: Call, body: Sequence[str]) -> list[str]:
    return [
        f"int {prefix}_{call.name}({', '.join(call.arguments)})",
        *("{", *(f"    {line}" for line in body), "}"),
    ]


def _timed(call: Call) -> list[str]:
    """MPI's own call, whose time is noted."""
    return [
        "int64_t begin_ns = now_ns();",
        f"int error = mpi.{call.name}({', '.join(call.names)});",
        f"wait_timed({WAITS[call.kind]}, begin_ns);",
        "return error;",
    ]


def _carried(call: Call, request: str) -> list[str]:
    """Tell the next wait how much leaves this rank, once MPI has accepted it.

    A receive's count is only the room that it has. What MPI ignores need not be a datatype, and to look at
    one that is none would end the program.
    """
    for count, datatype in (("count", "datatype"), ("sendcount", "sendtype")):
        if not {count, datatype} <= set(call.names) or "source" in call.names:
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
    if not names & {"sendtype", "sendtypes"}:
        return []
    from_root, to_root = "Scatter" in call.name, "Gather" in call.name
    lines = []
    if not call.name.startswith("Neighbor"):
        place = "recvbuf" if from_root else "sendbuf"
        lines += _alike(names, f"{place} == MPI_IN_PLACE", "recv" if from_root else "send")
    if from_root or to_root:
        lines += _alike(names, "!is_root(comm, root)", "send" if from_root else "recv")
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
    """What takes the place of a call, line by line."""
    arguments = ", ".join(call.names)
    met = f"return error ? error : mpi.{call.name}({arguments});"
    if call.kind in ("meeting", "entering", "exposing"):
        brief = ["nap_briefly();"] if call.kind == "exposing" else []
        return ["int error = spans_worlds(comm) ? MPI_SUCCESS : wait_entered(comm);", *brief, met]
    if call.kind == "lasting":
        return ["requests_last();", f"return mpi.{call.name}({arguments});"]
    peer = next((name for name in ("dest", "source") if name in call.names), None)
    if call.kind == "starting":
        ring = f"ring_rank(comm, {peer});" if peer else "ring_members(comm);"
        if "request" not in call.names:
            start = f"int error = mpi.{call.name}({arguments});"
            return [start, "if (!error)", f"    {ring}", "return error;"]
        started = ", ".join([*call.names[:-1], "request ? &made : request"])
        return [
            "MPI_Request made = MPI_REQUEST_NULL;",
            f"int error = mpi.{call.name}({started});",
            *("if (!error && request)", "    *request = made;"),
            *_carried(call, "made"),
            *("if (!error)", f"    {ring}", "return error;"),
        ]
    wait = f"wait_sent(&request, comm, {peer})" if peer else "wait_collective(&request, comm)"
    own = "spans_worlds(comm) || spans_groups(comm)" if "root" in call.names else "spans_worlds(comm)"
    plain = [] if peer else [f"if ({own})", f"    return mpi.{call.name}({arguments});"]
    start = f"error = mpi.{call.needs}({arguments}, &request);"
    if call.meets_in_place:
        plain += ["if (sendbuf == MPI_IN_PLACE) {", "    error = wait_entered(comm);", f"    {met}", "}"]
    plain += _ignored(call)
    carried = _carried(call, "request")
    return [
        *("MPI_Request request = MPI_REQUEST_NULL;", "int error;", *plain, start, *carried),
        f"return error ? error : {wait};",
    ]
