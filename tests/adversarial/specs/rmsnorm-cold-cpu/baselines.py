"""The existing implementations that a candidate is measured against; each writes into the outputs it is given."""

import torch

# One thread: what is tested here is the judge, on machines where other processes may hold a core, and OpenMP's barriers wait for it.
torch.set_num_threads(1)


def torch_out(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor, eps: float) -> None:
    """RMSNorm of calls that have an `out=`: `torch.nn.functional.rms_norm` allocates its result, which costs three times as much here."""
    scale = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1]).add_(eps).rsqrt_()
    torch.mul(x, scale, out=y)
    y.mul_(weight)
