/* Calls that receive, in one of two forms: COUNT is int and FORM(X) is X, or MPI_Count and X_c.
   If a program has its own error handler, MPICH calls it and returns success, without a request. */

int FORM(lockstep_Recv)(void *buf, COUNT count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                        MPI_Status *status)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int error;

    if (source == MPI_PROC_NULL) /* at once; and only MPICH 4.0's own sets the status */
        return mpi.FORM(Recv)(buf, count, datatype, source, tag, comm, status);
    error = mpi.FORM(Irecv)(buf, count, datatype, source, tag, comm, &request);
    return error ? error : wait_received(&request, status, comm, source);
}

int FORM(lockstep_Mrecv)(void *buf, COUNT count, MPI_Datatype datatype, MPI_Message *message, MPI_Status *status)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int error = mpi.FORM(Imrecv)(buf, count, datatype, message, &request);

    return error ? error : wait_received(&request, status, MPI_COMM_NULL, MPI_ANY_SOURCE);
}

int FORM(lockstep_Sendrecv)(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, int dest,
                            int sendtag, void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int source,
                            int recvtag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int error = mpi.FORM(Irecv)(recvbuf, recvcount, recvtype, source, recvtag, comm, &requests[0]);

    if (error)
        return error;
    error = mpi.FORM(Isend)(sendbuf, sendcount, sendtype, dest, sendtag, comm, &requests[1]);
    if (error) {
        mpi.Cancel(&requests[0]);
        mpi.Request_free(&requests[0]);
        return error;
    }
    if (requests[1] != MPI_REQUEST_NULL && dest != MPI_PROC_NULL)
        wait_carries(sendcount, sendtype);
    return wait_exchanged(requests, status, comm, dest, source);
}

/* Not by Isendrecv_replace: MPICH 5.0 gives no status and, with datatypes that have gaps, wrong data. */
int FORM(lockstep_Sendrecv_replace)(void *buf, COUNT count, MPI_Datatype datatype, int dest, int sendtag,
                                    int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
    COUNT bytes = 0, position = 0;
    int error = FORM(PMPI_Pack_size)(count, datatype, comm, &bytes);
    void *packed;

    if (error)
        return error;
    packed = malloc((size_t)bytes + 1);
    if (packed == NULL)
        return mpi.FORM(Sendrecv_replace)(buf, count, datatype, dest, sendtag, source, recvtag, comm, status);
    error = FORM(PMPI_Pack)(buf, count, datatype, packed, bytes, &position, comm);
    if (!error)
        error = FORM(lockstep_Sendrecv)(packed, position, MPI_PACKED, dest, sendtag, buf, count, datatype, source,
                                        recvtag, comm, status);
    free(packed);
    return error;
}
