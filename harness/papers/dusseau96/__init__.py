"""Dusseau, Arpaci, Culler 1996: implicit scheduling against coscheduling."""
