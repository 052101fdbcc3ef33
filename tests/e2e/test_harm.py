"""What somebody with bad intentions does on the forge: records, checks, branches and files that are not what they seem. The dispatch runs
in this process against the real forge; what it would begin is noted."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from factory_stand import KERNEL, NAME, SPEC, SPEC_ID, Stand
from formula import KNOBS

from bot.campaign.branches import Branches, branch_of
from bot.campaign.hosted import HostedSteps
from bot.campaign.orders import order_of
from bot.campaign.ports import Changed
from bot.campaign.pulls import PullRequests
from bot.campaign.records import Record, hidden
from bot.campaign.state import Count, Course, Entry, Order, Outcome, Pull, StopReason
from bot.campaign.store import Store
from bot.dispatch import Dispatch, Known
from bot.events import Pushed
from bot.evidence.notebook import Notebook
from bot.github import git
from bot.github.auth import Access, App
from bot.github.checks import CHECK
from bot.github.client import Repository, marked
from bot.github.git import Clone
from bot.service import Service
from bot.specs import Trees, spec_named
from runner.spec.models import AgentSpec, Budget
from runner.verdict import Verdict


def kernel(a: int, b: int) -> dict[str, str]:
    """The formula's kernel at one point."""
    return {f"{KERNEL}/launch.yaml": KNOBS.replace("launches:", f'table: [{{when: "true", a: {a}, b: {b}}}]\nlaunches:')}


@dataclass
class Noted:
    """Campaigns that are begun, and never run."""

    begun: list[Known] = field(default_factory=list)
    woken: list[str] = field(default_factory=list)

    def known(self) -> Sequence[Known]:
        return self.begun

    def begin(self, order: Order) -> None:
        self.begun.append(Known(order, running=True))

    def end(self, stop: StopReason) -> None:
        """Those that run have ended so."""
        self.begun = [replace(one, running=False, stop=stop) if one.running else one for one in self.begun]

    def wake(self, campaign: str) -> None:
        self.woken.append(campaign)

    def overtake(self, campaign: str) -> None:
        self.wake(campaign)


@contextmanager
def dispatch(stand: Stand, folder: Path) -> Iterator[tuple[Dispatch, Noted]]:
    """The bot's dispatch with a state of its own."""
    app, campaigns = stand.forge.app, Noted()
    access = Access(stand.forge.api_url, App(app.app_id, app.private_key, app.installation_id))
    repository = Repository(access, NAME, lambda _: None)
    clone = Clone(folder / "clone", stand.url, access.token, access.renew)
    with Notebook(folder / "notebook.sqlite") as notebook:
        trees, store = Trees(clone, folder / "trees"), Store(folder)
        yield Dispatch(repository, Branches(clone), trees, store, notebook, campaigns, stand.bot), campaigns


def forged(stand: Stand, record: Record) -> None:
    """An issue of the bot's whose text somebody with write access has changed."""
    forge, repository = stand.forge.forge, stand.repository
    issue = forge.open_issue(repository, forge.bot, f"Campaign {record.order.campaign}", "as the bot wrote it", [])
    stand.api("bob").get_issue(issue.number).edit(body=marked(f"Nothing to see\n\n{hidden(record)}", record.order.campaign))


def order(stand: Stand, folder: Path, number: int) -> Order:
    """The order that the bot itself would give."""
    clone = Clone(folder / "own", stand.url, lambda: stand.tokens["ada"])
    clone.fetch()
    survey = Trees(clone, folder / "own-trees").survey(stand.head() or "")
    spec = spec_named(survey, SPEC_ID)
    assert spec is not None, survey.faults
    return order_of(spec, Store(folder / "own-store"), number, commit=survey.commit)


