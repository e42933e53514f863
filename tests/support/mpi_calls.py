"""The calls of MPI 4.1 by what the standard says of them, whether Lockstep covers them or not.

Written from the standard's definitions: which calls may wait for another process (blocking and nonlocal,
2.4), which start, complete, test or free operations, and which are local and do neither. Names are without
``MPI_``, and without ``_c``, the form for large counts. ``{a,b}`` stands for either.
"""

import re

COLLECTIVE = """
Barrier Bcast {Gather,Scatter}{,v} Allgather{,v} Alltoall{,v,w} Reduce Allreduce Reduce_scatter{,_block}
Scan Exscan Neighbor_allgather{,v} Neighbor_alltoall{,v,w}
"""
"""They wait; each has a nonblocking and a persistent form."""

WAITING = """
Send Ssend Rsend Recv Mrecv Sendrecv{,_replace} Probe Mprobe Wait{,all,any,some}
Buffer_{detach,flush} {Comm,Session}_{detach,flush}_buffer
Comm_dup{,_with_info} Comm_create{,_group,_from_group} Comm_split{,_type} Comm_{free,disconnect,set_info}
Intercomm_create{,_from_groups} Intercomm_merge Cart_create Cart_sub Graph_create
Dist_graph_create{,_adjacent} Comm_spawn{,_multiple} Comm_{accept,connect,join} Init{,_thread} Finalize
Session_{init,finalize} Win_{create,create_dynamic,allocate,allocate_shared,free,set_info}
Win_{fence,start,complete,wait} Win_{lock,unlock,flush,flush_local}{,_all}
File_{open,close,preallocate,set_size,set_info,set_view,set_atomicity,seek_shared,sync}
File_{read,write}{,_at,_all,_at_all,_shared,_ordered} File_{read,write}_{all,at_all,ordered}_{begin,end}
"""

ADVANCING = """
Bsend I{,b,s,r}send Irecv Imrecv Isendrecv{,_replace} Iprobe Improbe Test{,all,any,some}
Request_get_status{,_all,_any,_some} Request_free Cancel Start{,all}
P{send,recv}_init Pready{,_range,_list} Parrived Grequest_{start,complete}
Buffer_iflush {Comm,Session}_iflush_buffer Comm_idup{,_with_info} Win_{post,test}
File_i{read,write}{,_at,_all,_at_all,_shared}
"""
"""They wait for nobody, but start, complete or test what another process may wait for."""

OTHERS = r"""
{Send,Bsend,Ssend,Rsend,Recv}_init Test_cancelled Abort Initialized Finalized Query_thread Is_thread_main
Pcontrol T_.* Abi_.* Attr_.* Keyval_.* Address Errhandler_.* Error_.* {Add,Remove}_error_.*
.*_errhandler .*_keyval {Alloc,Free}_mem Get_.* Info_.* Op_.* Type_.* Group_.* Status_.* Pack.* Unpack.*
Register_datarep .*_{toint,c2f,f2c} Reduce_local {Buffer_attach,Comm_attach_buffer,Session_attach_buffer}
{Comm,Win}_{delete,get,set}_{attr,name}
Comm_{compare,get_info,get_parent,group,rank,remote_group,remote_size,size,test_inter}
Cart_{coords,get,map,rank,shift} Cartdim_get Dims_create Graph_{get,map,neighbors,neighbors_count}
Dist_graph_neighbors{,_count} Graphdims_get Topo_test {Open,Close}_port {Publish,Unpublish,Lookup}_name
Session_get_.* Win_{attach,detach,get_group,get_info,shared_query,sync} File_{delete,seek} File_get_.*
Put Get Accumulate Get_accumulate R{put,get,accumulate,get_accumulate} Fetch_and_op Compare_and_swap
"""
"""Patterns of all other names: local calls, and those that start one-sided operations, which others end."""


def named(text):
    for word in text.split():
        choice = re.search(r"\{([\w,]*)\}", word)
        if choice is None:
            yield word
        else:
            for chosen in choice[1].split(","):
                yield from named(word[: choice.start()] + chosen + word[choice.end() :])


def nonblocking(name):
    """The name of the form of a call that only starts it."""
    return f"I{name[0].lower()}{name[1:]}"


def waiting():
    """The calls in which somebody may wait for another process."""
    return set(named(COLLECTIVE + WAITING))


def advancing():
    """The calls in which nobody waits, but which another's wait may need."""
    collective = list(named(COLLECTIVE))
    forms = [form for name in collective for form in (nonblocking(name), f"{name}_init")]
    return {*named(ADVANCING), *forms}


def knows(name):
    return name in waiting() | advancing() or re.fullmatch("|".join(named(OTHERS)), name) is not None
