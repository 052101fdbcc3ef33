"""Who is known to the forge: people and the App, their tokens and keys."""

from __future__ import annotations

import functools
import itertools
import secrets
import time

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bot.forge.model import Account, Refused
from bot.forge.shapes import APP_SLUG

TOKEN_SECONDS = 3600.0


class Accounts:
    """People with personal tokens, and one App with one installation, whose bot may write."""

    def __init__(self, app_id: int) -> None:
        self.app_id = app_id
        self.installation_id = 1
        self.accounts: dict[str, Account] = {}
        self._ids = itertools.count(1001)
        self._tokens: dict[str, tuple[Account, float | None]] = {}
        self._key = _key()
        self.bot = self.account(f"{APP_SLUG}[bot]", write=True, bot=True)

    @property
    def private_key(self) -> str:
        """The App's private key as PEM."""
        form = serialization.PrivateFormat.TraditionalOpenSSL
        return self._key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()

    def next_id(self) -> int:
        return next(self._ids)

    def account(self, login: str, *, write: bool, bot: bool = False) -> Account:
        """A new account."""
        account = self.accounts[login] = Account(self.next_id(), login, write, bot)
        return account

    def add_user(self, login: str, *, write: bool) -> str:
        """A person; returns a personal token."""
        token = f"ghp_{secrets.token_hex(18)}"
        self._tokens[token] = (self.account(login, write=write), None)
        return token

    def person(self) -> Account | None:
        """Who looks at the pages: the first person who may write."""
        return next((one for one in self.accounts.values() if one.write and not one.bot), None)

    def installation_token(self, seconds: float = TOKEN_SECONDS) -> tuple[str, str]:
        """A token of the App's installation, and when it ends."""
        token = f"ghs_{secrets.token_hex(18)}"
        self._tokens[token] = (self.bot, time.time() + seconds)
        return token, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))

    def revoke_installation_tokens(self) -> None:
        """All of them end now."""
        self._tokens = {token: held for token, held in self._tokens.items() if held[1] is None}

    def whose(self, token: str) -> Account:
        """Whose token it is. Raises `Refused` for one that is unknown or has ended."""
        held = self._tokens.get(token)
        if held is None or (held[1] is not None and held[1] < time.time()):
            raise Refused(401, "Bad credentials")
        return held[0]

    def check_app(self, token: str) -> None:
        """Whether a JSON web token is the App's own. Raises `Refused`."""
        try:
            claims = jwt.decode(token, self._key.public_key(), algorithms=["RS256"], options={"require": ["exp", "iat", "iss"]}, leeway=60)
        except jwt.PyJWTError as error:
            raise Refused(401, f"A JSON web token could not be decoded: {error}") from error
        if str(claims["iss"]) != str(self.app_id):
            raise Refused(404, "Integration not found")
        if claims["exp"] > time.time() + 660:
            raise Refused(401, "'Expiration time' claim ('exp') is too far in the future")


@functools.cache
def _key() -> rsa.RSAPrivateKey:
    """The App's key on every forge of this process: to make one takes longer than all else that a forge begins with."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)
