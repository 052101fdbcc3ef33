"""An experiment: one evaluated candidate as the notebook keeps it, failed ones too."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from runner.manifest import KnobValue
from runner.verdict import Verdict


class Experiment(BaseModel):
    """One evaluation of either tier.

    `id` is deterministic (`<campaign>/<round>/<agent>/<index>`), so that recording it twice changes nothing. `source` is the hash
    of the candidate's files without the chosen knob values: experiments with the same source, spec hash and device are comparable
    points of one search space. `speedup` is the geomean over the tier's workloads, None where nothing was timed.
    `normalized` is `bot.evidence.novelty.normalized_hash` of the candidate, empty where it was not taken.
    `against` says over what the speed-up is: experiments over the champion are part of a confirmation, and no evidence for a search.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    campaign: str
    spec: str
    spec_hash: str
    harness: str
    device: str
    round: int
    agent: str
    index: int
    tier: Literal["screening", "full"]
    kernel_tree: str
    source: str
    knobs: dict[str, KnobValue]
    kind: Literal["seed", "search", "model", "person"]
    parent: str | None
    hypothesis: str
    verdict: Verdict
    message: str
    speedup: float | None
    interval: tuple[float, float] | None
    workloads: dict[str, float]
    seconds: float
    created: str
    normalized: str = ""
    against: Literal["baseline", "champion"] = "baseline"
