"""The facts beside every measurement."""

from __future__ import annotations

import os
import platform

from runner.environment import environment


def test_the_facts_that_decide_a_measurement_are_there() -> None:
    facts = environment()
    assert facts["kernel"] == platform.release()
    assert facts["cores_used"] == len(os.sched_getaffinity(0))
    assert {"python", "torch", "numpy", "compiler", "libc", "cpu_family", "last_level_cache_bytes", "load_average", "memory_mib"} <= set(
        facts
    )
    assert all(isinstance(value, (str, int, float)) for value in facts.values())


def test_no_fact_names_the_person_or_their_folders() -> None:
    text = repr(environment())
    assert os.path.expanduser("~") + "/" not in text  # noqa: PTH111 # the text, not a path
    assert platform.node() not in text or len(platform.node()) < 3
