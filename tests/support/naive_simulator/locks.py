"""Locks of critical sections."""


class Lock:
    """Who has it, and who waits for it: whoever has waited longest comes first."""

    def __init__(self):
        self.owner = None
        self.line = []

    def give_up(self, by, fair):
        """A queue hands it over, if conscious only to who runs. Else whoever spins on a processor has it at
        once, or it is free; and one sleeper wakes to try, unless one tries already.
        """
        conscious = by.simulation.conscious
        heirs = [p for p in self.line if (fair and not conscious) or p.state == "running"]
        self.owner = heirs[0] if heirs else None
        if self.owner:
            self.line.remove(self.owner)
            self.owner.answered = True
            self.owner.processor.tell(self.owner)
            if by.simulation.activations and self.owner.state == "ready":
                self.owner.visit()
        sleepers = [process for process in self.line if process.state == "asleep"]
        wakes = not self.owner if fair else True
        if wakes and sleepers and not any(process.woken for process in self.line):
            sleepers[0].processor.wake(sleepers[0])
