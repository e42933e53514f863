"""Who may run when: decisions apart from deeds.

Policies (pure) decide; the driver and its agents carry decisions out on real processes;
the simulator carries out the same decisions on simulated ones.
"""
