"""A machine that time-shares parallel jobs, simulated process by process and message by message.

:func:`harness.simulator.processes.simulate.simulate` is the front door. The model is that of Dusseau,
Arpaci, Culler, SIGMETRICS 1996, section 3. ``machine`` holds what a caller describes,
``outcome`` what he gets; ``model`` is the same machine as arrays, which ``state`` fills and
``kernel`` changes event by event, with the help of ``events`` (what happens next),
``processor`` (who runs), ``program`` (what it does) and ``messages``.
"""
