/* Stands in for an MPI in a serial build: a library with a few of its names, and other types. */
int MPI_Init(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return 0;
}

int MPI_Comm_size(long comm, int *size)
{
    *size = comm == 77 ? 1 : -1;
    return 0;
}

int MPI_Bcast(double *buffer, long count)
{
    buffer[0] += (double)count;
    return 0;
}

int MPI_Finalize(void)
{
    return 0;
}
