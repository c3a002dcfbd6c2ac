"""The job with us: plain FedAvg, every device on its own."""

import torch
from samples import BATCH, DEVICES, RATE, ROUNDS, share, test
from torch import nn

import bfl


def network(*_: object) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


shares = [share(n) for n in range(DEVICES)]
train = torch.cat([x for x, _ in shares]), torch.cat([y for _, y in shares])
run = bfl.simulate(
    data=(train, test()), model=network, scheme="fedavg", planner="all-local", filter="none", devices=DEVICES,
    rounds=ROUNDS, iterations=10, batch=BATCH, learning_rate=RATE, data_per_round="all", threads=1, progress=False,
)  # fmt: skip
print(f"accuracy {run.metrics[-1]['accuracy']:.4f}")
