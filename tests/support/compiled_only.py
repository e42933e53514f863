"""Marks of tests that are left out with NUMBA_DISABLE_JIT=1."""

import os

import pytest

PLAIN = os.environ.get("NUMBA_DISABLE_JIT") == "1"

takes_minutes = pytest.mark.skipif(PLAIN, reason="simulates seconds of spinning: minutes without compilation")
needs_compiler = pytest.mark.skipif(PLAIN, reason="is about compiled code")
