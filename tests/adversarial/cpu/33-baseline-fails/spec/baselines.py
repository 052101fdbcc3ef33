"""The implementation that a candidate is measured against, as an unfair spec would have it."""

import torch


def torch_out(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor, eps: float) -> None:
    """Cannot run."""
    raise RuntimeError("not here")
