"""What the person who runs the bot sets: where state is kept, the forge it works on, and the model server that an `author` may use.

Every field is an environment variable with the prefix `KERNEL_FACTORY_` (`KERNEL_FACTORY_MODEL_URL=http://localhost:8080/v1`).
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """All settings, each with a default that works offline.

    `model_url` is the base URL of a server that speaks OpenAI's chat completions (with its `/v1`); without it, or without
    `model_name`, every `author` lineage is off. `model_key` is the bearer token that the server wants, if any.
    `repository` (`owner/name`) on the forge at `api_url` is what `kernel-factory serve` works for: as a GitHub App (`app_id`,
    `app_key`, the file of its private key, and `app_installation`) or with a personal `token`. `webhook_secret` signs deliveries.
    `write_seconds` lie between two writes at least, as GitHub asks for.
    `model_usd_input` and `model_usd_output` are what a million tokens read and written cost, in dollars: what `budget.usd` is counted by.
    """

    model_config = SettingsConfigDict(env_prefix="KERNEL_FACTORY_", env_ignore_empty=True, protected_namespaces=())

    state: Path | None = None
    model_url: str | None = None
    model_name: str | None = None
    model_key: SecretStr | None = None
    model_timeout_seconds: float = Field(default=120.0, gt=0)
    model_max_tokens: int = Field(default=8192, ge=1)
    model_usd_input: float = Field(default=0.0, ge=0)
    model_usd_output: float = Field(default=0.0, ge=0)

    api_url: str = "https://api.github.com"
    git_url: str = "https://github.com"
    repository: str | None = None
    app_id: int | None = None
    app_key: Path | None = None
    app_installation: int | None = None
    token: SecretStr | None = None
    webhook_secret: SecretStr | None = None
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    reconcile_seconds: float = Field(default=60.0, gt=0)
    write_seconds: float = Field(default=1.0, ge=0)

    @property
    def has_model(self) -> bool:
        """Whether a model server is configured."""
        return self.model_url is not None and self.model_name is not None
