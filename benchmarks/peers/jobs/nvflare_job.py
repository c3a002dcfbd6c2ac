"""The job on NVFlare's simulator; it evaluates the last model alone."""

import tempfile
from pathlib import Path

import torch
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe import SimEnv
from nvflare_network import Network
from samples import DEVICES, ROUNDS, test

if __name__ == "__main__":
    folder = tempfile.mkdtemp()
    recipe = FedAvgRecipe(
        name="job", model=Network(), min_clients=DEVICES, num_rounds=ROUNDS, train_script="nvflare_client.py"
    )
    recipe.execute(SimEnv(num_clients=DEVICES, num_threads=DEVICES, workspace_root=folder))
    model, (x, y) = Network(), test()
    model.load_state_dict(torch.load(next(Path(folder).rglob("FL_global_model.pt")))["model"])
    print(f"accuracy {(model(x).argmax(1) == y).float().mean():.4f}")
