/* The library that is preloaded into every process. It knows no MPI: it has an entry for each covered
 * call, which jumps to the call's target. The target is MPI's own function until MPI has been
 * initialized, and for ever if LOCKSTEP_NATIVE ("LIBRARY=OURS:...") does not name the program's MPI.
 * Otherwise the target is the function of the library made for that MPI.
 *
 * An entry passes its arguments on, each as wide as a register: it need not know their types.
 * The entries have both names, MPI_X and PMPI_X, because the Fortran functions of Open MPI call the second.
 * A process that never calls MPI runs nothing of this file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

typedef long word;

static void *target(int number, void *caller);

#define ENTRY(number, name, declared, passed)                                                                   \
    VISIBLE int entry_##name declared __asm__("MPI_" #name);                                                    \
    int entry_##name declared                                                                                   \
    {                                                                                                           \
        return ((int(*) declared)target(number, __builtin_return_address(0))) passed;                           \
    }                                                                                                           \
    VISIBLE int own_entry_##name declared __asm__("PMPI_" #name) __attribute__((alias("MPI_" #name)));

#include "entries.h" /* generated: an ENTRY for each call, ENTRIES, NAMES */

static const char *const names[] = {NAMES};
static void *targets[ENTRIES];
static void *mpi; /* a handle of the process's MPI */
static int initialized;

static void fail(const char *what, const char *name)
{
    dprintf(2, "lockstep: %s %s\n", what, name);
    abort();
}

/* A function behind this library: in the libraries of the program, or of a module loaded later. */
static void *behind(const char *name, void *caller)
{
    void *found = mpi != NULL ? dlsym(mpi, name) : dlsym(RTLD_NEXT, name);
    struct link_map *object;
    Dl_info info;

    if (found == NULL && mpi == NULL &&
        dladdr1(caller, &info, (void **)&object, RTLD_DL_LINKMAP) && *object->l_name) {
        mpi = dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD);
        found = mpi != NULL ? dlsym(mpi, name) : NULL;
    }
    return found;
}

static void *find(const char *name)
{
    return behind(name, NULL);
}

static void *target(int number, void *caller)
{
    void *found = __atomic_load_n(&targets[number], __ATOMIC_ACQUIRE);

    if (__builtin_expect(found == NULL, 0)) {
        char name[64] = "PMPI_";

        found = behind(strcat(name, names[number]), caller);
        if (found == NULL)
            fail("no function of the MPI library is called", name);
        __atomic_store_n(&targets[number], found, __ATOMIC_RELEASE);
    }
    return found;
}

/* The library for the MPI that has this function; NULL if there is none. */
static void *ours_for(void *function)
{
    const char *known = getenv("LOCKSTEP_NATIVE");
    char real[PATH_MAX];
    Dl_info info;
    size_t length;

    if (known == NULL || !dladdr(function, &info) || realpath(info.dli_fname, real) == NULL)
        return NULL;
    length = strlen(real);
    for (const char *at = known; *at; at += strcspn(at, ":"), at += *at == ':') {
        char ours[PATH_MAX];
        size_t all = strcspn(at, ":");

        if (all <= length + 1 || all - length > PATH_MAX || strncmp(at, real, length) != 0 || at[length] != '=')
            continue;
        snprintf(ours, sizeof ours, "%.*s", (int)(all - length - 1), at + length + 1);
        return dlopen(ours, RTLD_NOW | RTLD_LOCAL);
    }
    return NULL;
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* MPI has been initialized, which took so long: direct the calls to the library for it. */
static void begin(void *initialize, int64_t took_ns, int64_t took_cpu_ns)
{
    typedef const char *preparing(void *(*)(const char *), int64_t, int64_t);
    void *ours = ours_for(initialize);
    preparing *prepare = NULL;
    const char *prefix;

    if (ours != NULL)
        prepare = (preparing *)dlsym(ours, "lockstep_begin");
    if (prepare == NULL) {
        Dl_info info;

        if (getenv("LOCKSTEP_NATIVE") != NULL && dladdr(initialize, &info))
            dprintf(2, "lockstep: the library is not made for %s, and this program %s; --mpicc names an MPI's"
                       " compiler wrapper\n", info.dli_fname,
                    getenv("LOCKSTEP_OPERATIONS") ? "is not recorded" : "waits as it is");
        return;
    }
    prefix = prepare(find, took_ns, took_cpu_ns);
    if (prefix == NULL)
        return;
    for (int number = 0; number < ENTRIES; number++) {
        char name[64];
        void *found;

        snprintf(name, sizeof name, "%s%s", prefix, names[number]);
        found = dlsym(ours, name);

        if (found != NULL)
            __atomic_store_n(&targets[number], found, __ATOMIC_RELEASE);
    }
}

static int initialize(const char *name, int *argc, char ***argv, int required, int *provided, void *caller)
{
    void *own = behind(name, caller);
    int64_t begin_ns = clock_ns(CLOCK_MONOTONIC), begin_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    int error;

    if (own == NULL)
        fail("no function of the MPI library is called", name);
    if (provided == NULL)
        error = ((int (*)(int *, char ***))own)(argc, argv);
    else
        error = ((int (*)(int *, char ***, int, int *))own)(argc, argv, required, provided);
    if (error == 0 && !__atomic_exchange_n(&initialized, 1, __ATOMIC_ACQ_REL))
        begin(own, clock_ns(CLOCK_MONOTONIC) - begin_ns, clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_cpu_ns);
    return error;
}

VISIBLE int MPI_Init(int *argc, char ***argv)
{
    return initialize("PMPI_Init", argc, argv, 0, NULL, __builtin_return_address(0));
}

VISIBLE int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    return initialize("PMPI_Init_thread", argc, argv, required, provided, __builtin_return_address(0));
}

VISIBLE int PMPI_Init(int *argc, char ***argv) __attribute__((alias("MPI_Init")));
VISIBLE int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
    __attribute__((alias("MPI_Init_thread")));