def test_a_record_that_was_changed_in_an_issue_orders_nothing_that_the_spec_does_not_say(stand: Stand, tmp_path: Path) -> None:
    stand.commit_spec(approval="required")
    real = order(stand, tmp_path, 7)
    free = real.accept.model_copy(update={"approval": "none", "min_speedup": 0.01})
    elsewhere = stand.commit({"README.md": "Not reviewed\n"}, "Mine", branch="mine")
    for changes in (
        {"accept": free},
        {"budget": Budget(rounds=1000, candidates=100_000, device_minutes=1e6)},
        {"agents": (AgentSpec(name="mine", kind="search"),)},
        {"commit": elsewhere},
        {"commit": "0" * 40},
        {"campaign": "somebody-elses-1-00000000"},
        {"started": "yesterday"},
    ):
        forged(stand, Record(order=real.model_copy(update=changes), status="running"))
    forged(stand, Record(order=real, status="running"))
    with dispatch(stand, tmp_path / "bot") as (looking, campaigns):
        looking.look()
        assert [one.order for one in campaigns.begun] == [real]


def verdicts(stand: Stand, sha: str) -> list[str | None]:
    """The conclusions of what stands as `kernel-factory/verdict` on a commit."""
    return [check.conclusion for check in stand.checks(sha) if check.name == CHECK]


def test_a_kernel_that_was_not_judged_has_no_successful_verdict(stand: Stand, tmp_path: Path) -> None:
    stand.commit_spec()
    alone = stand.commit(kernel(0, 0), "A kernel", branch="alone")
    mixed = stand.commit({**kernel(0, 0), "README.md": "And more\n"}, "A kernel and more", branch="mixed")
    other = stand.commit({"README.md": "Better\n"}, "No kernel", branch="other")
    renamed = {name.replace(SPEC, "kernel-specs/second"): data for name, data in stand.spec().items()}
    text = str(renamed["kernel-specs/second/spec.yaml"]).replace(f"id: {SPEC_ID}", "id: second")
    second = stand.commit({**renamed, "kernel-specs/second/spec.yaml": text}, "Another spec, with its first kernel", branch="second")
    with dispatch(stand, tmp_path) as (looking, _):
        for branch, sha in (("alone", alone), ("mixed", mixed), ("other", other), ("second", second)):
            looking.handle(Pushed(repository=NAME, sender="ada", branch=branch, after=sha))
        assert [verdicts(stand, sha) for sha in (alone, mixed, other, second)] == [[], [], ["success"], ["success"]]
        for branch in ("alone", "mixed", "other", "second"):
            stand.open_pull(branch, branch)
        looking.look()
        assert [verdicts(stand, sha) for sha in (alone, mixed, other, second)] == [[], ["failure"], ["success"], ["success"]]
        (told,) = stand.checks(mixed)
        assert SPEC_ID in (told.summary or "")
        # And no copy is kept of what nothing begins from.
        assert {one.name for one in (tmp_path / "trees").iterdir()} == {stand.head()}


def test_a_pull_request_that_cannot_be_read_keeps_nobody_else_waiting(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "MAX_BYTES", 300_000)
    stand.commit_spec()
    stand.commit({"kernel-specs/" + "a" * 300: "A name that no file system takes\n"}, "Long", branch="long")
    stand.commit({f"{KERNEL}/large.cpp": "x" * 200_000, f"{SPEC}/large": "x" * 200_000}, "Large", branch="large")
    good = stand.commit(kernel(6, 7), "Mine", branch="good")
    long, large = stand.open_pull("long", "Long"), stand.open_pull("large", "Large")
    stand.open_pull("good", "Good")
    with dispatch(stand, tmp_path) as (looking, campaigns):
        looking.look()
        (running,) = campaigns.begun
        assert campaigns.woken == [running.order.campaign], f"{good} waits"
        looking.look()
        assert len(campaigns.woken) == 2
    for number, told in ((long, "name too long"), (large, "300,000 bytes")):
        (check,) = stand.checks(stand.pull(number).head)
        assert (check.conclusion, told in (check.summary or "").lower()) == ("failure", True), check.summary


