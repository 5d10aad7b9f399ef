"""A folder of JPEGs, a directory a class, decoded and augmented by workers: all that moved them there is the import of DataLoader.

penstock local --workers 2 -- python image_folder.py images --epochs 3
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from penstock.torch import DataLoader  # was: from torch.utils.data import DataLoader

SIZE = 32


class ImageFolder(torch.utils.data.Dataset):
    """As torchvision's, with a random crop and flip."""

    def __init__(self, root: str) -> None:
        self.classes = sorted(entry.name for entry in Path(root).iterdir())
        self.files = [(str(path), label) for label, name in enumerate(self.classes) for path in sorted(Path(root, name).glob("*.jpg"))]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        path, label = self.files[i]
        image = torch.from_numpy(np.asarray(Image.open(path).convert("RGB"))).permute(2, 0, 1)
        top, left = (int(torch.randint(0, extent - SIZE + 1, ())) for extent in image.shape[1:])
        image = image[:, top : top + SIZE, left : left + SIZE]
        if torch.rand(()) < 0.5:
            image = image.flip(2)
        return image.float() / 255, label


def train(root: str, epochs: int) -> None:
    torch.manual_seed(0)
    dataset = ImageFolder(root)
    loader = DataLoader(dataset, batch_size=16, shuffle=True, num_workers=4)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5, stride=4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(len(dataset.classes)))
    optimizer = None
    for epoch in range(epochs):
        right = seen = 0
        for images, labels in loader:
            scores = model(images)
            optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=0.01)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(scores, labels).backward()
            optimizer.step()
            right += int((scores.argmax(1) == labels).sum())
            seen += len(labels)
        print(f"epoch {epoch}: {seen} images, {right / seen:.2f} right")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("root", help="a directory of directories of JPEGs, at least 32 pixels high and wide")
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    train(options.root, options.epochs)
