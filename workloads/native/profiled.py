"""The C text of the functions that time calls (``profile.h``), made from the table of calls.

A function ``profiled_X`` stands in front of ``noted_X``, which says what the call is about.
"""

from collections.abc import Sequence

from workloads.native.calls import Call, exported, indented, text_of
from workloads.native.noted import is_collective

WAITS_FOR_REQUESTS = {"Wait": "1, request", "Waitall": "count, requests"}
WAITS_FOR_REQUESTS |= {"Waitany": "count, requests", "Waitsome": "count, requests"}


def declarations(calls: Sequence[Call]) -> str:
    """Text for ``declared.h``."""
    return exported(f"int profiled_{call.name}({call.parameters});" for call in calls)


def definitions(calls: Sequence[Call]) -> str:
    """Text for ``made.c``."""
    lines = ['#include "profile.h"', f'_Static_assert({len(calls)} <= CALLS, "the profile has no more");']
    flags = ", ".join(str(int(_is_message(call))) for call in calls)
    lines.append(f"const unsigned char is_message[] = {{{flags}}};")
    for number, call in enumerate(calls):
        lines += _function(number, call)
    return text_of(*lines)


def _is_message(call: Call) -> bool:
    """Whether it names the rank that sends or receives; the root of a collective call is none."""
    return not is_collective(call) and bool({"dest", "source"} & set(call.names))


def _awaits(call: Call) -> str:
    if is_collective(call) and "MPI_Request *request" not in call.arguments:
        return "AWAITS_ALL"
    return "AWAITS_RANK" if call.kind in ("sending", "waiting") else "AWAITS_NOTHING"


def _function(number: int, call: Call) -> list[str]:
    requests = WAITS_FOR_REQUESTS.get(call.name)
    before = [f"profile_requests(&timed, {requests});"] if requests else []
    after = []
    own = []
    # Of a message from any rank the status has the source.
    if call.kind == "waiting" and "MPI_Status *status" in call.arguments:
        own = ["MPI_Status own = {.MPI_SOURCE = MPI_ANY_SOURCE};"]
        before += ["if (status == MPI_STATUS_IGNORE)", "    status = &own;"]
        after = ["if (!error)", "    timed.source = status->MPI_SOURCE;"]
    return [
        f"int profiled_{call.name}({call.parameters})",
        "{",
        *indented(own),
        "    struct timed timed __attribute__((cleanup(profile_left))) =",
        f"        profile_entered({number}, {_awaits(call)}, __builtin_frame_address(0));",
        "    int error;",
        "",
        *indented(before),
        f"    error = noted_{call.name}({call.passed});",
        *indented(after),
        "    return error;",
        "}",
    ]
