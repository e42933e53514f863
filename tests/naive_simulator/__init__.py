"""The simulator's model once more, written for reading: objects, a heap, no compilation.

The compiled kernel must agree with it event for event. Nothing here is shared with the
kernel but the inputs: programs, waiting rules, the policy's session and the front door's
machine and job values. Events are (time, class, sequence): slots and arrivals, then
messages in the order they were sent, then processors by number, where a tick comes before
an alarm and that before the end of an activity. A timer that was reset leaves its old
entry in the heap, which is recognised by its version.

``parts`` has processes, processors and jobs; ``tables`` and ``eevdf`` the local schedulers;
``processors``, ``programs`` and ``messages`` what happens, layer upon layer; ``simulation``
the run. Not modelled: detours, and changes of slot that cost time or come late.
"""

from naive_simulator.simulation import NaiveSimulation

__all__ = ["NaiveSimulation"]
