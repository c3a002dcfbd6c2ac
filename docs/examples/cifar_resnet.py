"""torchvision's ResNet-18 on CIFAR-10: `bfl simulate --dataset cifar-10 --data-dir FOLDER --model cifar_resnet:make`.

In the folder of this file. GroupNorm, because BatchNorm keeps running means outside what gradients carry.
"""

from collections.abc import Sequence

from torch import nn
from torchvision.models import resnet18


def make(sample_shape: tuple[int, ...], classes: int, hidden: Sequence[int]) -> nn.Module:
    """For small images: a 3 x 3 stem without pooling."""
    network = resnet18(num_classes=classes, norm_layer=lambda channels: nn.GroupNorm(32, channels))
    network.conv1 = nn.Conv2d(sample_shape[0], 64, 3, 1, 1, bias=False)
    network.maxpool = nn.Identity()
    return network
