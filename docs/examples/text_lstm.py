"""An LSTM on texts: `bfl simulate --dataset text_lstm:load --data-dir FOLDER --model text_lstm:make`, in this folder.

FOLDER has train.txt and test.txt; a line is a number from 0 to 1, a tab, and a text: letters become int64 inputs.
"""

from pathlib import Path

import torch
from torch import Tensor, nn

from clients.data import Dataset, Samples


def load(folder: Path, seed: int) -> Dataset:
    def read(name: str) -> Samples:
        lines = [line.split("\t", 1) for line in (folder / name).read_text(encoding="utf-8").splitlines()]
        letters = [[min(ord(letter), 127) for letter in f"{text:>40.40}"] for _, text in lines]
        return Samples(torch.tensor(letters), torch.tensor([int(label) for label, _ in lines]), vocabulary=128)

    return Dataset("texts", read("train.txt"), read("test.txt"), classes=2, source=str(folder))


class Lstm(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.vectors, self.lstm = nn.Embedding(128, 16), nn.LSTM(16, 32, batch_first=True)
        self.scores = nn.Linear(32, classes)

    def forward(self, letters: Tensor) -> Tensor:
        return self.scores(self.lstm(self.vectors(letters))[0][:, -1])


def make(sample_shape: tuple[int, ...], classes: int, hidden: tuple[int, ...]) -> nn.Module:
    return Lstm(classes)
