"""What a driver leaves for another one that takes its run over: how the run began, and what happened.

Policies are pure, so the same events bring a new conductor to the same decisions. The file lies
in the run directory, where its user alone can write, from the start of the run to its end. The same
version on the same host reads it. It holds data only: a line becomes one of the dataclasses in
``events``, or is refused.
"""
