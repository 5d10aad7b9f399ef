"""Whether a user clicks: an embedding of the user beside the features, and two layers."""

import torch


class ClickModel(torch.nn.Module):
    def __init__(self, users: int, features: int) -> None:
        super().__init__()
        self.users = torch.nn.Embedding(users, 8)
        self.layers = torch.nn.Sequential(torch.nn.Linear(8 + features, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))

    def forward(self, user: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layers(torch.cat([self.users(user), features], 1))
        return scores.squeeze(1)
