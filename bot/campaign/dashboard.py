"""A campaign's dashboard issue, kept current: where it stands, the table of its lineages, the plot, the lessons, and links."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bot.campaign.batches import tickets_of
from bot.campaign.branches import Branches, campaign_of
from bot.campaign.journal import over_baseline
from bot.campaign.ports import Closing
from bot.campaign.records import Record, hidden
from bot.campaign.state import CHAMPION, Order, Waiting
from bot.campaign.store import Store
from bot.dashboard.issue import More, Run, best_of, dashboard_body, dashboard_end, dashboard_title
from bot.decision import enlarged
from bot.evidence.experiment import Experiment
from bot.evidence.notebook import Notebook
from bot.hosting import PullRequest, Repository
from runner.verdict import Verdict

# Pictures have a branch of their own, and are linked by commit: an issue can't hold them.
REPORTS = "factory-reports"


class Dashboard:
    """The dashboard issues of a repository."""

    def __init__(self, repository: Repository, branches: Branches, store: Store, notebook: Notebook) -> None:
        self.repository = repository
        self.branches = branches
        self.store = store
        self.notebook = notebook
        # Each campaign's plot and the number of experiments in it: without a new one it is not drawn again.
        self._plots: dict[str, tuple[int, str]] = {}

    def show(self, order: Order, state: str, pull: int | None = None, waiting: Waiting | None = None) -> None:
        """Bring the issue to what is known now. The hidden record says it to a bot that lost its database."""
        experiments = self._experiments(order)
        body = dashboard_body(
            order, state, experiments, self._pulls(order), self._plot(order, experiments), pull, self._more(order, experiments)
        )
        record = Record(order=order, status="running" if waiting is None else "waiting", waiting=waiting)
        self.repository.kept_issue(order.campaign, dashboard_title(order), f"{body}\n\n{hidden(record)}")

    def ended(self, closing: Closing) -> None:
        """The end: how and why, and what was learned."""
        order = closing.order
        experiments = self._experiments(order)
        more = self._more(order, experiments)
        body = dashboard_end(closing, experiments, self._pulls(order), self._plot(order, experiments), more)
        record = Record(order=order, status="ended", stop=closing.ending.stop, merged=closing.ending.merged)
        number = self.repository.kept_issue(order.campaign, dashboard_title(order), f"{body}\n\n{hidden(record)}")
        self.repository.close(number)

    def _experiments(self, order: Order) -> list[Experiment]:
        return over_baseline(self.notebook.experiments(order.spec, campaign=order.campaign))

    def _pulls(self, order: Order) -> list[PullRequest]:
        # A fork may have branches of the same names.
        pulls = self.repository.pull_requests(state="all")
        return [pull for pull in pulls if campaign_of(pull.branch) == order.campaign and not pull.fork]

    def _more(self, order: Order, experiments: list[Experiment]) -> More:
        remarks = [one for one in self.notebook.remarks(order.spec) if one.campaign == order.campaign]
        best = best_of(experiments, remarks)
        result = self.store.result_of(best.id) if best is not None else None
        # Whether a winner must be confirmed over the champion too, as the decision knows it from the champion's judgement.
        twice = any(one.agent == CHAMPION and one.verdict is Verdict.ACCEPTED for one in experiments)
        tickets = tickets_of(self.store, order.campaign)
        return More(
            budget=enlarged(order.budget, len(remarks), 0, 2 if twice else 1),
            best=self.store.result(result) if result is not None else None,
            runs=[Run(self.repository.run_url(one.run), one.lost) for one in tickets if one.run is not None],
            remarks=remarks,
        )

    def _plot(self, order: Order, experiments: list[Experiment]) -> str | None:
        """The address of the campaign's plot as it is now; None while there is nothing to show."""
        if len(experiments) < 2:
            return None
        count, address = self._plots.get(order.campaign, (0, ""))
        if count == len(experiments):
            return address
        from bot.dashboard.convergence import write_plot

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plot.png"
            write_plot(experiments, path, min_speedup=order.accept.min_speedup, title=order.campaign)
            data = path.read_bytes()
        name = f"{order.campaign}/convergence.png"
        commit = self.branches.report(REPORTS, self.repository.head(REPORTS), {name: data}, f"Plot of {order.campaign}", order.started)
        address = self.repository.file_url(commit, name)
        self._plots[order.campaign] = (len(experiments), address)
        return address
