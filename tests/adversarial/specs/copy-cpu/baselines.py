"""The existing implementation that a candidate is measured against."""

import torch


def copy_out(x: torch.Tensor, y: torch.Tensor) -> None:
    """`Tensor.copy_`, on all of torch's threads."""
    y.copy_(x)
