"""Lessons: short statements that later rounds and campaigns are given, each naming the experiments behind it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from bot.evidence import space
from bot.evidence.effects import Effect, Interaction, find_effects
from bot.evidence.experiment import Experiment
from bot.evidence.failures import Cause, find_causes
from bot.evidence.remark import Remark
from runner.verdict import Verdict

MOST = 12
RELEVANT = 1.02  # ratios nearer to 1 than this are no lesson, however sure
SAID = 100.0  # more than any effect's log
REMARKS = 4  # so many of what people said last
BEHIND = 0.98  # a workload below this speed-up is behind the baseline
Group = tuple[str, str, str]  # source, spec hash, device


@dataclass(frozen=True)
class Lesson:
    """`statement` in one or two sentences; `experiments` are ids in the notebook; `value` ranks it: the log of the effect that is sure,
    which is the end of its interval that lies nearer to no effect. What a person said is worth more than any effect."""

    statement: str
    experiments: tuple[str, ...]
    value: float


def learn(experiments: Sequence[Experiment], remarks: Sequence[Remark] = ()) -> list[Lesson]:
    """What the experiments of one spec teach, and what people said of its kernels: at most `MOST` lessons, the most valuable first.

    The order of the experiments does not matter; the same set always gives the same lessons. What was measured under an earlier
    version of the spec still teaches about knobs, and says so.
    """
    counted = (one for one in experiments if one.verdict is not Verdict.EVALUATION_LOST and one.against == "baseline")
    known = sorted(counted, key=lambda one: one.id)
    if not known:
        return []
    newest = max(known, key=lambda one: (one.created, one.id))
    current = [one for one in known if one.spec_hash == newest.spec_hash]
    found = [*_asked(known, remarks), *_bests(current), *_behind(current), *_hypotheses(known)]
    several = len({(one.source, one.device) for one in known if one.tier == "screening"}) > 1
    for (source, spec_hash, device), group in _spaces(known):
        where = f" (kernel source {source[:8]} on {_short(device, 40)})" if several else ""
        if spec_hash != newest.spec_hash:
            where += " (under an earlier version of the spec)"
        found += [*_knobs(group, where), *_failures(group, where)]
    ranked = sorted(found, key=lambda lesson: (-lesson.value, lesson.statement))
    return ranked[:MOST]


def _spaces(experiments: Sequence[Experiment]) -> list[tuple[Group, list[Experiment]]]:
    screened = [one for one in experiments if one.tier == "screening" and one.knobs]

    def key(one: Experiment) -> Group:
        return one.source, one.spec_hash, one.device

    return [(group, list(members)) for group, members in groupby(sorted(screened, key=lambda one: (*key(one), one.id)), key=key)]


def _knobs(group: Sequence[Experiment], where: str) -> list[Lesson]:
    """Each knob's effect, and pairs that act together, from the timed points; a point measured again counts once, by its mean."""
    by_point: dict[space.Point, list[Experiment]] = {}
    for one in group:
        if one.speedup is not None:
            by_point.setdefault(space.point(one.knobs), []).append(one)
    measured = list(by_point.values())
    logs = [fmean(math.log(one.speedup) for one in same if one.speedup is not None) for same in measured]
    effects, interactions = find_effects([same[0].knobs for same in measured], logs)
    lessons = [_effect(effect, measured, where) for effect in effects if effect.contrasts[0].ratio >= RELEVANT]
    return lessons + [_together(found, measured, where) for found in interactions if abs(math.log(found.ratio)) >= math.log(RELEVANT)]


def _effect(effect: Effect, measured: Sequence[Sequence[Experiment]], where: str) -> Lesson:
    over = [
        f"{contrast.ratio:.2f}× ({contrast.interval[0]:.2f}–{contrast.interval[1]:.2f}) as fast as {_short(contrast.other)}"
        for contrast in effect.contrasts
    ]
    statement = f"{effect.knob}: {_short(effect.contrasts[0].better)} is {', '.join(over)}, other knobs equal{where}."
    return Lesson(statement, _ids(one for row in effect.points for one in measured[row]), _sure(effect.contrasts[0].interval))


