/* All ranks start several collective writes to a file at a time, each rank every fourth block of it, and wait for all.
   Prints how many numbers are wrong. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define AT_ONCE 8
#define BLOCKS 16
#define BLOCK 64

int main(int argc, char **argv)
{
    static int written[AT_ONCE][BLOCKS * BLOCK], whole[AT_ONCE * BLOCKS * BLOCK * 16];
    int rank, ranks, wrong = 0;
    char name[64] = "files-XXXXXX";
    MPI_Request requests[AT_ONCE];
    MPI_Datatype blocks;
    MPI_File file;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0)
        close(mkstemp(name));
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_Type_vector(BLOCKS * AT_ONCE, BLOCK, BLOCK * ranks, MPI_INT, &blocks);
    MPI_Type_commit(&blocks);
    MPI_File_set_view(file, (MPI_Offset)(rank * BLOCK) * (MPI_Offset)sizeof(int), MPI_INT, blocks, "native", MPI_INFO_NULL);
    for (int number = 0; number < AT_ONCE; number++) {
        for (int at = 0; at < BLOCKS * BLOCK; at++)
            written[number][at] = 1 + rank + ranks * number;
        MPI_File_iwrite_all(file, written[number], BLOCKS * BLOCK, MPI_INT, &requests[number]);
    }
    MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_read_at(file, 0, whole, AT_ONCE * BLOCKS * BLOCK * ranks, MPI_INT, MPI_STATUS_IGNORE);
    for (int at = 0; at < AT_ONCE * BLOCKS * BLOCK * ranks; at++)
        wrong += whole[at] != 1 + at / BLOCK % ranks + ranks * (at / (BLOCKS * BLOCK * ranks));
    MPI_File_close(&file);
    if (rank == 0)
        printf("%d\n", wrong);
    MPI_Finalize();
    return 0;
}
