"""What each site of the NVFlare job runs."""

import nvflare.client as flare
import torch
from nvflare_network import network
from samples import BATCH, RATE, share
from torch import nn

torch.set_num_threads(1)
flare.init()
inputs, labels = share(int(flare.get_site_name().removeprefix("site-")) - 1)
while flare.is_running():
    received = flare.receive()
    local = network()
    local.load_state_dict({k: torch.as_tensor(v) for k, v in received.params.items()})
    sgd = torch.optim.SGD(local.parameters(), RATE)
    for batch in torch.randperm(len(labels)).split(BATCH):
        sgd.zero_grad()
        nn.functional.cross_entropy(local(inputs[batch]), labels[batch]).backward()
        sgd.step()
    flare.send(flare.FLModel(params=local.state_dict(), meta={"NUM_STEPS_CURRENT_ROUND": len(labels) // BATCH}))
