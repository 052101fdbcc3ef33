"""The baselines of a spec for tests."""

import torch


def pairs(out: torch.Tensor, count: torch.Tensor, **others: torch.Tensor) -> None:
    """Writes something into the outputs."""
    out.zero_()
    count.zero_()
