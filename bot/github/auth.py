"""Who the bot is on GitHub: a GitHub App's installation, whose tokens live an hour, or a personal token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from github import Auth, Github, GithubException
from urllib3 import Retry

from runner.errors import FactoryError

PERMISSIONS = {
    "actions": "write",
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
}
"""What a token may do: no more than the bot needs. The App itself must hold these, and not `workflows`."""
READ_RETRIES = 4
UNANSWERED = (500, 502, 503, 504)
TIMEOUT_SECONDS = 30
PAGE = 100


@dataclass(frozen=True)
class App:
    """A GitHub App: its id, its private key (PEM), and its installation on the repository."""

    id: int
    key: str
    installation: int


@dataclass(frozen=True)
class Personal:
    """A person's token. It can't make check runs: verdicts are commit statuses then."""

    token: str


Credentials = App | Personal


class Access:
    """Opens GitHub's API as one identity, and again with a new token when the old one is refused.

    `write_seconds` lie between two writes at least: GitHub itself asks for one.
    """

    def __init__(self, api_url: str, credentials: Credentials, write_seconds: float = 0.0) -> None:
        self.api_url = api_url
        self.credentials = credentials
        self.write_seconds = write_seconds
        self._github: Github | None = None
        self._app: Github | None = None
        self._login: str | None = None

    @property
    def app_id(self) -> int | None:
        """The App's id, None for a person."""
        return self.credentials.id if isinstance(self.credentials, App) else None

    def github(self) -> Github:
        """The API as the installation, or the person."""
        if self._github is None:
            self._github = self._open(self._auth())
        return self._github

    def as_app(self) -> Github | None:
        """The API as the App itself, which only its own deliveries need; None for a person."""
        if self._app is None and isinstance(self.credentials, App):
            self._app = self._open(Auth.AppAuth(self.credentials.id, self.credentials.key))
        return self._app

    def renew(self) -> None:
        """Forget the token: the next call asks for another."""
        self._github = None

    def token(self) -> str:
        """A token for git over HTTP. Raises `FactoryError` where there is none to be had."""
        if isinstance(self.credentials, Personal):
            return self.credentials.token
        try:
            auth = self.github().requester.auth
            assert auth is not None
            return auth.token
        except GithubException as error:
            raise FactoryError(f"GitHub gives no token for installation {self.credentials.installation}: {told(error)}") from error

    def login(self) -> str:
        """The name under which the bot writes. Raises `FactoryError` where the credentials are refused."""
        if self._login is None:
            try:
                app = self.as_app()
                if app is None:
                    self._login = self.github().get_user().login
                else:
                    _, told_of = app.requester.requestJsonAndCheck("GET", "/app")
                    self._login = f"{told_of['slug']}[bot]"
            except GithubException as error:
                raise FactoryError(f"the credentials are refused at {self.api_url}: {told(error)}") from error
        return self._login

    def _auth(self) -> Auth.Auth:
        credentials = self.credentials
        if isinstance(credentials, Personal):
            return Auth.Token(credentials.token)
        app = Auth.AppAuth(credentials.id, credentials.key)
        return app.get_installation_auth(credentials.installation, token_permissions=PERMISSIONS)

    def _open(self, auth: Auth.Auth) -> Github:
        # Reads alone are repeated blindly: a write whose answer was lost may have been done. Rate limits are left to `Asking`, for reads
        # and writes alike: `GithubRetry` would sleep as long as a header says, and a campaign with it.
        retry = Retry(
            READ_RETRIES,
            allowed_methods={"GET"},
            status_forcelist=UNANSWERED,
            backoff_factor=0.2,
            respect_retry_after_header=False,
            raise_on_status=False,
        )
        return Github(
            auth=auth,
            base_url=self.api_url,
            retry=retry,
            timeout=TIMEOUT_SECONDS,
            seconds_between_requests=0,
            seconds_between_writes=self.write_seconds,
            per_page=PAGE,
            user_agent="kernel-factory",
        )


def told(error: GithubException) -> str:
    """What GitHub said: status, message, and the single errors behind it."""
    data: Any = error.data
    if not isinstance(data, dict):
        return f"{error.status} {error.message or ''}".strip()
    details = [one.get("message") or one.get("code") if isinstance(one, dict) else one for one in data.get("errors") or []]
    return " ".join(str(word) for word in (error.status, data.get("message") or "", *(f"({one})" for one in details if one)) if word)
