/* The library that is preloaded into every process. It knows no MPI and exports no name of MPI's, and in a process
 * without MPI it does nothing but look at the names of the loaded objects, at the start and before a dlsym.
 *
 * Where an MPI library is loaded that LIBRARIES lists, its table of names then leads from the covered calls to entries
 * in this file, and so do the tables of objects that the loader has bound to it already. So an entry is what everybody
 * finds who asks for MPI_X or PMPI_X: the program, a Fortran function of the MPI, dlsym, and other tools. These stay
 * above us and see what the program calls.
 *
 * An entry jumps to the call's target. The target is MPI's own function until MPI has been initialized, and for ever
 * if not all ranks have this library. Otherwise it is the function of the library made for that MPI.
 * Entries pass their arguments on, each as wide as a register: they need not know their types.
 *
 * No function of the C library may be called here that is newer than glibc 2.17: an older container ends programs
 * whose preloaded libraries ask for more. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))
#define LONGEST 96 /* name of a function */

typedef long word;
typedef int any_function(void);

#define ENTRY(number, name, declared, passed)                                                                   \
    static int entry_##name declared                                                                            \
    {                                                                                                           \
        return ((int(*) declared)__atomic_load_n(&targets[number], __ATOMIC_ACQUIRE)) passed;                   \
    }

static void *targets[];
#include "entries.h" /* generated: LIBRARIES, an ENTRY for each call, ENTRIES, NAMES, LEFT, ENTRY_OF */

static const char *const names[] = {NAMES};
static any_function *const entry_of[] = {ENTRY_OF};
static const char left[] = {LEFT}; /* whether a call stays MPI's own, and is only noted */
static const char *const libraries[] = {LIBRARIES};
static void *targets[ENTRIES], *own[ENTRIES]; /* own: MPI's functions */
static void *own_init, *own_init_thread;
static int ours;                /* an MPI of `libraries` is there */
static char incompatible_mpi[PATH_MAX]; /* the library of an MPI that is none of them */
static int initialized, begun;  /* an MPI is, and is replaced: its library stays loaded from then on */
static pid_t process;           /* which loaded us: its forked children are not ranks */
static unsigned long long objects; /* that had been loaded when we last looked; 0: never */

/* Where this object is described, and the loader's list of objects: glibc's name for it, and musl's. */
extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));
extern struct r_debug _r_debug __attribute__((weak));
extern struct r_debug *_dl_debug_addr __attribute__((weak));

/* Before a sanitizer is ready it asks for functions by dlsym, and its strcmp does not work. */
static int same(const char *one, const char *other)
{
    while (*one && *one == *other)
        one++, other++;
    return *one == *other;
}

/* The names that an object defines, and the places where the loader has written addresses. */
struct object {
    ElfW(Addr) base;
    ElfW(Sym) *symbols;
    const char *strings;
    uint32_t buckets, first;
    const uint32_t *bucket, *chain;
    const ElfW(Rela) *bound[2];
    size_t bounds[2];
};

static int read_object(ElfW(Addr) base, const ElfW(Dyn) *at, struct object *object)
{
    const uint32_t *hashes = NULL;

    *object = (struct object){.base = base};
    for (; at != NULL && at->d_tag != DT_NULL; at++) {
        uintptr_t place = at->d_un.d_ptr; /* glibc has added the base, others have not */

        place += place < object->base ? object->base : 0;
        switch (at->d_tag) {
        case DT_SYMTAB: object->symbols = (ElfW(Sym) *)place; break;
        case DT_STRTAB: object->strings = (const char *)place; break;
        case DT_GNU_HASH: hashes = (const uint32_t *)place; break;
        case DT_RELA: object->bound[0] = (const ElfW(Rela) *)place; break;
        case DT_RELASZ: object->bounds[0] = at->d_un.d_val / sizeof(ElfW(Rela)); break;
        case DT_JMPREL: object->bound[1] = (const ElfW(Rela) *)place; break;
        case DT_PLTRELSZ: object->bounds[1] = at->d_un.d_val / sizeof(ElfW(Rela)); break;
        }
    }
    if (object->symbols == NULL || object->strings == NULL || hashes == NULL)
        return 0;
    object->buckets = hashes[0];
    object->first = hashes[1];
    object->bucket = hashes + 4 + hashes[2] * (sizeof(ElfW(Addr)) / sizeof *hashes);
    object->chain = object->bucket + object->buckets;
    return 1;
}

static int read_shown(const struct dl_phdr_info *info, struct object *object)
{
    const ElfW(Dyn) *dynamic = NULL;

    for (int part = 0; part < info->dlpi_phnum; part++)
        if (info->dlpi_phdr[part].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[part].p_vaddr);
    return read_object(info->dlpi_addr, dynamic, object);
}

