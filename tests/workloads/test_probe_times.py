"""What constants are made of the times that a probe measures."""

from types import SimpleNamespace

from workloads.probe import BATCH, BLOCKING, measure, measure_between

SPUN, WOKEN, SWITCHED, HANDED = 6000.0, 56_000.0, 80_000.0, 30_000.0


def probe():
    """A probe whose messages and switches always take as long."""

    def round_trips_ns(places, *, server, reader, pauses_ns=(0,), rival=False, count=0):
        if reader is BLOCKING:
            time_ns = HANDED
        elif server is BLOCKING:
            time_ns = SWITCHED if rival else WOKEN
        else:
            time_ns = SPUN
        return [time_ns] * (count or 3 * BATCH)

    return SimpleNamespace(
        round_trips_ns=round_trips_ns,
        samples=2,
        yields_ns=lambda place: [400.0],
        overruns_ns=lambda places, waiting: [100.0],
        overheads_ns=lambda places: {"send_ns": [900.0]},
    )


def test_between_hosts_a_message_takes_half_of_a_round_trip_and_a_wake_up_the_rest():
    assert measure_between(probe()) == {"latency_ns": [3000.0] * 3, "idle_wakeup_ns": [50_000.0] * 3}


def test_on_a_host_each_cost_is_what_comes_on_top_of_spinning():
    samples = measure(probe(), 0, 1)
    assert samples["latency_ns"] == [3000.0] * 3
    assert samples["idle_wakeup_ns"] == [50_000.0] * 3
    assert samples["remote_wakeup_ns"] == [74_000.0] * 3
    assert samples["local_switch_ns"] == [12_000.0] * 3
    assert samples["local_switch_pair_ns"] == [12_000.0] * 3 * BATCH


def test_on_one_processor_a_hand_off_is_half_of_a_round_trip():
    samples = measure(probe(), 0, 0)
    assert samples["local_switch_ns"] == samples["remote_wakeup_ns"] == [15_000.0] * 3
