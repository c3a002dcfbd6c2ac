"""All that we use of Flower beyond its documented API. A new release of Flower can break this file and no other.

`tests/clients/test_flower.py` says what is expected of these names.
"""

from flwr.app import Message
from flwr.supercore.logger import log
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

__all__ = ["Run", "empty_run", "identify_process", "log", "name_message"]


def empty_run(run_id: int) -> Run:
    """A run that no SuperLink knows, for a Grid of our own."""
    return Run.create_empty(run_id)


def identify_process(run_id: int, node_id: int) -> None:
    """Say who this process is: Flower writes it into every message that is made here."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run_id, node_id, 1


def name_message(message: Message, message_id: str) -> None:
    """Give a message its id, which replies refer to; a SuperLink does this where there is one."""
    message.metadata.__dict__["_message_id"] = message_id
