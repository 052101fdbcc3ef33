"""Causal linear attention with decay, each sequence by itself."""

from __future__ import annotations

import torch


def linear_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor, decay: float) -> torch.Tensor:
    """`q`, `k`, `v` (heads, tokens, dim): token t of a sequence gets the sum over its tokens s up to t of decay^(t - s) (q_t · k_s) v_s.

    Sequences follow each other with these `lengths`, and end where the tokens end; tokens after the last sequence get zeros.
    """
    tokens = torch.arange(q.shape[1], device=q.device)
    ends = lengths.long().cumsum(0)
    sequence = torch.searchsorted(ends, tokens, right=True)
    distance = tokens[:, None] - tokens[None, :]
    together = (sequence[:, None] == sequence[None, :]) & (distance >= 0) & (sequence < len(lengths))[:, None]
    weight = torch.where(together, decay ** distance.clamp(min=0).to(q.dtype), 0.0)
    return ((q @ k.transpose(1, 2)) * weight) @ v
