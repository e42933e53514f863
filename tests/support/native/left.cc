// Calls that a program's handler of MPI's errors leaves, by an exception or by longjmp ("jump"): rank 0 receives and
// waits for messages that are too long. One thread calls MPI, though several may. Prints how often calls were left, and
// whether what ranks do afterwards is right.
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include <mpi.h>

static bool jumps;
static std::jmp_buf back;
static int left;

static void leave(MPI_Comm *, int *, ...)
{
    if (jumps)
        std::longjmp(back, 1);
    throw std::runtime_error("left");
}

template <class Call> static void attempt(Call call)
{
    if (setjmp(back)) {
        left++;
        return;
    }
    try {
        call();
    } catch (std::exception &) {
        left++;
    }
}

int main(int argc, char **argv)
{
    int rank, ranks, level, small, sum, one = 1, long_ones[64] = {0};
    bool right = true;
    MPI_Comm comm;
    MPI_Errhandler handler;

    jumps = argc > 1 && std::strcmp(argv[1], "jump") == 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(leave, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    for (int round = 0; round < 20; round++) {
        if (rank == 1) {
            MPI_Send(long_ones, 64, MPI_INT, 0, 1, comm);
            MPI_Send(long_ones, 64, MPI_INT, 0, 2, comm);
            MPI_Send(long_ones, 64, MPI_INT, 0, 3, comm);
        }
        if (rank == 0) {
            attempt([&] { MPI_Recv(&small, 1, MPI_INT, 1, 1, comm, MPI_STATUS_IGNORE); });
            attempt([&] {
                MPI_Request request;
                MPI_Irecv(&small, 1, MPI_INT, 1, 2, comm, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            });
            attempt([&] {
                MPI_Request request;
                int found = 0;
                MPI_Irecv(&small, 1, MPI_INT, 1, 3, comm, &request);
                while (!found)
                    MPI_Test(&request, &found, MPI_STATUS_IGNORE);
            });
        }
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        right = right && sum == ranks;
    }
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : &left, &left, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("left %d %s\n", left, right ? "right" : "wrong");
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
    return MPI_Finalize();
}
