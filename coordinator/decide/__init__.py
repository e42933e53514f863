"""Decisions: from events to who may run when. No clock, process or socket."""
