"""A campaign's dashboard issue, kept current: where it stands, the table of its lineages, the plot, the lessons, and links."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bot.campaign.branches import Branches, campaign_of
from bot.campaign.journal import over_baseline
from bot.campaign.ports import Closing
from bot.campaign.records import Record, hidden
from bot.campaign.state import Order, Waiting
from bot.dashboard.issue import dashboard_body, dashboard_end, dashboard_title
from bot.evidence.experiment import Experiment
from bot.evidence.notebook import Notebook
from bot.hosting import PullRequest, Repository

# Pictures have a branch of their own, and are linked by commit: an issue can't hold them.
REPORTS = "factory-reports"


class Dashboard:
    """The dashboard issues of a repository."""

    def __init__(self, repository: Repository, branches: Branches, notebook: Notebook) -> None:
        self.repository = repository
        self.branches = branches
        self.notebook = notebook

    def show(self, order: Order, state: str, pull: int | None = None, waiting: Waiting | None = None) -> None:
        """Bring the issue to what is known now. The hidden record says it to a bot that lost its database."""
        experiments = over_baseline(self.notebook.experiments(order.spec, campaign=order.campaign))
        body = dashboard_body(order, state, experiments, self._pulls(order), self._plot(order, experiments), pull)
        record = Record(order=order, status="running" if waiting is None else "waiting", waiting=waiting)
        self.repository.kept_issue(order.campaign, dashboard_title(order), f"{body}\n\n{hidden(record)}")

    def ended(self, closing: Closing) -> None:
        """The end: how and why, and what was learned."""
        order = closing.order
        experiments = over_baseline(self.notebook.experiments(order.spec, campaign=order.campaign))
        body = dashboard_end(closing, experiments, self._pulls(order), self._plot(order, experiments))
        record = Record(order=order, status="ended", stop=closing.ending.stop, merged=closing.ending.merged)
        number = self.repository.kept_issue(order.campaign, dashboard_title(order), f"{body}\n\n{hidden(record)}")
        self.repository.close(number)

    def _pulls(self, order: Order) -> list[PullRequest]:
        return [pull for pull in self.repository.pull_requests(state="all") if campaign_of(pull.branch) == order.campaign]

    def _plot(self, order: Order, experiments: list[Experiment]) -> str | None:
        """The address of the campaign's plot as it is now; None while there is nothing to show."""
        if len(experiments) < 2:
            return None
        from bot.dashboard.convergence import write_plot

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plot.png"
            write_plot(experiments, path, min_speedup=order.accept.min_speedup, title=order.campaign)
            data = path.read_bytes()
        name = f"{order.campaign}/convergence.png"
        commit = self.branches.report(REPORTS, self.repository.head(REPORTS), {name: data}, f"Plot of {order.campaign}", order.started)
        return self.repository.file_url(commit, name)
