"""Webhook deliveries that failed: GitHub does not send them again by itself, but does when it is asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from github import Github

WITHIN = timedelta(hours=1)


def redeliver(app: Github) -> None:
    """Ask, as the App, for each delivery of the last hour that never succeeded."""
    _, deliveries = app.requester.requestJsonAndCheck("GET", "/app/hook/deliveries", parameters={"per_page": 100})
    since = datetime.now(UTC) - WITHIN
    latest: dict[str, int] = {}
    done: set[str] = set()
    for delivery in deliveries:
        guid = str(delivery["guid"])
        if 200 <= int(delivery.get("status_code") or 0) < 300:
            done.add(guid)
        elif datetime.fromisoformat(str(delivery["delivered_at"])) >= since:
            latest.setdefault(guid, int(delivery["id"]))
    for guid, number in latest.items():
        if guid not in done:
            app.requester.requestJsonAndCheck("POST", f"/app/hook/deliveries/{number}/attempts")
