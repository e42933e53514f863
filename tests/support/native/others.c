/* Communication that is not by messages: others fence|lock|file COMPUTE_US ROUNDS. In each round a rank computes for
   the given CPU time, and then puts to its neighbour in a fence or under a lock, or all write a block of a file.
   Prints the seconds of the slowest rank, and whether the data are right. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double processor_s(void)
{
    struct timespec used;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "fence";
    double compute_s = 1e-6 * (argc > 2 ? atof(argv[2]) : 100), begin_s, took_s, longest_s;
    int rounds = argc > 3 ? atoi(argv[3]) : 200, rank, ranks, next, block[256], wrong = 0, all_wrong;
    char name[64] = "others-XXXXXX";
    MPI_Win window;
    MPI_File file;
    int *memory;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    next = (rank + 1) % ranks;
    if (*mode == 'f' && mode[1] == 'i') {
        if (rank == 0)
            close(mkstemp(name));
        MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
        MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    } else
        MPI_Win_allocate(sizeof block, sizeof *block, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Barrier(MPI_COMM_WORLD);
    begin_s = MPI_Wtime();
    for (int round = 0; round < rounds; round++) {
        double until_s = processor_s() + compute_s;

        while (processor_s() < until_s)
            ;
        for (int number = 0; number < 256; number++)
            block[number] = rank + round;
        if (strcmp(mode, "fence") == 0) {
            MPI_Win_fence(0, window);
            MPI_Put(block, 256, MPI_INT, next, 0, 256, MPI_INT, window);
            MPI_Win_fence(0, window);
            wrong += memory[255] != (rank + ranks - 1) % ranks + round;
        } else if (strcmp(mode, "lock") == 0) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, window);
            MPI_Put(block, 256, MPI_INT, next, 0, 256, MPI_INT, window);
            MPI_Win_unlock(next, window);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
            wrong += memory[255] != (rank + ranks - 1) % ranks + round;
            MPI_Win_unlock(rank, window);
            MPI_Barrier(MPI_COMM_WORLD);
        } else {
            MPI_Offset place = (MPI_Offset)(round % 8 * ranks + rank) * (MPI_Offset)sizeof block;

            MPI_File_write_at_all(file, place, block, 256, MPI_INT, MPI_STATUS_IGNORE);
            block[255] = -1;
            MPI_File_read_at_all(file, place, block, 256, MPI_INT, MPI_STATUS_IGNORE);
            wrong += block[255] != rank + round;
        }
    }
    took_s = MPI_Wtime() - begin_s;
    MPI_Reduce(&took_s, &longest_s, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (*mode == 'f' && mode[1] == 'i')
        MPI_File_close(&file);
    else
        MPI_Win_free(&window);
    if (rank == 0)
        printf("%.4f %s\n", longest_s, all_wrong ? "wrong" : "right");
    MPI_Finalize();
    return 0;
}
