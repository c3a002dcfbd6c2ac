"""A data set of your own: `bfl simulate --dataset stripes:load` in the folder of this file."""

from pathlib import Path

import torch

from clients.data import Dataset, Samples


def load(folder: Path | None, seed: int) -> Dataset:
    """Four classes of 1 x 16 x 16: stripes of four widths, in noise.

    A real one would read its files from `folder` (what `--data-dir` says) and ignore the seed.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(count: int) -> Samples:
        labels = torch.arange(count) % 4
        rows = torch.arange(16).repeat(count, 1) // (labels[:, None] + 1) % 2
        images = 80 + 100 * rows[:, None, :, None].expand(count, 1, 16, 16)
        noise = torch.randint(-40, 40, images.shape, generator=generator)
        return Samples((images + noise).to(torch.uint8), labels, mean=(0.5,), std=(0.25,))

    return Dataset(
        name="stripes",
        train=draw(2000),
        test=draw(400),
        classes=4,
        source=f"made from seed {seed}",
        labels_per_device=2,
        model="clients.models:fashion_mnist_cnn",
    )
