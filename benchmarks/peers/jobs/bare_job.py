"""The floor: the job as a loop of torch alone."""

import torch
from samples import BATCH, DEVICES, RATE, ROUNDS, share, test
from torch import nn


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


def main() -> None:
    torch.set_num_threads(1)
    model, (x, y) = network(), test()
    shares = [share(n) for n in range(DEVICES)]
    for _ in range(ROUNDS):
        trained = []
        for inputs, labels in shares:
            local = network()
            local.load_state_dict(model.state_dict())
            sgd = torch.optim.SGD(local.parameters(), RATE)
            for batch in torch.randperm(len(labels)).split(BATCH):
                sgd.zero_grad()
                nn.functional.cross_entropy(local(inputs[batch]), labels[batch]).backward()
                sgd.step()
            trained.append(local.state_dict())
        model.load_state_dict({k: torch.stack([t[k] for t in trained]).mean(0) for k in trained[0]})
        accuracy = (model(x).argmax(1) == y).float().mean()
        print(f"accuracy {accuracy:.4f}")


main()
