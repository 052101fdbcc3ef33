"""A copy."""

from __future__ import annotations

import torch


def copy(x: torch.Tensor) -> torch.Tensor:
    return x.clone()
