"""A copy, as the judge computes it in float64."""

import torch


def copy(x: torch.Tensor) -> torch.Tensor:
    """x [n] → y [n]."""
    return x.clone()
