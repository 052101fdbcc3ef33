"""RMSNorm in plain PyTorch. The judge calls it in float64."""

from __future__ import annotations

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor | None, eps: float) -> tuple[torch.Tensor, ...]:
    """`x` (rows, cols), plus `residual` if given, divided by the root of its rows' mean square (plus `eps`), times `weight` (cols).

    With a residual the sum is the second output.
    """
    total = x if residual is None else x + residual
    scaled = total * torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + eps) * weight
    return (scaled,) if residual is None else (scaled, total)
