"""A job log of four jobs, and experiments that run a part of it, for runs that take no time."""

LOG = """; MaxProcs: 16
1 0 0 1200 16 -1 -1 16 3600 -1 1 1 1 -1 1 -1 -1 -1
2 300 900 2400 8 -1 -1 8 3600 -1 1 2 1 -1 1 -1 -1 -1
3 400 2500 900 16 -1 -1 16 1800 -1 1 1 1 -1 1 -1 -1 -1
4 500 700 600 8 -1 -1 8 900 -1 1 3 1 -1 1 -1 -1 -1
"""
RUN_S = (0.4, 0.8, 0.3, 0.2)
"""The jobs' times alone in these experiments."""


def write(folder, *policies, log=LOG, repeats=1, name="queue.toml", more=""):
    """Write the log, and an experiment of half an hour of it under these policies."""
    (folder / "queue.swf").write_text(log)
    part = '[log]\nfile = "queue.swf"\nhours = 0.5\nminutes = 0.01\n'
    schedulers = "".join(f'[[schedulers]]\npolicy = "{policy}"\n' for policy in policies)
    (folder / name).write_text(f"processors = 2\nrepeats = {repeats}\n{part}{schedulers}{more}")
