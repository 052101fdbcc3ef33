"""What the suite's linear attention is compared with."""

from __future__ import annotations

import torch


def linear_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor, o: torch.Tensor, decay: float) -> None:
    tokens = torch.arange(q.shape[1], device=q.device)
    sequence = torch.searchsorted(lengths.long().cumsum(0), tokens, right=True)
    distance = tokens[:, None] - tokens[None, :]
    together = (sequence[:, None] == sequence[None, :]) & (distance >= 0) & (sequence < len(lengths))[:, None]
    weight = torch.where(together, torch.pow(decay, distance.clamp(min=0).float()), 0.0)
    o.copy_(((q.float() @ k.float().transpose(1, 2)) * weight) @ v.float())
