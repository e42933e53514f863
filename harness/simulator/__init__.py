"""A machine that time-shares parallel jobs, simulated process by process and message by message.

:func:`harness.simulator.processes.simulate.simulate` is the front door. The model is that of Dusseau,
Arpaci, Culler, SIGMETRICS 1996, section 3. A caller describes a ``machine`` and gets an ``outcome``;
``model`` is the same machine as arrays. ``state`` fills them and ``kernel`` changes them event by
event, with the help of ``events`` (the next one), ``processor`` (who runs), ``program`` (its steps)
and ``messages``.
"""
