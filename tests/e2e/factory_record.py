"""What a forge holds after a campaign and what was written to it, without what differs from forge to forge: to be compared."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from factory_stand import Stand

SHA = re.compile(r"\b[0-9a-f]{40}\b|\b[0-9a-f]{12}\b")
TIME = re.compile(r"\b20\d\d-\d\d-\d\dT[\d:.]+(\+00:00|Z)")
RUN = re.compile(r"/actions/runs/(\d+)")
# Requests that are no writes to the repository: tokens, and deliveries that are sent again.
APART = ("/access_tokens", "/attempts")


class Record:
    """Everything that a stand's forge holds and was asked to change. Commits are named by their trees, times left out."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        self.runs = list(stand.repository.runs)
        rows = [line.split() for line in stand.bare.git("log", "--all", "--format=%H %T").splitlines()]
        self.names = {sha[:length]: f"<{tree[:12]}>" for sha, tree in rows for length in (40, 12)}

    def plain(self, value: Any) -> Any:
        """A value with its commits named by their trees, runs counted, and times and the forge's address left out."""
        text = TIME.sub("TIME", json.dumps(value).replace(self.stand.forge.url, ""))
        text = RUN.sub(lambda found: f"/actions/runs/{self.runs.index(int(found[1]))}", text)
        return json.loads(SHA.sub(lambda found: self.names.get(found[0], found[0]), text))

    def held(self) -> dict[str, Any]:
        """What the forge holds."""
        repository = self.stand.repository
        return {
            "pull requests": [
                self.plain(
                    {
                        **{name: getattr(one, name) for name in ("number", "title", "body", "state", "branch", "head", "labels")},
                        "author": one.author.login,
                        "merged": one.merge_commit,
                        "asked": sorted(person.login for person in one.requested),
                        "reviews": [(review.author.login, review.state, review.body, review.commit) for review in one.reviews],
                    }
                )
                for one in repository.pulls()
            ],
            "issues": [self.plain((one.number, one.title, one.body, one.state)) for one in self.stand.issues()],
            "comments": [
                self.plain((one.number, said.author.login, said.body)) for one in repository.issues.values() for said in one.comments
            ],
            "checks": sorted(
                self.plain((one.sha, one.name, one.external_id, one.status, str(one.conclusion), one.title, one.summary, one.annotations))
                for one in repository.checks
            ),
            "runs": [(run.title, run.conclusion, len(run.artifacts)) for run in repository.runs.values()],
            "refs": self.plain(self.stand.bare.refs()),
        }

    def made(self) -> Counter[str]:
        """The writes that made, closed, merged, deleted or dispatched something, and how often each was done."""
        return Counter(self._told(*write) for write in self._writes() if write[0] != "PATCH" or (write[2] or {}).get("state") == "closed")

    def _writes(self) -> list[tuple[str, str, Any]]:
        done = [one for one in self.stand.writes() if not one.path.endswith(APART)]
        return [(one.method, re.sub(r"/(comments|check-runs|runs|workflows)/\d+", r"/\1/N", one.path), one.body) for one in done]

    def _told(self, method: str, path: str, body: Any) -> str:
        return json.dumps([method, self.plain(path), self.plain(body)], sort_keys=True)


def differences(held: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, Any]:
    """What one forge holds and another doesn't, by kind: what is too much and what is missing. Empty where they hold the same."""
    found = {}
    for kind, wanted in expected.items():
        if held[kind] != wanted:
            mine, theirs = (
                {json.dumps(one) for one in (kept.items() if isinstance(kept, dict) else kept)} for kept in (held[kind], wanted)
            )
            found[kind] = {"too much": mine - theirs, "missing": theirs - mine}
    return found
