"""The best existing implementations, called like a kernel: inputs and outputs by name, results into the given outputs.

PyTorch's own fused gradient takes a weight of the dtype of x only, so here it stands for itself as plain and as compiled operations.
"""

from __future__ import annotations

import torch


def rms_norm_backward(
    x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor, dx: torch.Tensor, dweight: torch.Tensor
) -> None:
    """The gradients with all arithmetic in fp32, into `dx` (rows, cols) and `dweight` (cols)."""
    factor = rstd.unsqueeze(-1)
    normalised = x.float() * factor
    gradient = dy.float()
    scaled = gradient * weight
    dx.copy_(factor * (scaled - normalised * (scaled * normalised).mean(dim=-1, keepdim=True)))
    dweight.copy_((gradient * normalised).sum(dim=0))


def quack(x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor, dx: torch.Tensor, dweight: torch.Tensor) -> str:
    """QuACK's gradient with the configuration of its own heuristic: partial sums of dweight, which PyTorch adds up into the output."""
    from quack.rmsnorm import _rmsnorm_bwd, get_sm_count
    from quack.rmsnorm_config import RmsNormBwdConfig

    parts = get_sm_count(x.shape[-1], x.device)
    partial = torch.empty((parts, x.shape[-1]), device=x.device, dtype=torch.float32)
    _rmsnorm_bwd(x, weight, dy, rstd, dx, partial)
    torch.sum(partial, dim=0, out=dweight)
    bits = 8 * x.element_size()
    return f"heuristic: {RmsNormBwdConfig.from_analytical_heuristic(x.shape[-1], bits, bits)}, {parts} partial sums"
