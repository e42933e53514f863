"""Simulated machines: process by process (``processes``) and job by job (``jobs``).

:func:`harness.simulator.processes.simulate.simulate` simulates processes, after Dusseau, Arpaci,
Culler, SIGMETRICS 1996, section 3. A caller describes a ``machine`` and gets an ``outcome``. ``model``
is the machine as arrays, ``state`` fills them, and ``kernel`` changes them event by event. ``events``
finds the next event, ``processor`` decides who runs, ``program`` has the steps of a process, and
``messages`` its messages.
"""
