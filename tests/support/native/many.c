/* Many requests: many FORM[,FORM...] REQUESTS ROUNDS [LATE_US]. In each round a rank of an even number of ranks starts
   so many messages of an integer, half of them from its left neighbour and half to its right one, and waits for all by
   the form: one of MPI's Wait and Test calls, as often as it takes. Each form has so many rounds. Of REQUESTS, every
   seventh is none: MPI_REQUEST_NULL. With LATE_US rank 0 computes for so long before it starts. Prints the processor
   seconds of all ranks, and "right" if what came was. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static MPI_Request *requests;
static MPI_Status *statuses;
static int *indices;

static double processor_s(void)
{
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

/* Wait for all requests by one form. */
static void finish(const char *form, int count)
{
    int found = 0, index = 0;

    if (strcmp(form, "Wait") == 0) {
        for (int number = 0; number < count; number++)
            MPI_Wait(&requests[number], statuses);
    } else if (strcmp(form, "Waitall") == 0) {
        MPI_Waitall(count, requests, statuses);
    } else if (strcmp(form, "Waitany") == 0) {
        while (index != MPI_UNDEFINED)
            MPI_Waitany(count, requests, &index, statuses);
    } else if (strcmp(form, "Waitsome") == 0) {
        while (found != MPI_UNDEFINED)
            MPI_Waitsome(count, requests, &found, indices, statuses);
    } else if (strcmp(form, "Test") == 0) {
        for (int number = 0; number < count; number++)
            for (found = 0; !found;)
                MPI_Test(&requests[number], &found, statuses);
    } else if (strcmp(form, "Testall") == 0) {
        while (!found)
            MPI_Testall(count, requests, &found, statuses);
    } else if (strcmp(form, "Testany") == 0) {
        while (!found || index != MPI_UNDEFINED)
            MPI_Testany(count, requests, &index, &found, statuses);
    } else if (strcmp(form, "Testsome") == 0) {
        while (found != MPI_UNDEFINED)
            MPI_Testsome(count, requests, &found, indices, statuses);
    } else {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

int main(int argc, char **argv)
{
    const char *forms[8];
    int kinds = 0;
    int count = atoi(argv[2]), rounds = atoi(argv[3]), wrong = 0, rank, ranks, all;
    double late_s = argc > 4 ? 1e-6 * atof(argv[4]) : 0, begin_s, used_s, sum_s;
    int *in = calloc((size_t)count, sizeof *in), *out = calloc((size_t)count, sizeof *out);

    requests = malloc((size_t)count * sizeof *requests);
    statuses = malloc((size_t)count * sizeof *statuses);
    indices = malloc((size_t)count * sizeof *indices);
    for (char *form = strtok(argv[1], ","); form && kinds < 8; form = strtok(NULL, ","))
        forms[kinds++] = form;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    begin_s = processor_s();
    for (int round = 0; round < kinds * rounds; round++) {
        double until_s = rank == 0 ? processor_s() + late_s : 0;
        int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;

        while (processor_s() < until_s)
            ;
        for (int number = 0; number < count; number++) {
            in[number] = -1;
            out[number] = round + rank + number;
            if (number % 7 == 6)
                requests[number] = MPI_REQUEST_NULL;
            else if ((number + rank + round) % 2)
                MPI_Irecv(&in[number], 1, MPI_INT, left, number % 500, MPI_COMM_WORLD, &requests[number]);
            else
                MPI_Isend(&out[number], 1, MPI_INT, right, number % 500, MPI_COMM_WORLD, &requests[number]);
        }
        finish(forms[round / rounds], count);
        for (int number = 0; number < count; number++)
            if (number % 7 != 6 && (number + rank + round) % 2)
                wrong += in[number] != round + left + number;
    }
    used_s = processor_s() - begin_s;
    MPI_Reduce(&used_s, &sum_s, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%f %s\n", sum_s, all ? "wrong" : "right");
    return MPI_Finalize();
}
