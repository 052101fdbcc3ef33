"""The implementation that a candidate is measured against, as an unfair spec would have it."""

import torch


def torch_out(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor, eps: float) -> None:
    """Works in place."""
    y.copy_(x.mul_(torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)) * weight)
