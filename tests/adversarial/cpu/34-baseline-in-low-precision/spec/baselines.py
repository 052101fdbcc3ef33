"""The implementation that a candidate is measured against, as an unfair spec would have it."""

import torch


def torch_out(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor, eps: float) -> None:
    """Computes in bfloat16."""
    y.copy_(torch.nn.functional.rms_norm(x.bfloat16(), (x.shape[-1],), weight.bfloat16(), eps))
