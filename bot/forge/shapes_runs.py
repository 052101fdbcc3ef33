"""What the forge's answers look like: the App, its checks, statuses, workflow runs, artifacts and deliveries."""

from __future__ import annotations

import zlib
from typing import Any

from bot.forge.hooks import Delivery
from bot.forge.model import Account, Artifact, Check, Repository, Run, Status
from bot.forge.shapes import APP_SLUG, Shapes, node

EVENTS = ["push", "pull_request", "pull_request_review", "issue_comment", "workflow_run", "check_run", "check_suite"]
PERMISSIONS = {
    "actions": "write",
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
    "statuses": "write",
}
_STARTED = "2026-01-01T00:00:00Z"


def workflow_id(name: str) -> int:
    """The number of a workflow file, which stands for its name in addresses."""
    return zlib.crc32(name.encode())


class RunShapes(Shapes):
    """The JSON of everything."""

    def app(self, owner: Account) -> dict[str, Any]:
        return {
            "id": self.app_id,
            "slug": APP_SLUG,
            "node_id": node("A", self.app_id),
            "client_id": f"Iv1.{self.app_id}",
            "owner": self.user(owner),
            "name": "Kernel Factory",
            "description": "Judges kernels and merges the best.",
            "external_url": self.url,
            "html_url": f"{self.url}/apps/{APP_SLUG}",
            "created_at": _STARTED,
            "updated_at": _STARTED,
            "permissions": PERMISSIONS,
            "events": EVENTS,
            "installations_count": 1,
        }

    def installation(self, number: int, account: Account) -> dict[str, Any]:
        return {
            "id": number,
            "account": self.user(account),
            "repository_selection": "all",
            "access_tokens_url": f"{self.api}/app/installations/{number}/access_tokens",
            "repositories_url": f"{self.api}/installation/repositories",
            "html_url": f"{self.url}/settings/installations/{number}",
            "app_id": self.app_id,
            "client_id": f"Iv1.{self.app_id}",
            "target_id": account.id,
            "target_type": "User",
            "permissions": PERMISSIONS,
            "events": EVENTS,
            "created_at": _STARTED,
            "updated_at": _STARTED,
            "single_file_name": None,
            "has_multiple_single_files": False,
            "single_file_paths": [],
            "app_slug": APP_SLUG,
            "suspended_by": None,
            "suspended_at": None,
        }

    def check(self, repository: Repository, owner: Account, check: Check, numbers: list[dict[str, Any]]) -> dict[str, Any]:
        url = f"{self.api}/repos/{repository.full_name}/check-runs/{check.id}"
        return {
            "id": check.id,
            "node_id": node("CR", check.id),
            "head_sha": check.sha,
            "external_id": check.external_id,
            "url": url,
            "html_url": f"{self.url}/{repository.full_name}/commit/{check.sha}#check-{check.id}",
            "details_url": check.details or f"{self.url}/{repository.full_name}/commit/{check.sha}#check-{check.id}",
            "status": check.status,
            "conclusion": check.conclusion,
            "started_at": check.started,
            "completed_at": check.completed,
            "output": {
                "title": check.title,
                "summary": check.summary,
                "text": check.text,
                "annotations_count": len(check.annotations),
                "annotations_url": f"{url}/annotations",
            },
            "name": check.name,
            "check_suite": {"id": 1},
            "app": {**self.app(owner), "id": check.app_id},
            "pull_requests": numbers,
        }

    def annotation(self, repository: Repository, check: Check, given: dict[str, Any]) -> dict[str, Any]:
        told = {"start_column": None, "end_column": None, "title": None, "raw_details": None, **given}
        return {**told, "blob_href": f"{self.url}/{repository.full_name}/blob/{check.sha}/{given['path']}"}

    def status(self, repository: Repository, status: Status) -> dict[str, Any]:
        return {
            "url": f"{self.api}/repos/{repository.full_name}/statuses/{status.sha}",
            "avatar_url": f"{self.url}/avatars/{status.author.login}.svg",
            "id": status.id,
            "node_id": node("S", status.id),
            "state": status.state,
            "description": status.description,
            "target_url": status.target,
            "context": status.context,
            "created_at": status.created,
            "updated_at": status.created,
            "creator": self.user(status.author),
        }

    def workflow(self, repository: Repository, name: str) -> dict[str, Any]:
        base = f"{self.api}/repos/{repository.full_name}/actions/workflows/{workflow_id(name)}"
        path = f".github/workflows/{name}"
        web = f"{self.url}/{repository.full_name}"
        return {
            "id": workflow_id(name),
            "node_id": node("W", workflow_id(name)),
            "name": name.rpartition(".")[0],
            "path": path,
            "state": "active",
            "created_at": repository.created,
            "updated_at": repository.created,
            "url": base,
            "html_url": f"{web}/blob/{repository.default_branch}/{path}",
            "badge_url": f"{web}/workflows/{name}/badge.svg",
        }

    def run(self, repository: Repository, owner: Account, run: Run, message: str) -> dict[str, Any]:
        base = f"{self.api}/repos/{repository.full_name}"
        url = f"{base}/actions/runs/{run.id}"
        urls = ("jobs", "logs", "artifacts", "cancel", "rerun")
        return {
            "id": run.id,
            "name": run.workflow.rpartition(".")[0],
            "node_id": node("WR", run.id),
            "head_branch": run.branch,
            "head_sha": run.sha,
            "path": f".github/workflows/{run.workflow}",
            "display_title": run.title,
            "run_number": run.number,
            "run_attempt": run.attempt,
            "event": "workflow_dispatch",
            "status": run.status,
            "conclusion": run.conclusion,
            "workflow_id": workflow_id(run.workflow),
            "check_suite_id": 1,
            "check_suite_node_id": node("CS", 1),
            "url": url,
            "html_url": f"{self.url}/{repository.full_name}/actions/runs/{run.id}",
            "pull_requests": [],
            "created_at": run.created,
            "updated_at": run.updated,
            "run_started_at": run.created,
            "actor": self.user(run.actor),
            "triggering_actor": self.user(run.actor),
            **{f"{name}_url": f"{url}/{name}" for name in urls},
            "check_suite_url": f"{base}/check-suites/1",
            "previous_attempt_url": None,
            "workflow_url": f"{base}/actions/workflows/{workflow_id(run.workflow)}",
            "head_commit": {
                "id": run.sha,
                "tree_id": run.sha,
                "message": message,
                "timestamp": run.created,
                "author": {"name": "forge", "email": "noreply@localhost"},
                "committer": {"name": "forge", "email": "noreply@localhost"},
            },
            "repository": self.repository(repository, owner),
            "head_repository": self.repository(repository, owner),
        }

    def artifact(self, repository: Repository, run: Run, artifact: Artifact) -> dict[str, Any]:
        url = f"{self.api}/repos/{repository.full_name}/actions/artifacts/{artifact.id}"
        return {
            "id": artifact.id,
            "node_id": node("AR", artifact.id),
            "name": artifact.name,
            "size_in_bytes": artifact.path.stat().st_size,
            "url": url,
            "archive_download_url": f"{url}/zip",
            "expired": artifact.expired,
            "created_at": artifact.created,
            "updated_at": artifact.created,
            "expires_at": "2099-01-01T00:00:00Z",
            "digest": f"sha256:{artifact.digest}" if artifact.digest else None,
            "workflow_run": {
                "id": run.id,
                "repository_id": repository.id,
                "head_repository_id": repository.id,
                "head_branch": run.branch,
                "head_sha": run.sha,
            },
        }

    def delivery(self, delivery: Delivery, *, full: bool = False) -> dict[str, Any]:
        told: dict[str, Any] = {
            "id": delivery.id,
            "guid": delivery.guid,
            "delivered_at": delivery.delivered_at,
            "redelivery": delivery.redelivery,
            "duration": delivery.duration,
            "status": delivery.status,
            "status_code": delivery.status_code,
            "event": delivery.event,
            "action": delivery.action,
            "installation_id": 1,
            "repository_id": 1,
            "throttled_at": None,
        }
        if full:
            told |= {"url": "", "request": {"headers": {}, "payload": delivery.payload}, "response": {"headers": {}, "payload": None}}
        return told
