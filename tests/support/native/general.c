/* Generalized requests among others, in each Wait and Test form: how often MPI asks for their status, frees and cancels
   them, and what it says of them. Where one fails, Waitall may leave others pending, and tells nothing here. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define COUNT 12
static int asked, freed, cancelled;

static int ask(void *state, MPI_Status *status)
{
    int number = *(int *)state;

    asked++;
    MPI_Status_set_elements(status, MPI_INT, 100 + number);
    MPI_Status_set_cancelled(status, number % 4 == 0);
    status->MPI_SOURCE = 200 + number;
    status->MPI_TAG = 300 + number;
    return number == 7 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int release(void *state)
{
    (void)state;
    freed++;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    (void)state;
    cancelled += 1 + complete;
    return MPI_SUCCESS;
}

static void say(int number, const MPI_Status *status)
{
    int count, was, class = 0;

    MPI_Get_count(status, MPI_INT, &count);
    MPI_Test_cancelled(status, &was);
    if (status->MPI_ERROR > 0)
        MPI_Error_class(status->MPI_ERROR, &class);
    printf("  %d: source %d tag %d count %d cancelled %d error %d\n", number, status->MPI_SOURCE, status->MPI_TAG, count,
           was, class);
}

int main(int argc, char **argv)
{
    static const char *const forms[] = {"Wait", "Waitall", "Waitany", "Waitsome", "Test", "Testall", "Testany",
                                        "Testsome", "Get"};
    int numbers[COUNT], in[COUNT], indices[COUNT];

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int fails = 0; fails < 2; fails++) {
        for (size_t form = 0; form < sizeof forms / sizeof *forms; form++) {
            MPI_Request requests[COUNT];
            MPI_Status statuses[COUNT];
            int error = 0, class, found = 0, index = 0;

            asked = freed = cancelled = 0;
            memset(statuses, 0, sizeof statuses);
            for (int number = 0; number < COUNT; number++) {
                numbers[number] = number == 7 && !fails ? 19 : number;
                if (number % 3 == 1) {
                    MPI_Grequest_start(ask, release, cancel, &numbers[number], &requests[number]);
                    if (number == 4)
                        MPI_Cancel(&requests[number]);
                    MPI_Grequest_complete(requests[number]);
                } else if (number % 3 == 2) {
                    MPI_Irecv(&in[number], 1, MPI_INT, 0, number, MPI_COMM_SELF, &requests[number]);
                    MPI_Send(&number, 1, MPI_INT, 0, number, MPI_COMM_SELF);
                } else {
                    requests[number] = MPI_REQUEST_NULL;
                }
            }
            printf("%s, %s\n", forms[form], fails ? "one fails" : "none fails");
            switch (form) {
            case 0:
                for (int number = 0; number < COUNT; number++)
                    error |= MPI_Wait(&requests[number], &statuses[number]) != 0;
                break;
            case 1: error = MPI_Waitall(COUNT, requests, statuses); break;
            case 2:
                for (int number = 0; index != MPI_UNDEFINED; number++) {
                    error |= MPI_Waitany(COUNT, requests, &index, &statuses[0]) != 0;
                    if (index != MPI_UNDEFINED)
                        say(index, &statuses[0]);
                }
                break;
            case 3:
                error = MPI_Waitsome(COUNT, requests, &found, indices, statuses);
                printf("  found %d\n", found);
                break;
            case 4:
                for (int number = 0; number < COUNT; number++)
                    error |= MPI_Test(&requests[number], &found, &statuses[number]) != 0;
                break;
            case 5: error = MPI_Testall(COUNT, requests, &found, statuses); break;
            case 6: error = MPI_Testany(COUNT, requests, &index, &found, &statuses[0]); break;
            case 7: error = MPI_Testsome(COUNT, requests, &found, indices, statuses); break;
            case 8:
                for (int number = 0; number < COUNT; number++)
                    error |= MPI_Request_get_status(requests[number], &found, &statuses[number]) != 0;
            }
            MPI_Error_class(error, &class);
            if (form == 1 && fails)
                goto end;
            printf("  error %d asked %d freed %d cancelled %d\n", class, asked, freed, cancelled);
            if (form != 2 && form != 6)
                for (int number = 0; number < COUNT; number++)
                    say(number, &statuses[number]);
end:
            for (int number = 0; number < COUNT; number++)
                if (requests[number] != MPI_REQUEST_NULL)
                    MPI_Wait(&requests[number], MPI_STATUS_IGNORE);
            printf("  in the end asked %d freed %d\n", asked, freed);
        }
    }
    fflush(stdout);
    return MPI_Finalize();
}