def _together(found: Interaction, measured: Sequence[Sequence[Experiment]], where: str) -> Lesson:
    pair = " with ".join(f"{knob}={_short(value)}" for knob, value in zip(found.knobs, found.values, strict=True))
    low, high = found.interval
    word = "better" if found.ratio > 1 else "worse"
    statement = f"{pair} is {word} than the two alone suggest: {found.ratio:.2f}× ({low:.2f}–{high:.2f}) of that speed{where}."
    return Lesson(statement, _ids(one for row in found.points for one in measured[row]), _sure(found.interval))


def _failures(group: Sequence[Experiment], where: str) -> list[Lesson]:
    """What fails, with the knob value that failures share where there is one. The value is what avoiding it would save."""
    by_point = {space.point(one.knobs): one for one in group}
    points = list(by_point.values())
    lessons: list[Lesson] = []
    for verdict in sorted({one.verdict for one in points if one.speedup is None}):
        failed = [one.verdict is verdict and one.speedup is None for one in points]
        causes = find_causes([one.knobs for one in points], failed)
        lessons += [_cause(cause, verdict, points, where) for cause in causes]
        explained = {row for cause in causes for row in cause.points}
        rest = [one for row, one in enumerate(points) if failed[row] and row not in explained]
        if rest:
            statement = f"{len(rest)} of {len(points)} points ended in {verdict}{_saying(rest)}; no single knob value explains it{where}."
            lessons.append(Lesson(statement, _ids(rest), _saved(len(rest), len(points)) / 2))
    return lessons


def _cause(cause: Cause, verdict: Verdict, points: Sequence[Experiment], where: str) -> Lesson:
    behind = [points[row] for row in cause.points]
    times = f"all {cause.tried} times" if cause.failed == cause.tried else f"{cause.failed} of {cause.tried} times"
    often = "always ends" if cause.failed == cause.tried else "mostly ends"
    statement = f"{cause.knob}={_short(cause.value)} {often} in {verdict} ({times}){_saying(behind)}{where}."
    return Lesson(statement, _ids(behind), _saved(cause.failed, len(points)))


def _bests(experiments: Sequence[Experiment]) -> list[Lesson]:
    """The best of each device: judged in full where anything was, else screened."""
    lessons = []
    devices = sorted({one.device for one in experiments})
    for device in devices:
        timed = [one for one in experiments if one.device == device and one.speedup is not None]
        full = [one for one in timed if one.tier == "full"]
        best = space.best(full or timed)
        if best is None or best.speedup is None or best.speedup <= 1.0:
            continue
        how = "judged in full" if best.tier == "full" else "screened only"
        interval = f" ({best.interval[0]:.3f}–{best.interval[1]:.3f})" if best.interval is not None else ""
        knobs = ", ".join(f"{knob}={_short(value)}" for knob, value in best.knobs.items())
        chosen = f" with {knobs}" if knobs else ""
        on = f" on {_short(device, 40)}" if len(devices) > 1 else ""
        statement = (
            f"The best so far{on} is {best.speedup:.3f}×{interval} as fast as the baseline, {how}: kernel {best.kernel_tree[:12]}{chosen}."
        )
        lessons.append(Lesson(statement, (best.id,), math.log(max(1.0, space.lower_end(best)))))
    return lessons


def _behind(experiments: Sequence[Experiment]) -> list[Lesson]:
    """The workloads on which the best one judged in full (or screened, if none was) is slower than the baseline."""
    timed = [one for one in experiments if one.speedup is not None]
    timed = [one for one in timed if one.tier == "full"] or timed
    best = space.best(timed)
    if best is None:
        return []
    lessons = []
    for workload, speedup in best.workloads.items():
        if speedup >= BEHIND:
            continue
        others = [one for one in timed if one.device == best.device and workload in one.workloads]
        top = max(others, key=lambda one: one.workloads[workload])
        reached = f"{top.workloads[workload]:.2f}×"
        if top.workloads[workload] < 1.0:
            verdict = f"stays behind the baseline: none of {len(others)} evaluations beats it, the nearest reaches {reached}"
        else:
            verdict = (
                f"is behind the baseline in the best kernel ({speedup:.2f}×), but another reaches {reached} there{_difference(top, best)}"
            )
        lessons.append(Lesson(f"Workload {_short(workload)} {verdict}.", _ids([top, best]), -math.log(speedup)))
    return lessons


