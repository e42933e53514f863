"""The schedulers of a processor, which decide whether its processes take turns."""
