"""What the suite's kernels are compared with."""

from __future__ import annotations

import torch


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor, eps: float) -> None:
    raise ValueError("no")
    y.copy_(torch.nn.functional.rms_norm(x.float(), weight.shape, weight, eps))