def test_the_timer_outlives_whatever_a_look_meets() -> None:
    service, looks, ended = Service.__new__(Service), [], threading.Event()

    def look() -> None:
        looks.append(len(looks))
        if len(looks) == 3:
            ended.set()
        raise OSError("no space left on device")

    service.dispatch, service._stop, service.reconcile_seconds = SimpleNamespace(look=look), ended, 0.01  # type: ignore[assignment]
    service._reconcile()
    assert looks == [0, 1, 2]


def test_a_pull_request_into_another_branch_is_not_judged_and_not_merged(stand: Stand, tmp_path: Path) -> None:
    stand.commit_spec()
    stand.commit({"README.md": "A release\n"}, "Release", branch="release")
    stand.commit(kernel(6, 7), "Mine", branch="mine")
    aside = stand.api().create_pull("release", "mine", title="Mine", body="").number
    with dispatch(stand, tmp_path) as (looking, campaigns):
        looking.look()
        assert (len(campaigns.begun), campaigns.woken) == (1, [])
        pull = looking.repository.pull_request(aside)
        assert pull.aside
        merge = looking.repository.merge(aside, pull.head, "The winner", "")
        assert (merge.merged, "release" in merge.message, stand.pull(aside).merged) == (False, True, None)


def test_machines_that_take_turns_do_not_begin_campaigns_for_ever(stand: Stand, tmp_path: Path) -> None:
    stand.commit_spec()
    with dispatch(stand, tmp_path) as (looking, campaigns):
        for _ in range(10):
            looking.look()
            campaigns.end(StopReason.JUDGE_CHANGED)
        assert len(campaigns.begun) == 3
        # A day later another machine, or another version of the judge, is worth another try.
        campaigns.begun = [
            replace(one, order=one.order.model_copy(update={"started": "2026-01-01T00:00:00+00:00"})) for one in campaigns.begun
        ]
        looking.look()
        assert len(campaigns.begun) == 4


def test_strangers_pull_requests_begin_so_many_campaigns_and_no_more(stand: Stand, tmp_path: Path) -> None:
    stand.commit_spec()
    with dispatch(stand, tmp_path) as (looking, campaigns):
        looking.look()
        campaigns.end(StopReason.NO_IMPROVEMENT)
        # One whose kernel changes again and again.
        for number in range(8):
            stand.commit(kernel(number, 1), "Again", branch="again")
            if number == 0:
                again = stand.open_pull("again", "Again")
            looking.look()
            campaigns.end(StopReason.ROUNDS)
        assert len([one for one in campaigns.begun if one.order.submission == again]) == 5
        assert "no more" in stand.comments(again)[0].body
        # And many at once: four at a time, and all have their turn.
        many = []
        for number in range(6):
            stand.commit(kernel(number, 2), "Mine", branch=f"mine-{number}")
            many.append(stand.open_pull(f"mine-{number}", "Mine"))
        for _ in range(10):
            looking.look()
            assert len([one for one in campaigns.begun if one.running]) <= 4
            campaigns.end(StopReason.ROUNDS)
        begun = Counter(one.order.submission for one in campaigns.begun)
        assert [begun[number] for number in many] == [5] * 6


@contextmanager
def winning(stand: Stand, folder: Path) -> Iterator[tuple[PullRequests, Order, Pull]]:
    """A winner's pull request that waits for people, and the bot's port to it."""
    stand.commit_spec()
    with dispatch(stand, folder) as (looking, _):
        ordered, branches = order(stand, folder, 1), looking.branches
        branches.clone.fetch()
        branch = branch_of(ordered.campaign, "tpe")
        files = {name: text.encode() for name, text in kernel(6, 7).items()}
        head = branches.clone.commit(ordered.commit, files, "The winner")
        branches.push(branch, head, None)
        number = looking.repository.open_pull_request(branch, "The winner", "").number
        port = PullRequests(looking.repository, branches, looking.store, looking.notebook, stand.bot)
        yield port, ordered, Pull(number=number, head=head, kernel_tree=branches.kernel_tree(head, SPEC_ID) or "")