def _difference(one: Experiment, other: Experiment) -> str:
    if one.source != other.source:
        return ""
    changed = [f"{knob}={_short(value)}" for knob, value in one.knobs.items() if other.knobs.get(knob) != value]
    return f" with {', '.join(changed)}" if changed else ""


def _hypotheses(experiments: Sequence[Experiment]) -> list[Lesson]:
    """What became of the ideas of models and people: each candidate against its parent, both judged in full."""
    full = [one for one in experiments if one.tier == "full"]
    lessons = []
    for one in full:
        parent = next((other for other in full if other.kernel_tree == one.parent and _comparable(one, other)), None)
        ratio = _ratio(one, parent) if parent is not None and one.kind in ("model", "person") and one.hypothesis else None
        if parent is None or ratio is None:
            continue
        middle, low, high = ratio
        if low <= 1.0 <= high or abs(math.log(middle)) < math.log(RELEVANT):
            continue
        word = "helped" if middle > 1 else "hurt"
        statement = f"The idea “{_short(one.hypothesis, 200)}” {word}: {middle:.2f}× ({low:.2f}–{high:.2f}) the speed of its parent."
        lessons.append(Lesson(statement, _ids([one, parent]), _sure((low, high))))
    return lessons


def _comparable(one: Experiment, other: Experiment) -> bool:
    return (one.spec_hash, one.device) == (other.spec_hash, other.device)


def _ratio(one: Experiment, other: Experiment) -> tuple[float, float, float] | None:
    """The ratio of two separately measured speed-ups with its interval: widths of the logs added as independent errors are."""
    if one.speedup is None or other.speedup is None or one.interval is None or other.interval is None:
        return None
    middle = math.log(one.speedup / other.speedup)
    down = math.hypot(math.log(one.speedup / one.interval[0]), math.log(other.interval[1] / other.speedup))
    up = math.hypot(math.log(one.interval[1] / one.speedup), math.log(other.speedup / other.interval[0]))
    return math.exp(middle), math.exp(middle - down), math.exp(middle + up)


def _asked(experiments: Sequence[Experiment], remarks: Sequence[Remark]) -> list[Lesson]:
    """What people who may merge want changed. No speed outranks it, and what was said last stands first."""
    lessons = []
    for number, remark in enumerate(remarks[-REMARKS:]):
        said = f": “{_short(remark.text, 400)}”" if remark.text.strip() else ", and said no more"
        measured = _ids(one for one in experiments if one.kernel_tree == remark.kernel_tree)
        statement = f"{_short(remark.by)} asked for changes to kernel {remark.kernel_tree[:12]}{said}."
        lessons.append(Lesson(statement, measured, SAID + number))
    return lessons


def _saying(experiments: Sequence[Experiment]) -> str:
    """The message that most of them share."""
    message, _ = Counter(one.message for one in experiments).most_common(1)[0]
    return f": “{_short(message, 160)}”" if message else ""


def _sure(interval: tuple[float, float]) -> float:
    """The log of the end of a ratio's interval that lies nearer to 1, without its sign; 0 where 1 lies within."""
    low, high = (math.log(end) for end in interval)
    return max(low, -high, 0.0)


def _saved(failed: int, tried: int) -> float:
    """The log of how many times more timed points a search would get by avoiding these failures."""
    return math.log(tried / max(1, tried - failed))


def _ids(experiments: Iterable[Experiment]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.id for one in experiments))


def _short(text: object, limit: int = 64) -> str:
    """Text from a candidate or a compiler, on one line and cut: a lesson stays small whatever it quotes."""
    line = " ".join(str(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
