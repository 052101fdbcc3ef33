"""The best existing implementations, called like a kernel: inputs, outputs and scalars by name, results into the given outputs."""

from __future__ import annotations

import torch


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    residual: torch.Tensor | None,
    y: torch.Tensor,
    residual_out: torch.Tensor | None,
    eps: float,
) -> None:
    """PyTorch's RMSNorm, written into `y` (rows, cols); with a residual the fp32 sum goes into `residual_out`."""
    if residual is not None:
        assert residual_out is not None
        torch.add(x.float(), residual, out=residual_out)
        x = residual_out.to(x.dtype) if weight.dtype == x.dtype else residual_out
    y.copy_(torch.nn.functional.rms_norm(x, weight.shape, weight, eps))


def in_float(
    x: torch.Tensor,
    weight: torch.Tensor,
    residual: torch.Tensor | None,
    y: torch.Tensor,
    residual_out: torch.Tensor | None,
    eps: float,
) -> None:
    """RMSNorm with all arithmetic in fp32, for the compiler to fuse into one kernel."""
    total = x.float() if residual is None else x.float() + residual.float()
    if residual_out is not None:
        residual_out.copy_(total)
    y.copy_(total * torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + eps) * weight.float())


def quack(
    x: torch.Tensor,
    weight: torch.Tensor,
    residual: torch.Tensor | None,
    y: torch.Tensor,
    residual_out: torch.Tensor | None,
    eps: float,
) -> str:
    """QuACK's RMSNorm with the configuration of its own heuristic, written into the given outputs."""
    from quack.rmsnorm import _rmsnorm_fwd
    from quack.rmsnorm_config import RmsNormFwdConfig

    _rmsnorm_fwd(x, weight, y, residual=residual, residual_out=residual_out, eps=eps)
    return f"heuristic: {RmsNormFwdConfig.from_analytical_heuristic(x.shape[-1], 8 * x.element_size())}"