def test_an_approval_that_was_taken_back_before_the_merge_merges_nothing(stand: Stand, tmp_path: Path) -> None:
    with winning(stand, tmp_path) as (port, ordered, pull):
        stand.review(pull.number, "APPROVE", by="bob")
        # The bot is down between its look at the reviews and the merge.
        assert port.reviewed(ordered, pull).status == "approved"
        stand.api("ada").get_pull(pull.number).get_reviews()[0].dismiss("Not so fast")
        assert not port.merged(ordered, pull, "bob").merged
        assert stand.pull(pull.number).merged is None
        stand.review(pull.number, "APPROVE", by="bob")
        stand.review(pull.number, "REQUEST_CHANGES", by="ada", body="Too long")
        assert not port.merged(ordered, pull, "bob").merged
        stand.review(pull.number, "APPROVE", by="ada")
        assert port.merged(ordered, pull, "bob").merged


def test_a_merge_that_mixes_the_winner_with_another_kernel_is_no_winner(stand: Stand, tmp_path: Path) -> None:
    with winning(stand, tmp_path) as (port, ordered, pull):
        stand.commit({f"{KERNEL}/more.hpp": "// of another kernel\n"}, "A kernel by hand")
        stand.api("bob").get_pull(pull.number).merge(sha=pull.head)
        assert port.reviewed(ordered, pull).status == "approved"
        for _ in range(2):
            with pytest.raises(Changed, match="not the judged one") as changed:
                port.merged(ordered, pull, "bob")
            assert changed.value.stop is StopReason.KERNEL_CHANGED
        (comment,) = stand.comments(pull.number)
        assert "nobody has judged" in comment.body


@pytest.mark.suite
def test_kernels_pushed_without_end_while_a_winner_waits_are_judged_within_the_budget(stand: Stand, tmp_path: Path) -> None:
    with winning(stand, tmp_path) as (port, ordered, pull):
        spec = spec_named(Trees(port.branches.clone, tmp_path / "trees").survey(ordered.commit), SPEC_ID)
        assert spec is not None
        few = ordered.model_copy(update={"budget": ordered.budget.model_copy(update={"candidates": 12})})
        steps = HostedSteps(spec.folder, Store(tmp_path), port.notebook, None, port, None, None)  # type: ignore[arg-type]
        champion = full(few, "champion", few.champion)
        course, judged = Course(champion=champion), Counter[str]()
        again, _ = enter(stand, "again"), enter(stand, "more")
        for number in range(20):
            for branch in ("again", "more"):
                stand.commit({f"{KERNEL}/{branch}.hpp": f"// {number}\n"}, "Again", branch=branch)
            arrived = steps.arrivals(few, course, Count(candidates=0, device_seconds=0.0), pull).entries
            course = course.model_copy(update={"entered": (*course.entered, *(full(few, one.agent, one.tree) for one in arrived))})
            judged.update(one.agent for one in arrived)
        assert (judged.total(), max(judged.values())) == (12, 6)
        alone = few.model_copy(update={"submission": again})
        for number in range(20):
            stand.commit({f"{KERNEL}/again.hpp": f"// and again {number}\n"}, "Again", branch="again")
            arrived = steps.arrivals(alone, course, Count(candidates=0, device_seconds=0.0), pull).entries
            course = course.model_copy(update={"entered": (*course.entered, *(full(few, one.agent, one.tree) for one in arrived))})
        assert sum(one.entry.agent == f"pr-{again}" for one in course.entered) == 8
        assert "no more" in stand.comments(again)[0].body


def enter(stand: Stand, branch: str) -> int:
    stand.commit(kernel(1, 2), "Mine", branch=branch)
    return stand.open_pull(branch, branch)


def full(ordered: Order, agent: str, tree: str) -> Outcome:
    """What came of a full judgement."""
    entry = Entry(
        campaign=ordered.campaign, round=0, agent=agent, first=0, tree=tree, kind="person", parent=None, hypothesis="", tier="full"
    )
    return Outcome(entry=entry, experiments=1, tree=tree, verdict=Verdict.SLOWER, speedup=0.9, interval=(0.9, 0.9))
