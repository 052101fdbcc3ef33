"""RMSNorm, as the judge computes it in float64."""

import torch


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x [rows, cols], weight [cols] → y [rows, cols]."""
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight
