"""The MPI calls that the preload covers.

One line a call: what kind it is, its name, its arguments as in the MPI standard. COUNT is ``int``, and
``MPI_Count`` in the form of the call that ends in ``_c``; DISPL also means ``int`` and ``MPI_Aint``.
The kinds:

- collective: becomes its nonblocking form and a two-phase wait in it; the program's own nonblocking form is
  starting, its persistent one lasting
- meeting: a collective operation whose nonblocking form has faults in this MPI: waits two-phase until all
  ranks of ``comm`` have called it, then is MPI's
- entering: the same, for a call that makes a communicator
- exposing: the same; from then on sleepers nap briefly, since others may need their progress at any time
- sending: a blocking send; becomes its nonblocking form and a two-phase wait
- starting: MPI's own, after which the peers (``dest`` and ``source``, else all of ``comm``) are woken if they
  wait for this rank
- waiting: written in C, in ``receive.h`` (with its ``_c`` form) and ``completion.c``
- own: the same, but no rank waits in it
- polling: MPI's own; all who wait are woken if it finds something (``flag``, ``outcount``), else at times; a
  program that only polls naps
- advancing: MPI's own, after which all waiting ranks are woken; a rank may wait in it, as MPI does
- unrung: MPI's own, which starts what no rank rings for; from then on sleepers nap briefly
- preparing: stays MPI's own, and makes a request that ``Start`` starts; only recordings note it
- lasting: advancing, and makes a request of a collective operation or of a message in parts; from then on
  ``Waitall`` tests its requests one by one

Under the rule ``spin`` the calls in which a rank waits stay MPI's own, and are timed.
"""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
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
entering Comm_spawn(const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *intercomm, int errcodes[])
entering Comm_spawn_multiple(int count, char *commands[], char **argvs[], const int maxprocs[], const MPI_Info infos[], int root, MPI_Comm comm, MPI_Comm *intercomm, int errcodes[])
entering Comm_accept(const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *newcomm)
entering Comm_connect(const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *newcomm)
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
starting Isendrecv(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Request *request)
starting Isendrecv_replace(void *buf, COUNT count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag, MPI_Comm comm, MPI_Request *request)
starting Comm_idup(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request)
starting Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm, MPI_Request *request)

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
own Finalize(void)

