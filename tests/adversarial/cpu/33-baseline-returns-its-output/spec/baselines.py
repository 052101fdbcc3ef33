"""The implementation that a candidate is measured against, as an unfair spec would have it."""

import torch


def torch_out(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor, eps: float) -> torch.Tensor:
    """Returns a new tensor, which the candidate is spared."""
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
