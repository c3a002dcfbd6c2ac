"""Data and models that users bring, from end to end on the chain: trained, handed over, sealed, audited."""

from pathlib import Path

import numpy as np
import pytest

from bfl.auditing.findings import audit_rounds
from bfl.config import read_settings
from bfl.simulation import run as simulation
from chain.audit.archive import FileArchive
from edge_servers.report import RoundReport
from tests.clients.loaders.cifar_files import write_cifar

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"


@pytest.fixture(autouse=True)
def _in_the_folder_of_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)


def simulated(folder: Path, **settings: object) -> float:
    """A run on the chain in which device 0 hands over its data; every round is audited. The accuracy in the end."""
    flags: dict[str, object] = {"rounds": 3, "devices": 3, "edges": 2, "phi": 2, "planner": "fixed:0", "threads": 1}
    flags |= {"filter": "norm-clip"}  # which takes nobody out: with three nodes a verdict may take an honest one
    flags |= {name.replace("_", "-"): value for name, value in settings.items()}
    reports: list[RoundReport] = []
    simulation.run(simulation.start(read_settings(flags=flags), folder), reports.append)
    assert all(not report.refused for report in reports)
    archive = FileArchive(folder)
    audit = audit_rounds(archive)
    archive.close()
    assert not audit.findings
    trained = [(each.round, len(each.trained)) for each in audit.rounds]  # two devices, and the server with the third's
    assert trained == [(round_, 3) for round_ in range(1, int(str(flags["rounds"])) + 1)]
    return 0.0 if reports[-1].scores is None else reports[-1].scores.accuracy


def code_lines(name: str) -> int:
    """Lines of user code: neither imports, docstrings nor empty ones."""
    text = (EXAMPLES / name).read_text(encoding="utf-8").split('"""', 2)[2]
    lines = [line.strip() for line in text.splitlines()]
    return len([line for line in lines if line and not line.startswith(("import ", "from ", '"""', "#"))])


@pytest.mark.parametrize("name", ["wine_mlp.py", "cifar_resnet.py", "text_lstm.py"])
def test_a_walk_takes_less_than_twenty_lines(name: str) -> None:
    assert code_lines(name) < 20


def write_wine(path: Path, lines: int = 300) -> Path:
    """Two classes of wine that differ in two of three numbers; a line has a grower."""
    rng = np.random.default_rng(0)
    rows = ["grower,acid,sugar,year,label"]
    for n in range(lines):
        sweet = n % 2
        acid, sugar = rng.normal(5 - 2 * sweet, 1), rng.normal(30 + 60 * sweet, 20)
        rows.append(f"g{n % 9},{acid:.3f},{sugar:.2f},{rng.integers(1990, 2020)},{'sweet' if sweet else 'dry'}")
    path.write_text("\n".join(rows))
    return path


def test_a_table_with_a_network_of_ones_own_is_learned_on_the_chain(tmp_path: Path) -> None:
    accuracy = simulated(
        tmp_path / "run", dataset="csv", data_dir=str(write_wine(tmp_path / "wine.csv")), group_column="grower",
        partition="by-group", model="wine_mlp:make",
    )  # fmt: skip
    assert accuracy > 0.85


def test_texts_with_an_lstm_are_learned_on_the_chain(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, count in (("train.txt", 300), ("test.txt", 60)):
        rows = [
            f"{n % 2}\t{' '.join(rng.choice((['no', 'bad', 'poor'], ['yes', 'fine'])[n % 2], 6))}" for n in range(count)
        ]
        (tmp_path / name).write_text("\n".join(rows))
    accuracy = simulated(
        tmp_path / "run", dataset="text_lstm:load", data_dir=str(tmp_path), model="text_lstm:make", rounds=4,
        optimizer="adam", learning_rate=0.01,
    )  # fmt: skip
    assert accuracy > 0.85


def test_a_table_needs_no_model(tmp_path: Path) -> None:
    wine = str(write_wine(tmp_path / "wine.csv"))
    accuracy = simulated(tmp_path / "run", dataset="csv", data_dir=wine, drop_columns="grower", partition="quantity")
    assert accuracy > 0.85


def test_a_folder_of_images_is_learned_on_the_chain(tmp_path: Path) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    for label, colour in enumerate(("red", "green")):
        (tmp_path / "pictures" / colour).mkdir(parents=True)
        for n in range(30):
            pixels = rng.integers(0, 120, (20, 20, 3)).astype(np.uint8)
            pixels[..., label] += 100
            Image.fromarray(pixels).save(tmp_path / "pictures" / colour / f"{n}.png")
    accuracy = simulated(tmp_path / "run", dataset="image-folder", data_dir=str(tmp_path / "pictures"), image_size=16)
    assert accuracy > 0.85


@pytest.mark.experiment
def test_resnet_18_trains_on_files_of_cifar_10_on_the_chain(tmp_path: Path) -> None:
    simulated(
        tmp_path / "run", dataset="cifar-10", data_dir=str(write_cifar(tmp_path)), model="cifar_resnet:make", rounds=1,
        iterations=1, batch=2,
    )  # fmt: skip
