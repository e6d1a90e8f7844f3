"""A small CNN and its training loop: what the torch tests record."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Net(nn.Module):
    """Two blocks and a head on 16 × 16 pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4 * 14 * 14, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).flatten(1))


def loader(batches: int = 3) -> Any:
    """Batches of 8 random pictures."""
    n = 8 * batches
    pictures = torch.utils.data.TensorDataset(torch.randn(n, 3, 16, 16), torch.randint(0, 10, (n,)))
    return torch.utils.data.DataLoader(pictures, batch_size=8)


def train(model: nn.Module, batches: int = 3) -> float:
    """Train with Adam; the last loss."""
    optimizer = torch.optim.Adam(model.parameters())
    criterion = nn.CrossEntropyLoss()
    loss = torch.zeros(())
    for x, y in loader(batches):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    return float(loss.detach())
