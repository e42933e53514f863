"""Who may run when: decisions apart from deeds.

Policies (pure) decide; the driver and its agents carry decisions out on real processes;
the simulator executes the same decisions on simulated ones.
"""
