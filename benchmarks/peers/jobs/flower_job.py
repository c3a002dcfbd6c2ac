"""The job on Flower's simulation engine, as its documents show it."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from samples import BATCH, DEVICES, RATE, ROUNDS, share, test
from torch import nn

client, server = ClientApp(), ServerApp()


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


@client.train()
def train(message: Message, context: Context) -> Message:
    torch.set_num_threads(1)
    inputs, labels = share(int(context.node_config["partition-id"]))
    local = network()
    local.load_state_dict(message.content["arrays"].to_torch_state_dict())
    sgd = torch.optim.SGD(local.parameters(), RATE)
    for batch in torch.randperm(len(labels)).split(BATCH):
        sgd.zero_grad()
        nn.functional.cross_entropy(local(inputs[batch]), labels[batch]).backward()
        sgd.step()
    metrics = MetricRecord({"num-examples": len(labels)})
    return Message(RecordDict({"arrays": ArrayRecord(local.state_dict()), "metrics": metrics}), reply_to=message)


def evaluate(_: int, arrays: ArrayRecord) -> MetricRecord:
    model, (x, y) = network(), test()
    model.load_state_dict(arrays.to_torch_state_dict())
    accuracy = (model(x).argmax(1) == y).float().mean()
    print(f"accuracy {accuracy:.4f}")
    return MetricRecord({"accuracy": float(accuracy)})


@server.main()
def main(grid: Grid, context: Context) -> None:
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=DEVICES, min_available_nodes=DEVICES)
    strategy.start(grid, ArrayRecord(network().state_dict()), num_rounds=ROUNDS, evaluate_fn=evaluate)


run_simulation(server, client, DEVICES, backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}})
