"""A run, finished or not, as an object: everything is read from its folder when it is asked for."""

import json
import shutil
import weakref
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfl.api.audit import RunAudit, audit_run
from bfl.api.callbacks import Callback
from bfl.api.chain import RunChain
from bfl.api.flat import Row, flat_row, same_keys
from bfl.api.given import check_given
from bfl.api.plots import Plots
from bfl.config import RunSettings, read_toml
from bfl.errors import BflError, RunFolderError

if TYPE_CHECKING:
    import pandas
    from torch import nn


class Run:
    """What `bfl.simulate` gives back, and `bfl.open_run` of a folder."""

    def __init__(self, folder: Path, network: "nn.Module | None" = None, allows_plugins: bool = False) -> None:
        self.folder = folder
        self.network = network
        """Its architecture, where it is at hand"""
        self.allows_plugins = allows_plugins
        self._goes_with_it: weakref.finalize[..., Any] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting of the run, as `simulate` takes them: `bfl.simulate(**run.settings)` repeats it."""
        return {key.replace("-", "_"): value for key, value in self._recorded().flat().items()}

    def _recorded(self) -> RunSettings:
        """Read without a look at the code that they may name."""
        return RunSettings.read(read_toml(self.folder / "config.toml"))

    @property
    def rounds(self) -> list[dict[str, Any]]:
        """All recorded rounds as metrics.jsonl has them, lists and all."""
        from bfl.simulation.run_folder import RunFolder

        return RunFolder(self.folder).metrics()

    @property
    def metrics(self) -> list[Row]:
        """All recorded rounds as flat rows of the same keys: `pandas.DataFrame(run.metrics)`, `csv.DictWriter`."""
        return same_keys(map(flat_row, self.rounds))

    def frame(self) -> "pandas.DataFrame":
        """The metrics as a pandas table, by round."""
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise BflError("pandas is not installed: pip install pandas; run.metrics needs none") from error
        return pandas.DataFrame(self.metrics).set_index("round", drop=False)

    @property
    def summary(self) -> dict[str, Any]:
        """The numbers of the run at its end; empty where it has not ended yet."""
        return self._json("summary.json")

    @property
    def environment(self) -> dict[str, Any]:
        """The machine, and the versions that decide whether the same seed gives the same run."""
        return self._json("environment.json")

    def _json(self, name: str) -> dict[str, Any]:
        from bfl.simulation.run_folder import RunFolder

        return RunFolder(self.folder).read_json(name)

    @property
    def status(self) -> str:
        """finished, stopped (by a callback), interrupted (Ctrl-C), failed (a callback did), or unfinished."""
        summary = self.summary
        return str(summary.get("status", "unfinished"))

    @property
    def problem(self) -> str:
        """Why nothing was learned; empty where something was."""
        return str(self.summary.get("problem", ""))

    @property
    def chain(self) -> RunChain:
        """The chain, of the schemes that have one."""
        scheme = self._recorded().rounds
        if not scheme.is_on_chain:
            raise BflError(f"scheme {scheme.scheme} has no chain; bfl and bfl-no-consensus do")
        return RunChain(self.folder, self)

    @property
    def plots(self) -> Plots:
        """The pictures by name; a notebook shows them."""
        return Plots(self.folder / "plots", self)

    def audit(self, execute: bool | None = None) -> RunAudit:
        """Derive every round of the chain again; `BflError` where it does not fit."""
        self.permit_plugins()
        _ = self.chain
        return audit_run(self.folder, execute)

    def model(self, server: int = 0) -> "nn.Module":
        """The network with the weights at the end of the run; each server has its own under scheme traditional."""
        import torch

        path = self.folder / ("model.pt" if server == 0 else f"model-server-{server}.pt")
        if not path.exists():
            raise RunFolderError(f"{self.folder} has no {path.name}: expected a run that has ended, see run.status")
        network = self._architecture()
        network.load_state_dict(torch.load(path, weights_only=True))
        return network.eval()

    def _architecture(self) -> "nn.Module":
        import copy

        if self.network is None:
            from clients.data import load_dataset
            from clients.models import network_for

            self.permit_plugins()
            settings = self._recorded()
            data = settings.data
            dataset = load_dataset(data.dataset, data.data_dir, data.seed)
            self.network = network_for(dataset, settings.training, data.seed)
        return copy.deepcopy(self.network)

    def resume(
        self,
        rounds: int | None = None,
        *,
        on_round: Callback | Iterable[Callback] = (),
        progress: bool = True,
        allow_other_environment: bool = False,
    ) -> "Run":
        """Go on where the run stands; `rounds` is how many it shall have in all. This run, for chaining."""
        from bfl.api.simulating import go_on

        return go_on(self, rounds, on_round, progress, allow_other_environment)

    def check_somewhere(self) -> None:
        """Raise `ConfigError` where the run needs what nobody can import, and nobody has given again."""
        if (self.folder / "config.toml").is_file():
            check_given(self._recorded().flat(), is_importable=True)

    def save(self, path: str | Path) -> "Run":
        """A copy of the folder, where `path` is not there yet: a temporary one goes with the program."""
        target = Path(path)
        if target.exists():
            raise RunFolderError(f"{target} exists; choose another path")
        shutil.copytree(self.folder, target, ignore=shutil.ignore_patterns(".lock"))
        return Run(target, self.network, self.allows_plugins)

    def permit_plugins(self) -> None:
        """Permit the code that the run names, if whoever opened it has said so; `ConfigError` where some is missing."""
        from clients.plugins import permit

        recorded = self._recorded().flat()
        if self.allows_plugins:
            permit(recorded)
        check_given(recorded)

    def goes_with_it(self) -> None:
        """The folder is temporary: it goes when this object goes, at the end of the program at the latest."""
        self._goes_with_it = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def keep(self) -> None:
        """Keep the folder, temporary or not: there is something to go on with."""
        if self._goes_with_it is not None:
            self._goes_with_it.detach()

    @property
    def is_temporary(self) -> bool:
        """Whether the folder goes with this object."""
        return self._goes_with_it is not None and self._goes_with_it.alive

    def __repr__(self) -> str:
        settings, summary = self._recorded(), self.summary
        accuracy = summary.get("accuracy")
        told = "" if accuracy is None else f", accuracy {100 * accuracy:.2f} %"
        done = f"{summary.get('rounds', len(self.rounds))} of {settings.rounds.rounds} rounds"
        return f"<run {self.status}, {settings.rounds.scheme} on {settings.data.dataset}: {done}{told}; {self.folder}>"

    def _repr_html_(self) -> str:
        summary = self.summary
        rows = {key: value for key, value in summary.items() if key != "environment"} or {"status": self.status}
        cells = "".join(
            f"<tr><th style='text-align:left'>{escape(str(key))}</th>"
            f"<td style='text-align:left'>{escape(value if isinstance(value, str) else json.dumps(value))}</td></tr>"
            for key, value in rows.items()
        )
        pictures = self.plots._repr_html_()
        return f"<p><b>run</b> {escape(str(self.folder))}</p><table>{cells}</table>{pictures}"
