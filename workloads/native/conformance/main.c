/* conformance SEED CASES SECONDS [CALL...]: try the calls, or all; prints for each

       call CALL           before all others
       begin CALL
       own CALL            all cases were tried with the blocking form
       differs CALL: CASE  from a rank where the other form left something else, in the first such case
       end CALL DIGEST     all cases were tried with both; DIGEST tells what the blocking form left
       fails CALL: CASE    instead, from a rank where a form ended the job
       hangs CALL: CASE    or took longer than SECONDS

   A call without its last line has ended the job, even if no rank could say so. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "conformance.h"

#define CASES 1000

uint64_t noted(void);
int started, in_place;
static unsigned seed;
static int rank, cases;
static char trying[80]; /* this call */

/* A line in one piece: all ranks write to the same place. */
static void say(const char *word, const char *call, const char *more)
{
    char line[600];
    int length = snprintf(line, sizeof line, "%s %s%s\n", word, call, more);

    if (write(1, line, (size_t)length) != length)
        exit(1);
}

/* The end of a rank within a call. */
static void end(const char *how)
{
    char more[500];

    if (!*trying)
        return;
    snprintf(more, sizeof more, ": rank %d, %s form: %s", rank, started ? "tested" : "blocking", drawn);
    say(how, trying, more);
    trying[0] = 0;
}

static void end_early(void)
{
    end("fails");
}

static void end_by(int number)
{
    end(number == SIGALRM ? "hangs" : "fails");
    _exit(3);
}

void finish(MPI_Request *request, MPI_Status *status)
{
    int done = 0;

    while (!done)
        MPI_Test(request, &done, status);
}

/* Try all cases; returns the first that leaves something else than it did before, in words, or "". */
static const char *try_all(const struct call *call, uint64_t *found, const uint64_t *before)
{
    static char differs[500];

    differs[0] = 0;
    for (int number = 0; number < cases; number++) {
        draw_from(seed, call->name, number);
        call->one();
        found[number] = noted();
        if (before != NULL && found[number] != before[number] && !differs[0])
            snprintf(differs, sizeof differs, ": rank %d, case %d: %s", rank, number, drawn);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return differs;
}

static void both_forms(const struct call *call, unsigned seconds)
{
    static uint64_t own[CASES], tested[CASES];
    uint64_t digest = 0, all;
    const char *differs;
    char more[32];

    alarm(seconds);
    started = 0;
    if (rank == 0)
        say("begin", trying, "");
    try_all(call, own, NULL);
    if (rank == 0)
        say("own", trying, "");
    started = 1;
    differs = try_all(call, tested, own);
    if (*differs)
        say("differs", trying, differs);
    for (int number = 0; number < cases; number++)
        digest = digest * UINT64_C(0x100000001b3) + own[number];
    MPI_Reduce(&digest, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    snprintf(more, sizeof more, " %016llx", (unsigned long long)all);
    if (rank == 0)
        say("end", trying, more);
    alarm(0);
    trying[0] = 0;
}

/* Do something with each call that is wanted. */
static void each(int count, char **names, void (*act)(const struct call *, unsigned), unsigned seconds)
{
    const struct call *tables[] = {collectives, messages, completions, collectives_large, messages_large};

    for (size_t table = 0; table < sizeof tables / sizeof *tables; table++)
        for (const struct call *call = tables[table]; call->name != NULL; call++)
            for (in_place = 0; in_place <= call->places; in_place++) {
                int found = count == 0;

                snprintf(trying, sizeof trying, "%s%s", call->name, in_place ? ":in-place" : "");
                for (int number = 0; number < count; number++)
                    found |= strcmp(trying, names[number]) == 0;
                if (found)
                    act(call, seconds);
                trying[0] = 0;
            }
}

static void announce(const struct call *call, unsigned seconds)
{
    (void)call, (void)seconds;
    if (rank == 0)
        say("call", trying, "");
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    if (count < 4)
        MPI_Abort(MPI_COMM_WORLD, 2);
    seed = (unsigned)atoi(words[1]);
    cases = atoi(words[2]) < CASES ? atoi(words[2]) : CASES;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    signal(SIGALRM, end_by);
    signal(SIGSEGV, end_by);
    signal(SIGBUS, end_by);
    signal(SIGABRT, end_by);
    atexit(end_early);
    types_make();
    groups_make(seed);
    each(count - 4, words + 4, announce, 0);
    each(count - 4, words + 4, both_forms, (unsigned)atoi(words[3]));
    groups_free();
    types_free();
    return MPI_Finalize();
}
