"""Calls a function of tests as a user who is not root: ``run_unprivileged.py MODULE FUNCTION WORDS...``."""

import importlib
import os
import sys

NOBODY = 65534


def main(module, function, *words):
    action = getattr(importlib.import_module(module), function)
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    action(*words)


if __name__ == "__main__":
    main(*sys.argv[1:])
