"""The verdict follows from the rows, the geomean and the spec's acceptance, and from nothing else."""

from __future__ import annotations

from results import make_row

from runner.decision import decide
from runner.measure import geomean_of
from runner.result import Geomean, TimingRow
from runner.roofline import floor_seconds, implausible
from runner.spec.models import Accept
from runner.spec.workload import Workload
from runner.targets.protocol import Device
from runner.verdict import Verdict

ACCEPT = Accept(min_speedup=1.05, min_workload_speedup=0.95)


def ruled(*rows: TimingRow) -> tuple[Verdict, str]:
    return decide(ACCEPT, rows, geomean_of(rows, 0.95, 1))


def test_a_clear_gain_is_accepted() -> None:
    verdict, message = ruled(make_row("a", 1.4), make_row("b", 1.2))
    assert verdict is Verdict.ACCEPTED
    assert "clears 1.05" in message


def test_a_gain_that_the_interval_does_not_clear_is_slower() -> None:
    verdict, message = ruled(make_row("a", 1.06, noise=0.05), make_row("b", 1.06, noise=0.05, seed=4))
    assert verdict is Verdict.SLOWER
    assert "does not clear 1.05" in message


def test_a_bound_that_is_met_exactly_is_not_cleared() -> None:
    assert decide(ACCEPT, (make_row(),), Geomean(speedup=1.1, interval=(1.05, 1.2)))[0] is Verdict.SLOWER


def test_one_workload_behind_refuses_the_whole_and_is_named() -> None:
    verdict, message = ruled(make_row("fast", 3.0), make_row("behind it", 0.8))
    assert verdict is Verdict.SLOWER
    assert "behind on behind it (0." in message
    assert "fast" not in message


def test_a_workload_whose_interval_reaches_the_bound_is_not_behind() -> None:
    row = make_row("a", 0.9, interval=(0.85, 0.96))
    assert decide(ACCEPT, (make_row("b", 2.0), row), Geomean(speedup=1.3, interval=(1.2, 1.4)))[0] is Verdict.ACCEPTED


def test_an_impossible_row_is_implausible_whatever_the_rest_says() -> None:
    verdict, message = decide(
        ACCEPT, (make_row("a", 1.5), make_row("b", 1.5, verdict=Verdict.IMPLAUSIBLE)), Geomean(speedup=1.5, interval=(1.4, 1.6))
    )
    assert (verdict, message) == (Verdict.IMPLAUSIBLE, "faster than the device can be on b")


DEVICE = Device("d", "a device", cache_bytes=1000, peak_bytes_per_s=1e6, peak_cache_bytes_per_s=1e8, peak_flops=1e9)


def workload(bytes_: float, flops: float = 0.0) -> Workload:
    return Workload("w", "public", {}, {}, {}, {}, {}, bytes_, flops)


def test_what_the_cache_can_hold_is_not_counted_against_the_memory() -> None:
    assert floor_seconds(workload(900), DEVICE) == 900 / 1e8
    assert floor_seconds(workload(101_000), DEVICE) == 0.1


def test_operations_bound_a_time_too() -> None:
    assert floor_seconds(workload(900, 5e9), DEVICE) == 5.0


def test_a_time_below_the_floor_is_implausible_with_its_numbers() -> None:
    message = implausible(workload(101_000), DEVICE, 0.09)
    assert message is not None
    assert "9e+04 µs a call is below the floor of 1e+05 µs" in message
    assert implausible(workload(101_000), DEVICE, 0.1) is None
