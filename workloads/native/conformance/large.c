/* Collective operations and messages with large counts, if the MPI has them. */
#include "conformance.h"

#if MPI_VERSION >= 4
#define COUNT MPI_Count
#define DISPL MPI_Aint
#define FORM(name) name##_c
#define NAMED(name) name "_c"
#define TABLE collectives_large
#define MESSAGES messages_large
#include "collectives.h"
#include "messages.h"
#else
const struct call collectives_large[] = {{NULL, NULL, 0}}, messages_large[] = {{NULL, NULL, 0}};
#endif
