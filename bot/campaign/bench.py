"""This machine's judge as the local evaluate port uses it. The runner is imported when it is first needed: it brings torch."""

from __future__ import annotations

from bot.campaign.ports import Place, Refusal
from runner.batch import TargetBench
from runner.candidate import Candidate
from runner.identity import harness_hash
from runner.manifest import KnobValue
from runner.spec.load import LoadedSpec
from runner.verdict import Rejected, Verdict


class RunnerBench(TargetBench):
    """`Bench` on the target that the spec names."""

    def place(self, spec: LoadedSpec) -> Place:
        from runner.targets.registry import target_for

        return Place(target_for(spec.spec).device().name, harness_hash())

    def gate(self, spec: LoadedSpec, candidate: Candidate) -> Refusal | None:
        from runner.targets.registry import target_for

        target = target_for(spec.spec)
        faults = target.check(spec, candidate)
        if faults:
            return Refusal(Verdict.POLICY_VIOLATION, "\n".join(faults))
        for knobs in reachable(candidate):
            try:
                target.build(spec, candidate, knobs)
            except Rejected as rejected:
                return Refusal(rejected.verdict, rejected.message)
        return None


def reachable(candidate: Candidate) -> list[dict[str, KnobValue]]:
    """The points that a candidate's table can reach; the first of its space where no point is chosen yet."""
    from runner.manifest import row_knobs

    manifest = candidate.manifest
    if manifest.knobs and not manifest.table:
        return [{name: values[0] for name, values in manifest.knobs.items()}]
    points: list[dict[str, KnobValue]] = []
    for index in range(max(len(manifest.table), 1)):
        knobs = row_knobs(manifest, index)
        if knobs not in points:
            points.append(knobs)
    return points
