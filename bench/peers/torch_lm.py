"""The model of dyno in PyTorch: what its users would write, and the peer of the speed comparison.

The same shapes and the same arithmetic as dyno's presets: RMSNorm, RoPE in the half-split form,
causal attention, SwiGLU, no biases, untied head. Attention is `naive` (the score matrix is made,
as dyno does in eager mode) or `sdpa` (PyTorch's fused kernel).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

PRESETS = {  # d_model, d_ff, layers, heads
    "small": (768, 3072, 12, 12),
    "medium": (1024, 4096, 24, 16),
    "large": (1280, 5120, 36, 20),
    "xl": (1600, 6400, 48, 25),
    "2.7B": (2560, 10240, 32, 32),
    "10B": (4608, 12288, 50, 36),
}


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (self.weight * y).to(x.dtype)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


def naive_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    scores = torch.where(mask, scores, float("-inf"))
    scores = scores - scores.amax(-1, keepdim=True)
    exponentials = torch.exp(scores)
    return (exponentials / exponentials.sum(-1, keepdim=True)) @ v


class Block(nn.Module):
    def __init__(self, d_model: int, d_ff: int, heads: int, attention: str) -> None:
        super().__init__()
        self.heads, self.attention = heads, attention
        self.attention_norm, self.mlp_norm = RMSNorm(d_model), RMSNorm(d_model)
        self.q, self.k, self.v, self.o = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(d_model, d_ff, bias=False) for _ in range(2))
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        batch, length, d_model = x.shape
        h = self.attention_norm(x)
        q, k, v = (f(h).view(batch, length, self.heads, -1).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if self.attention == "naive":
            mixed = naive_attention(q, k, v, mask)
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(batch, length, d_model))
        h = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class LM(nn.Module):
    def __init__(
        self, d_model: int, d_ff: int, layers: int, heads: int, *, context: int,
        vocab: int = 10000, attention: str = "naive", theta: float = 10000.0,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, d_model)
        self.blocks = nn.ModuleList(Block(d_model, d_ff, heads, attention) for _ in range(layers))
        self.norm = RMSNorm(d_model)
        self.head = nn.Linear(d_model, vocab, bias=False)
        size = d_model // heads
        angle = torch.arange(context)[:, None] * theta ** (-torch.arange(0, size, 2) / size)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        mask = torch.ones(context, context, dtype=torch.bool).tril()
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, self.cos[:length], self.sin[:length], self.mask[:length, :length])
        return self.head(self.norm(x))