/* The entry of a name in an object's table, or NULL: a search as the format of DT_GNU_HASH prescribes it. */
static ElfW(Sym) *look_up(const struct object *object, const char *name)
{
    uint32_t hash = 5381, number;

    for (const char *at = name; *at; at++)
        hash = hash * 33 + (unsigned char)*at;
    number = object->buckets ? object->bucket[hash % object->buckets] : 0;
    for (; number >= object->first && number != 0; number++) {
        ElfW(Sym) *symbol = &object->symbols[number];
        uint32_t found = object->chain[number - object->first];

        if ((found | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
            same(object->strings + symbol->st_name, name))
            return symbol;
        if (found & 1)
            break;
    }
    return NULL;
}

static const struct link_map *first_loaded(void)
{
    const struct r_debug *loader = &_r_debug ? &_r_debug : &_dl_debug_addr ? _dl_debug_addr : NULL;

    return loader ? loader->r_map : NULL;
}

/* A function of the program's objects: of those behind the one that defines it as `before`, or of any. */
static void *find_behind(const char *name, const void *before)
{
    for (const struct link_map *at = first_loaded(); at != NULL; at = at->l_next) {
        struct object object;
        ElfW(Sym) *symbol = read_object(at->l_addr, at->l_ld, &object) ? look_up(&object, name) : NULL;

        if (symbol != NULL && before == NULL)
            return (void *)(object.base + symbol->st_value);
        if (symbol != NULL && object.base + symbol->st_value == (ElfW(Addr))before)
            before = NULL;
    }
    return NULL;
}

/* MPI's own function, though its name leads to an entry; or any other one. */
static void *find(const char *name)
{
    for (int number = 0; strncmp(name, "PMPI_", 5) == 0 && number < ENTRIES; number++)
        if (same(names[number], name + 5))
            return own[number];
    return find_behind(name, NULL);
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* The library made for this MPI, which stands beside this one: both may have been moved. */
static void *load(void)
{
    void *(*open)(const char *, int) = find_behind("dlopen", NULL);
    char path[PATH_MAX] = "";
    void *wrappers;

    for (const struct link_map *at = first_loaded(); at != NULL; at = at->l_next)
        if (at->l_ld == _DYNAMIC)
            snprintf(path, sizeof path, "%.*swrappers.so", (int)(last_part(at->l_name) - at->l_name), at->l_name);
    wrappers = open != NULL ? open(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (wrappers == NULL)
        dprintf(2, "lockstep: cannot load %s, and this program waits as it is\n", path);
    begun = wrappers != NULL;
    return wrappers;
}

/* Whether this process would be the rank to speak for its job, as far as its launcher's variables tell. */
static int is_first(void)
{
    static const char *const variables[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"};

    for (size_t number = 0; number < sizeof variables / sizeof *variables; number++) {
        const char *rank = getenv(variables[number]);

        if (rank != NULL)
            return same(rank, "0");
    }
    return 1;
}

static long yields_so_far(void);

/* A call leads from now on to the function of a layer that times or notes it, and from there to the one with
   the prefix, or to MPI's own. */
static void replace(void *wrappers, const char *layer, const char *prefix, int number)
{
    char name[LONGEST], under[LONGEST], front[LONGEST];
    void **place, *target;

    snprintf(name, sizeof name, "%s%s", prefix, names[number]);
    snprintf(under, sizeof under, "under_%s", names[number]);
    snprintf(front, sizeof front, "%s%s", layer, names[number]);
    target = left[number] ? NULL : dlsym(wrappers, name);
    place = dlsym(wrappers, under);
    if (place != NULL && own[number] != NULL) {
        *place = target != NULL ? target : own[number];
        target = dlsym(wrappers, front);
    }
    if (target != NULL)
        __atomic_store_n(&targets[number], target, __ATOMIC_RELEASE);
}

static int initialize(void *init, int *argc, char ***argv, int required, int *provided)
{
    int64_t begin_ns = clock_ns(CLOCK_MONOTONIC), begin_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    int first = !__atomic_exchange_n(&initialized, 1, __ATOMIC_ACQ_REL), error;
    void *wrappers = first && ours ? load() : NULL;
    int (*prepare)(void *(*)(const char *), long (*)(void)) = wrappers ? dlsym(wrappers, "lockstep_prepare") : NULL;
    const char *(*begin)(int64_t, int64_t) =
        prepare && prepare(find, yields_so_far) ? dlsym(wrappers, "lockstep_begin") : NULL;
    int (*profiles)(void) = begin ? dlsym(wrappers, "lockstep_profiles") : NULL;
    const char *prefix = NULL, *layer;

    if (first && !ours && *incompatible_mpi && is_first())
        dprintf(2, "lockstep: the library is not made for %s, and this program %s; --mpicc names an MPI's compiler"
                   " wrapper\n", incompatible_mpi, getenv("LOCKSTEP_OPERATIONS") ? "is not recorded" : "waits as it is");
    if (provided == NULL)
        error = ((int (*)(int *, char ***))init)(argc, argv);
    else
        error = ((int (*)(int *, char ***, int, int *))init)(argc, argv, required, provided);
    if (error == 0 && begin != NULL)
        prefix = begin(clock_ns(CLOCK_MONOTONIC) - begin_ns, clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_cpu_ns);
    layer = prefix != NULL && profiles() ? "profiled_" : "noted_";
    for (int number = 0; prefix != NULL && number < ENTRIES; number++)
        replace(wrappers, layer, prefix, number);
    return error;
}

static int init(int *argc, char ***argv)
{
    return initialize(own_init, argc, argv, 0, NULL);
}

static int init_thread(int *argc, char ***argv, int required, int *provided)
{
    return initialize(own_init_thread, argc, argv, required, provided);
}

/* Write an address where the loader may have protected the page. It stays writable: another thread's loader may
   be about to write there, too. */
static void write_address(ElfW(Addr) *place, const void *address)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)place & ~(page - 1);

    if (mprotect((void *)from, page, PROT_READ | PROT_WRITE) == 0)
        __atomic_store_n(place, (ElfW(Addr))address, __ATOMIC_RELEASE);
}

/* Where the table of an MPI's names says what this one leads to; NULL if it has no such name. */
static ElfW(Addr) *meaning(const struct object *mpi, const char *prefix, const char *name)
{
    char full[LONGEST];
    ElfW(Sym) *symbol;

    snprintf(full, sizeof full, "%s%s", prefix, name);
    symbol = look_up(mpi, full);
    return symbol == NULL ? NULL : &symbol->st_value;
}

/* Lead a name to an entry. What it led to is MPI's own function, and the entry's target, if it has one, before anybody
   can find the entry: an MPI that is loaded again has other functions. Returns whether it did not yet lead there. */
static int lead(const struct object *mpi, ElfW(Addr) *place, const void *entry, void **before, void **target)
{
    if (place == NULL || mpi->base + *place == (ElfW(Addr))entry)
        return 0;
    *before = (void *)(mpi->base + *place);
    if (target != NULL && !begun)
        __atomic_store_n(target, *before, __ATOMIC_RELEASE);
    write_address(place, (const char *)entry - mpi->base);
    return 1;
}

/* What is there now: libraries may have been unloaded, or loaded again, also at the same place. */
struct present {
    int ours, covered; /* an MPI of `libraries` is there; one was covered now */
    char incompatible_mpi[PATH_MAX];
};

/* Lead the covered calls of an MPI to the entries; of an MPI that we are not made for, those that initialize it.
   A library without nonblocking collective operations is no MPI, but stands in for one. */
static int cover(struct dl_phdr_info *info, size_t size, void *what)
{
    static const char *const both[] = {"MPI_", "PMPI_"}; /* so that `own` has PMPI's in the end */
    struct present *present = what;
    const char *name = last_part(info->dlpi_name);
    char real[PATH_MAX];
    struct object mpi;
    ElfW(Addr) *first;
    int known = 0;

    (void)size;
    objects = info->dlpi_adds;
    if ((strncmp(name, "libmpi", 6) && strncmp(name, "libpmpi", 7)) || realpath(info->dlpi_name, real) == NULL)
        return 0;
    for (size_t number = 0; number < sizeof libraries / sizeof *libraries; number++)
        known |= same(real, libraries[number]);
    if (!read_shown(info, &mpi) || (!known && (present->ours || !look_up(&mpi, "PMPI_Ibarrier"))))
        return 0;
    if (known)
        present->ours = 1;
    else
        strcpy(present->incompatible_mpi, real);
    first = meaning(&mpi, "MPI_", "Init");
    if (first != NULL && mpi.base + *first == (ElfW(Addr))init) /* it was covered before */
        return 0;
    for (int prefix = 0; prefix < 2; prefix++) {
        const char *before = both[prefix];
        int *covered = &present->covered;

        *covered |= lead(&mpi, meaning(&mpi, before, "Init"), (void *)init, &own_init, NULL);
        *covered |= lead(&mpi, meaning(&mpi, before, "Init_thread"), (void *)init_thread, &own_init_thread, NULL);
        for (int number = 0; known && number < ENTRIES; number++)
            *covered |= lead(&mpi, meaning(&mpi, before, names[number]), (void *)entry_of[number], &own[number],
                             &targets[number]);
    }
    return 0;
}

static const void *entry_for(ElfW(Addr) address)
{
    if (address == (ElfW(Addr))own_init)
        return (void *)init;
    if (address == (ElfW(Addr))own_init_thread)
        return (void *)init_thread;
    for (int number = 0; number < ENTRIES; number++)
        if (address == (ElfW(Addr))own[number])
            return (void *)entry_of[number];
    return NULL;
}

struct range {
    ElfW(Addr) from, to;
};

/* Lead an object that is already bound to MPI's own functions to the entries. */
static int rebind(struct dl_phdr_info *info, size_t size, void *what)
{
    const struct range *range = what;
    struct object object;

    (void)size;
    read_shown(info, &object);
    for (int table = 0; table < 2; table++)
        for (size_t number = 0; object.bound[table] != NULL && number < object.bounds[table]; number++) {
            ElfW(Addr) *place = (ElfW(Addr) *)(object.base + object.bound[table][number].r_offset);
            const void *entry;

            if ((uintptr_t)place % sizeof *place || *place < range->from || *place > range->to)
                continue;
            entry = entry_for(*place);
            if (entry != NULL)
                write_address(place, entry);
        }
    return 0;
}

static int count(struct dl_phdr_info *info, size_t size, void *loaded)
{
    (void)size;
    *(unsigned long long *)loaded = info->dlpi_adds;
    return 1;
}

/* Look whether an MPI has been loaded since the last time. */
static void look(void)
{
    struct present present = {0};
    struct range range;
    unsigned long long loaded = 0;

    dl_iterate_phdr(count, &loaded);
    if (loaded == __atomic_load_n(&objects, __ATOMIC_RELAXED))
        return;
    dl_iterate_phdr(cover, &present);
    ours = present.ours;
    strcpy(incompatible_mpi, present.incompatible_mpi);
    if (!present.covered) /* who has been bound since finds the entries */
        return;
    if (!begun) /* what was initialized before has been unloaded, or is another MPI */
        initialized = 0;
    range = (struct range){(ElfW(Addr))own_init, (ElfW(Addr))own_init};
    for (int number = -1; number < ENTRIES; number++) {
        ElfW(Addr) address = (ElfW(Addr))(number == -1 ? own_init_thread : own[number]);

        if (address != 0 && (range.from == 0 || address < range.from))
            range.from = address;
        range.to = address > range.to ? address : range.to;
    }
    dl_iterate_phdr(rebind, &range);
}

__attribute__((constructor)) static void begin(void)
{
    process = getpid();
    look();
}

/* Say why a program was not reached: nobody has looked up a name between the moment at which its MPI was loaded and
   the one at which it was initialized. */
__attribute__((destructor)) static void end(void)
{
    int (*ask)(int *), initialized_itself = 0;

    if (process != getpid())
        return;
    look();
    ask = ours && !initialized && is_first() ? find_behind("PMPI_Initialized", NULL) : NULL;
    if (ask != NULL && ask(&initialized_itself) == 0 && initialized_itself)
        dprintf(2, "lockstep: a module of this program has opened its MPI and called it, with no dlsym between, and "
                   "its job %s; put LD_PRELOAD=%s before lockstep, or link the program with this MPI\n",
                getenv("LOCKSTEP_OPERATIONS") ? "is not recorded" : "waits as it is", libraries[0]);
}

/* Who has opened an MPI, or a module that is bound to one, next asks for a name in it. This function ends in a jump:
   the real one looks who has called it. */
VISIBLE void *dlsym(void *handle, const char *name)
{
    static void *(*real)(void *, const char *);
    void *(*found)(void *, const char *) = __atomic_load_n(&real, __ATOMIC_ACQUIRE);

    if (found == NULL) {
        found = find_behind("dlsym", (const void *)dlsym);
        if (found == NULL)
            return NULL;
        __atomic_store_n(&real, found, __ATOMIC_RELEASE);
    }
    if (__atomic_load_n(&objects, __ATOMIC_RELAXED))
        look();
    return found(handle, name);
}

/* An MPI that waits may give its processor away by this function. The recorder asks how often it does
   (rendezvous.c). */
static _Thread_local long yields __attribute__((tls_model("initial-exec")));

VISIBLE int sched_yield(void)
{
    yields++;
    return (int)syscall(SYS_sched_yield);
}

static long yields_so_far(void)
{
    return yields;
}

/* The sanitizer ends programs in which it is not loaded first, but for this. */
VISIBLE const char *__asan_default_options(void)
{
    return "verify_asan_link_order=0";
}
