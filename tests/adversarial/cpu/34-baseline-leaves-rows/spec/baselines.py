"""The implementation that a candidate is measured against, as an unfair spec would have it."""

import torch


def torch_out(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor, eps: float) -> None:
    """Does the first half of the rows."""
    half = x.shape[0] // 2
    y[:half] = torch.nn.functional.rms_norm(x[:half], (x.shape[-1],), weight, eps)
