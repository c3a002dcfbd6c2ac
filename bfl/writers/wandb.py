"""Runs in Weights & Biases: with its account, or on this machine alone (WANDB_MODE=offline, then `wandb sync`)."""

from typing import TYPE_CHECKING, Any

from bfl.writers.numbers import missing, name_of, numbers_of

if TYPE_CHECKING:
    from bfl.api.callbacks import RoundDone
    from bfl.api.run import Run

ID_FILE = "wandb-run.txt"
"""In the run folder: a run that goes on goes on there too"""


class WandbWriter:
    """`on_round=bfl.WandbWriter(project="bfl")`. Its files are in RUN/wandb."""

    def __init__(self, project: str = "bfl") -> None:
        self._project = project
        self._run: Any = None

    def begin(self, run: "Run") -> None:
        """Begin, or go on."""
        try:
            import wandb
        except ModuleNotFoundError as error:
            raise missing("wandb", "wandb") from error
        note = run.folder / ID_FILE
        known = note.read_text(encoding="utf-8").strip() if note.is_file() else None
        is_offline = wandb.setup().settings.mode in ("offline", "dryrun")  # there it would take another id
        self._run = wandb.init(
            project=self._project,
            name=name_of(run.folder),
            config=run.settings,
            dir=str(run.folder),
            id=known,
            resume=None if is_offline else "allow",
            reinit="create_new",
            settings=wandb.Settings(console="off", silent=True, save_code=False),
        )
        note.write_text(f"{self._run.id}\n", encoding="utf-8")

    def __call__(self, done: "RoundDone") -> None:
        """The round's numbers."""
        self._run.log(numbers_of(done.metrics), step=done.round)

    def end(self, run: "Run") -> None:
        """Done."""
        if self._run is not None:
            self._run.finish(exit_code=0 if run.status in ("finished", "stopped") else 1)
        self._run = None
