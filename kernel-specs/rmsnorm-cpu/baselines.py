"""The best existing implementations, called like a kernel: inputs, outputs and scalars by name, results into the given outputs."""

from __future__ import annotations

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor, eps: float) -> None:
    """PyTorch's RMSNorm of `x` (rows, cols) with `weight` (cols), written into `y` (rows, cols)."""
    y.copy_(torch.nn.functional.rms_norm(x, weight.shape, weight, eps))
