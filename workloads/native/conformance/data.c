/* Numbers that are drawn, datatypes, operations and buffers. */
#include "conformance.h"

char drawn[400];
int sent[ROOM], received[ROOM];
MPI_Datatype types[TYPES];
const int type_size[TYPES] = {1, 2, 2, 2}, type_extent[TYPES] = {1, 4, 3, 2};
static const int place[TYPES][2] = {{0, 1}, {0, 2}, {2, 0}, {0, 1}}; /* of a datatype's numbers */
static uint64_t state, fixed, digest; /* `fixed`: for this case */
static int spanned;

static uint64_t mixed(uint64_t word)
{
    word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
    return word ^ (word >> 31);
}

void draw_from(uint64_t seed, const char *call, int number)
{
    state = seed;
    for (; *call; call++)
        state = mixed(state + (unsigned char)*call);
    fixed = state = mixed(state + (uint64_t)number);
    digest = 0;
    spanned = 0;
    drawn[0] = 0;
}

unsigned draw(unsigned below)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    return (unsigned)(mixed(state) % below);
}

unsigned spread(unsigned from, unsigned to, unsigned below)
{
    return (unsigned)(mixed(fixed + 1000003 * (uint64_t)from + to) % below);
}

int pairs_draw(int blocks)
{
    int most = ROOM / 2 / blocks / 4 - 64, pairs = draw(8) ? (int)draw(4) : most > 4000 ? 4000 : most;

    DRAWN(", %d pairs", pairs);
    return pairs;
}

void fill(int rank, int span)
{
    spanned = span + 32 < ROOM ? span + 32 : ROOM;
    for (int at = 0; at < spanned; at++) {
        sent[at] = (int)spread((unsigned)rank, (unsigned)at, 1 << 20);
        received[at] = -1 - (int)spread((unsigned)rank, (unsigned)at + ROOM, 1 << 20);
    }
}

void note(int64_t number)
{
    digest = mixed(digest + (uint64_t)number);
}

/* What this case has left behind. */
uint64_t noted(void)
{
    for (int at = 0; at < spanned; at++)
        digest = (digest ^ (uint32_t)sent[at] ^ ((uint64_t)(uint32_t)received[at] << 32)) * UINT64_C(0x100000001b3);
    return mixed(digest);
}

/* The composition of x -> a * x + b: its order matters. */
static void compose(const int *first, int *second, const int *at)
{
    uint32_t a = (uint32_t)first[at[0]], b = (uint32_t)first[at[1]], c = (uint32_t)second[at[0]];

    second[at[1]] = (int)(c * b + (uint32_t)second[at[1]]);
    second[at[0]] = (int)(c * a);
}

static void add(const int *first, int *second, const int *at)
{
    for (int number = 0; number < 2; number++)
        second[at[number]] = (int)((uint32_t)first[at[number]] + (uint32_t)second[at[number]]);
}

static void largest(const int *first, int *second, const int *at)
{
    if (first[at[0]] > second[at[0]])
        second[at[0]] = first[at[0]];
}

#define OPERATION(what, type)                                                                                   \
    static void what##_##type(void *first, void *second, int *count, MPI_Datatype *datatype)                    \
    {                                                                                                           \
        (void)datatype;                                                                                         \
        for (int item = 0; item < *count; item++)                                                               \
            what((int *)first + item * type_extent[type], (int *)second + item * type_extent[type], place[type]); \
    }
OPERATION(compose, 1)
OPERATION(compose, 2)
OPERATION(compose, 3)
OPERATION(add, 1)
OPERATION(add, 2)
OPERATION(add, 3)
OPERATION(largest, 0)

static MPI_User_function *const function[2][TYPES] = {{largest_0, compose_1, compose_2, compose_3},
                                                       {largest_0, add_1, add_2, add_3}};
static MPI_Op own_op[2][TYPES];

MPI_Op op_for(int type)
{
    const MPI_Op known[] = {MPI_SUM, MPI_MAX, MPI_BXOR};
    unsigned what = draw(3);

    if (type == 0 && draw(2)) {
        DRAWN(", operation %u", what);
        return known[what];
    }
    DRAWN(what > 0 ? ", own operation" : ", own operation that does not commute");
    return own_op[what > 0][type];
}

void types_make(void)
{
    int blocks[2] = {1, 1};

    types[0] = MPI_INT;
    for (int type = 1; type < TYPES; type++) {
        MPI_Datatype narrow;

        MPI_Type_indexed(2, blocks, place[type], MPI_INT, &narrow);
        MPI_Type_create_resized(narrow, 0, type_extent[type] * (MPI_Aint)sizeof(int), &types[type]);
        MPI_Type_commit(&types[type]);
        MPI_Type_free(&narrow);
    }
    for (int commutes = 0; commutes < 2; commutes++)
        for (int type = 0; type < TYPES; type++)
            MPI_Op_create(function[commutes][type], commutes || type == 0, &own_op[commutes][type]);
}

void types_free(void)
{
    for (int type = 1; type < TYPES; type++)
        MPI_Type_free(&types[type]);
    for (int type = 0; type < TYPES; type++) {
        MPI_Op_free(&own_op[0][type]);
        MPI_Op_free(&own_op[1][type]);
    }
}
