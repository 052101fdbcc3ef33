"""This machine as a device, and peaks that no honest kernel beats."""

from __future__ import annotations

import os

import pytest

from runner.targets.cpu import device, features, machine
from runner.targets.cpu.device import family, this_device


def test_this_machine() -> None:
    found = this_device()
    assert found.id.startswith("cpu-")
    assert found.id == this_device().id
    assert str(len(os.sched_getaffinity(0))) in found.name
    assert found.cache_bytes >= machine.last_level_cache() > 100_000
    assert found.peak_cache_bytes_per_s > found.peak_bytes_per_s / 1000
    assert found.peak_flops > 1e9


def test_the_id_does_not_reveal_the_machines_own() -> None:
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        if os.path.exists(path):  # noqa: PTH110 # a fixed system path
            with open(path) as file:  # noqa: PTH123 # a fixed system path
                assert file.read().strip()[:16] not in machine.machine_id()


@pytest.mark.parametrize(
    ("vendor", "number", "model", "name", "peak"),
    [
        ("AuthenticAMD", 25, 1, "Zen 3", 204.8e9),
        ("AuthenticAMD", 25, 17, "Zen 4", 460.8e9),
        ("GenuineIntel", 6, 106, "Ice Lake", 204.8e9),
        ("GenuineIntel", 6, 143, "Sapphire Rapids", 307.2e9),
    ],
)
def test_known_families(vendor: str, number: int, model: int, name: str, peak: float) -> None:
    found = family({"vendor_id": vendor, "cpu family": str(number), "model": str(model)})
    assert found is not None
    assert name in found.name
    assert found.memory == peak


def test_memory_on_the_package_is_told_by_the_name() -> None:
    found = family({"vendor_id": "GenuineIntel", "cpu family": "6", "model": "143", "model name": "Intel(R) Xeon(R) CPU Max 9480"})
    assert found is not None
    assert found.memory == 1640e9


def test_no_model_is_in_two_families() -> None:
    seen: set[tuple[str, int, int]] = set()
    for vendor, number, models, _ in device._FAMILIES:
        for model in models:
            assert (vendor, number, model) not in seen
            seen.add((vendor, number, model))


@pytest.mark.parametrize("info", [{}, {"cpu family": "x"}, {"vendor_id": "Other", "cpu family": "6", "model": "1"}])
def test_an_unknown_cpu_gets_generous_peaks(info: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert family(info) is None
    this_device.cache_clear()
    monkeypatch.setattr(device, "cpuinfo", lambda: info)
    try:
        found = this_device()
    finally:
        this_device.cache_clear()
    assert found.peak_bytes_per_s >= device.DEFAULT_MEMORY
    assert found.name


def test_what_this_cpu_runs_is_allowed_on_it() -> None:
    assert "native" in features.runnable()
    assert set(features.runnable()) <= set(features.architectures())
    for name in features.architectures():
        assert bool(features.missing(name)) == (name not in features.runnable())
