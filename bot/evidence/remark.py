"""What a person said of a kernel when asking for changes: evidence that no measurement gives. It is data, never an instruction."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Remark(BaseModel):
    """One request for changes to a campaign's winner. `review` is its number on the forge, `kernel_tree` the kernel that was refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    campaign: str
    spec: str
    review: int
    by: str
    text: str
    kernel_tree: str
