"""Webhooks: every delivery is signed, has a GUID, is kept with how it was answered, and can be sent again."""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import threading
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass, field
from typing import Any

from bot.forge.faults import Faults
from bot.forge.model import Refused, now

ANSWER_SECONDS = 10.0
OVERSIZE = (25 << 20) + 1


@dataclass
class Delivery:
    """One sending of an event. `status_code` is 0 until it was answered, or when nobody answered."""

    id: int
    guid: str
    event: str
    action: str | None
    payload: dict[str, Any]
    redelivery: bool = False
    forged: bool = False
    oversized: bool = False
    status_code: int = 0
    status: str = "pending"
    duration: float = 0.0
    delivered_at: str = field(default_factory=now)


@dataclass(frozen=True)
class Hook:
    """Where deliveries go, and the secret that signs them."""

    url: str
    secret: str


class Hooks:
    """The webhooks of the forge, served by one thread in the order of events."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.hooks: list[Hook] = []
        self.deliveries: list[Delivery] = []
        self._queue: queue.Queue[tuple[Hook, Delivery] | None] = queue.Queue()
        self._held: list[tuple[Hook, Delivery]] = []
        self._timers: list[threading.Timer] = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="webhooks", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Send no more."""
        for timer in self._timers:
            timer.cancel()
        self._queue.put(None)
        self._thread.join()

    def send(self, event: str, payload: dict[str, Any]) -> None:
        """Send an event to every hook."""
        for hook in self.hooks:
            delivery = self._new(str(uuid.uuid4()), event, payload)
            if self.faults.take("drop", event) is not None:
                delivery.status = "dropped"
                continue
            if self.faults.take("delivery_fails", event) is not None:
                delivery.status, delivery.status_code = "Service Unavailable", 503
                continue
            delivery.forged = self.faults.take("forged", event) is not None
            delivery.oversized = self.faults.take("oversized", event) is not None
            if self.faults.take("replayed", event) is not None:
                self._queue.put((hook, self.deliveries[0]))
            if self.faults.take("reorder", event) is not None:
                self._held.append((hook, delivery))
                continue
            seconds = self.faults.take("delay", event)
            if seconds is not None:
                timer = threading.Timer(seconds, self._queue.put, ((hook, delivery),))
                timer.daemon = True
                timer.start()
                self._timers.append(timer)
                continue
            self._queue.put((hook, delivery))
            if self.faults.take("duplicate", event) is not None:
                self._queue.put((hook, delivery))
            while self._held:
                self._queue.put(self._held.pop(0))

    def redeliver(self, number: int) -> None:
        """Send a delivery again under its GUID. Raises `Refused` where there is none."""
        old = self.delivery(number)
        for hook in self.hooks:
            self._queue.put((hook, self._new(old.guid, old.event, old.payload, redelivery=True)))

    def delivery(self, number: int) -> Delivery:
        """A delivery that was made. Raises `Refused`."""
        for delivery in self.deliveries:
            if delivery.id == number and delivery.status != "dropped":
                return delivery
        raise Refused(404, "Not Found")

    def told(self) -> list[Delivery]:
        """The deliveries that the forge admits to, newest first."""
        return [one for one in reversed(self.deliveries) if one.status not in ("dropped", "pending")]

    def _new(self, guid: str, event: str, payload: dict[str, Any], *, redelivery: bool = False) -> Delivery:
        with self._lock:
            delivery = Delivery(len(self.deliveries) + 1, guid, event, payload.get("action"), payload, redelivery)
            self.deliveries.append(delivery)
        return delivery

    def _serve(self) -> None:
        while (item := self._queue.get()) is not None:
            self._deliver(*item)

    def _deliver(self, hook: Hook, delivery: Delivery) -> None:
        body = json.dumps(delivery.payload).encode()
        body = body.ljust(OVERSIZE) if delivery.oversized else body
        secret = b"another" if delivery.forged else hook.secret.encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "GitHub-Hookshot/forge",
            "X-GitHub-Event": delivery.event,
            "X-GitHub-Delivery": delivery.guid,
            "X-GitHub-Hook-ID": "1",
            "X-Hub-Signature-256": "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest(),
        }
        began = time.monotonic()
        try:
            with urllib.request.urlopen(urllib.request.Request(hook.url, data=body, headers=headers), timeout=ANSWER_SECONDS) as answer:
                delivery.status_code, delivery.status = answer.status, "OK"
        except urllib.error.HTTPError as error:
            delivery.status_code, delivery.status = error.code, str(error.reason)
        except OSError as error:
            delivery.status_code, delivery.status = 0, f"failed to connect to host: {error}"
        delivery.duration = round(time.monotonic() - began, 2)