polling Test(MPI_Request *request, int *flag, MPI_Status *status)
polling Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
polling Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
polling Testsome(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
polling Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
polling Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
polling Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
polling Request_get_status_all(int count, const MPI_Request requests[], int *flag, MPI_Status statuses[])
polling Request_get_status_any(int count, const MPI_Request requests[], int *index, int *flag, MPI_Status *status)
polling Request_get_status_some(int count, const MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
polling Parrived(MPI_Request request, int partition, int *flag)
polling Win_test(MPI_Win win, int *flag)

advancing Start(MPI_Request *request)
advancing Startall(int count, MPI_Request requests[])
advancing Pready(int partition, MPI_Request request)
advancing Pready_range(int first, int last, MPI_Request request)
advancing Pready_list(int length, int partitions[], MPI_Request request)
advancing Imrecv(void *buf, COUNT count, MPI_Datatype datatype, MPI_Message *message, MPI_Request *request)
advancing Cancel(MPI_Request *request)
advancing Request_free(MPI_Request *request)
advancing Buffer_detach(void *buffer, COUNT *size)
advancing Buffer_flush(void)
advancing Buffer_iflush(MPI_Request *request)
advancing Comm_detach_buffer(MPI_Comm comm, void *buffer, COUNT *size)
advancing Comm_flush_buffer(MPI_Comm comm)
advancing Comm_iflush_buffer(MPI_Comm comm, MPI_Request *request)
advancing Session_detach_buffer(MPI_Session session, void *buffer, COUNT *size)
advancing Session_flush_buffer(MPI_Session session)
advancing Session_iflush_buffer(MPI_Session session, MPI_Request *request)

advancing Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm)
advancing Comm_create_from_group(MPI_Group group, const char *stringtag, MPI_Info info, MPI_Errhandler errhandler, MPI_Comm *newcomm)
advancing Intercomm_create(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader, int tag, MPI_Comm *newintercomm)
advancing Intercomm_create_from_groups(MPI_Group local_group, int local_leader, MPI_Group remote_group, int remote_leader, const char *stringtag, MPI_Info info, MPI_Errhandler errhandler, MPI_Comm *newintercomm)
advancing Comm_join(int fd, MPI_Comm *intercomm)
advancing Comm_set_info(MPI_Comm comm, MPI_Info info)
advancing Comm_free(MPI_Comm *comm)
advancing Comm_disconnect(MPI_Comm *comm)

advancing Win_set_info(MPI_Win win, MPI_Info info)
advancing Win_fence(int assert, MPI_Win win)
advancing Win_free(MPI_Win *win)
advancing Win_lock(int lock_type, int rank, int assert, MPI_Win win)
advancing Win_lock_all(int assert, MPI_Win win)
advancing Win_unlock(int rank, MPI_Win win)
advancing Win_unlock_all(MPI_Win win)
advancing Win_flush(int rank, MPI_Win win)
advancing Win_flush_all(MPI_Win win)
advancing Win_flush_local(int rank, MPI_Win win)
advancing Win_flush_local_all(MPI_Win win)
advancing Win_post(MPI_Group group, int assert, MPI_Win win)
advancing Win_start(MPI_Group group, int assert, MPI_Win win)
advancing Win_complete(MPI_Win win)
advancing Win_wait(MPI_Win win)

advancing File_open(MPI_Comm comm, const char *filename, int amode, MPI_Info info, MPI_File *fh)
advancing File_close(MPI_File *fh)
advancing File_preallocate(MPI_File fh, MPI_Offset size)
advancing File_set_size(MPI_File fh, MPI_Offset size)
advancing File_set_info(MPI_File fh, MPI_Info info)
advancing File_set_view(MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype, const char *datarep, MPI_Info info)
advancing File_set_atomicity(MPI_File fh, int flag)
advancing File_seek_shared(MPI_File fh, MPI_Offset offset, int whence)
advancing File_sync(MPI_File fh)
advancing File_read(MPI_File fh, void *buf, COUNT count, MPI_Datatype datatype, MPI_Status *status)
advancing File_read_all(MPI_File fh, void *buf, COUNT count, MPI_Datatype datatype, MPI_Status *status)
advancing File_read_at(MPI_File fh, MPI_Offset offset, void *buf, COUNT count, MPI_Datatype datatype, MPI_Status *status)
advancing File_read_at_all(MPI_File fh, MPI_Offset offset, void *buf, COUNT count, MPI_Datatype datatype, MPI_Status *status)
advancing File_read_shared(MPI_File fh, void *buf, COUNT count, MPI_Datatype datatype, MPI_Status *status)
advancing File_read_ordered(MPI_File fh, void *buf, COUNT count, MPI_Datatype datatype, MPI_Status *status)
advancing File_read_all_begin(MPI_File fh, void *buf, COUNT count, MPI_Datatype datatype)
advancing File_read_all_end(MPI_File fh, void *buf, MPI_Status *status)
advancing File_read_at_all_begin(MPI_File fh, MPI_Offset offset, void *buf, COUNT count, MPI_Datatype datatype)
advancing File_read_at_all_end(MPI_File fh, void *buf, MPI_Status *status)
advancing File_read_ordered_begin(MPI_File fh, void *buf, COUNT count, MPI_Datatype datatype)
advancing File_read_ordered_end(MPI_File fh, void *buf, MPI_Status *status)
advancing File_write(MPI_File fh, const void *buf, COUNT count, MPI_Datatype datatype, MPI_Status *status)
advancing File_write_all(MPI_File fh, const void *buf, COUNT count, MPI_Datatype datatype, MPI_Status *status)
advancing File_write_at(MPI_File fh, MPI_Offset offset, const void *buf, COUNT count, MPI_Datatype datatype, MPI_Status *status)
advancing File_write_at_all(MPI_File fh, MPI_Offset offset, const void *buf, COUNT count, MPI_Datatype datatype, MPI_Status *status)
advancing File_write_shared(MPI_File fh, const void *buf, COUNT count, MPI_Datatype datatype, MPI_Status *status)
advancing File_write_ordered(MPI_File fh, const void *buf, COUNT count, MPI_Datatype datatype, MPI_Status *status)
advancing File_write_all_begin(MPI_File fh, const void *buf, COUNT count, MPI_Datatype datatype)
advancing File_write_all_end(MPI_File fh, const void *buf, MPI_Status *status)
advancing File_write_at_all_begin(MPI_File fh, MPI_Offset offset, const void *buf, COUNT count, MPI_Datatype datatype)
advancing File_write_at_all_end(MPI_File fh, const void *buf, MPI_Status *status)
advancing File_write_ordered_begin(MPI_File fh, const void *buf, COUNT count, MPI_Datatype datatype)
advancing File_write_ordered_end(MPI_File fh, const void *buf, MPI_Status *status)

unrung Grequest_start(MPI_Grequest_query_function *query, MPI_Grequest_free_function *release, MPI_Grequest_cancel_function *cancel, void *state, MPI_Request *request)
advancing Grequest_complete(MPI_Request request)
unrung File_iread(MPI_File fh, void *buf, COUNT count, MPI_Datatype datatype, MPI_Request *request)
unrung File_iread_all(MPI_File fh, void *buf, COUNT count, MPI_Datatype datatype, MPI_Request *request)
unrung File_iread_at(MPI_File fh, MPI_Offset offset, void *buf, COUNT count, MPI_Datatype datatype, MPI_Request *request)
unrung File_iread_at_all(MPI_File fh, MPI_Offset offset, void *buf, COUNT count, MPI_Datatype datatype, MPI_Request *request)
unrung File_iread_shared(MPI_File fh, void *buf, COUNT count, MPI_Datatype datatype, MPI_Request *request)
unrung File_iwrite(MPI_File fh, const void *buf, COUNT count, MPI_Datatype datatype, MPI_Request *request)
unrung File_iwrite_all(MPI_File fh, const void *buf, COUNT count, MPI_Datatype datatype, MPI_Request *request)
unrung File_iwrite_at(MPI_File fh, MPI_Offset offset, const void *buf, COUNT count, MPI_Datatype datatype, MPI_Request *request)
unrung File_iwrite_at_all(MPI_File fh, MPI_Offset offset, const void *buf, COUNT count, MPI_Datatype datatype, MPI_Request *request)
unrung File_iwrite_shared(MPI_File fh, const void *buf, COUNT count, MPI_Datatype datatype, MPI_Request *request)
"""  # noqa: E501

WAITS = dict.fromkeys(("collective", "meeting", "entering", "exposing"), "COLLECTIVE")
WAITS |= {"sending": "MESSAGE", "waiting": "MESSAGE"}
"""The object of waits in calls of this kind."""

TWO_PHASE = (*WAITS, "starting", "lasting", "own", "polling", "advancing", "unrung")
"""Kinds of calls that two-phase waits replace."""


@dataclass(frozen=True)
class Call:
    """A call of MPI that is covered, by its name without "MPI_" and its arguments as C declarations.

    ``meets_in_place``: whether a collective one is as a meeting one where its buffers are MPI_IN_PLACE.
    """

    kind: str
    name: str
    arguments: tuple[str, ...]
    meets_in_place: bool = False

    @property
    def names(self) -> list[str]:
        return [re.findall(r"\w+", argument)[-1] for argument in self.arguments]

    @property
    def parameters(self) -> str:
        """All arguments, as a declaration of a function in C has them."""
        return ", ".join(self.arguments) or "void"

    @property
    def passed(self) -> str:
        """All arguments, as a call in C has them."""
        return ", ".join(self.names)

    @property
    def needs(self) -> str:
        return nonblocking(self.name) if self.kind in ("collective", "sending") else self.name


def text_of(*lines: str) -> str:
    """Lines as the text of a file."""
    return "\n".join([*lines, ""])


def indented(lines: Iterable[str]) -> list[str]:
    """Lines inside of braces."""
    return [f"    {line}" for line in lines]


def exported(lines: Iterable[str]) -> str:
    """The text of declarations of functions that other libraries see."""
    return text_of("#pragma GCC visibility push(default)", *lines, "#pragma GCC visibility pop")


COLLECTIVES = tuple(re.findall(r"(?m)^collective (\w+)\(", CALLS))


def kinds() -> dict[str, str]:
    """The kind of each call of the table, by its name without "MPI_" and "_c"."""
    kinds = dict[str, str]()
    for kind, name in re.findall(r"(?m)^(\w+) (\w+)\(", CALLS):
        kinds[name] = kind
        if kind == "collective":
            kinds |= {nonblocking(name): "starting", f"{name}_init": "lasting"}
    return kinds


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
    """A call and, where it has counts, for large ones."""
    small = text.replace("COUNT", "int").replace("DISPL", "int")
    yield Call(kind, name, () if text == "void" else tuple(small.split(", ")))
    if "COUNT" in text or "DISPL" in text:
        large = text.replace("COUNT", "MPI_Count").replace("DISPL", "MPI_Aint")
        yield Call(kind, f"{name}_c", tuple(large.split(", ")))
