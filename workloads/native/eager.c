/* From which size on sender and receiver of a message on one node meet, by what this MPI says of itself. */
#include "operation.h"

#include "back.h"

/* Control variables of Open MPI 4, of Open MPI 5, and of MPICH from 4.0 on. */
static const char *const NAMES[] = {"btl_vader_eager_limit", "btl_sm_eager_limit",
                                    "MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_CELL_SIZE"};

/* The value of a variable; 0 if it is no number. */
static int64_t value_of(int variable)
{
    union {
        int whole;
        unsigned natural;
        unsigned long size;
        unsigned long long large;
    } value = {.large = 0};
    MPI_T_cvar_handle handle;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    int verbosity, bound, scope, count, failed;
    MPI_T_enum names;

    if (MPI_T_cvar_get_info(variable, NULL, NULL, &verbosity, &type, &names, NULL, NULL, &bound, &scope) !=
            MPI_SUCCESS ||
        bound != MPI_T_BIND_NO_OBJECT)
        return 0;
    if (type != MPI_INT && type != MPI_UNSIGNED && type != MPI_UNSIGNED_LONG && type != MPI_UNSIGNED_LONG_LONG)
        return 0;
    if (MPI_T_cvar_handle_alloc(variable, NULL, &handle, &count) != MPI_SUCCESS)
        return 0;
    failed = count != 1 || MPI_T_cvar_read(handle, &value) != MPI_SUCCESS;
    MPI_T_cvar_handle_free(&handle);
    if (failed)
        return 0;
    if (type == MPI_INT)
        return value.whole;
    if (type == MPI_UNSIGNED)
        return value.natural;
    return type == MPI_UNSIGNED_LONG ? (int64_t)value.size : (int64_t)value.large;
}

int64_t eager_bytes(void)
{
    int64_t found = 0;
    int provided, variable;

    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS)
        return 0;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES && found <= 0; i++)
        if (MPI_T_cvar_get_index(NAMES[i], &variable) == MPI_SUCCESS)
            found = value_of(variable);
    MPI_T_finalize();
    return found > 0 ? found : 0;
}
