"""A disk that fails: at a given write of a node's database, or for good."""

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from chain.errors import StoreError
from chain.node.node import Node


class Faulty:
    """A connection that fails at the n-th statement, and then goes on or (dead) fails for ever."""

    def __init__(self, connection: sqlite3.Connection, fault: Callable[[], None], at: int, dead: bool = False) -> None:
        self._connection, self._fault, self._at, self._dead = connection, fault, at, dead
        self.statements = 0

    def _count(self) -> None:
        self.statements += 1
        if self.statements == self._at or (self._dead and self.statements > self._at):
            self._fault()

    def execute(self, *arguments: Any) -> Any:
        self._count()
        return self._connection.execute(*arguments)

    def executemany(self, *arguments: Any) -> Any:
        self._count()
        return self._connection.executemany(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def disk_error() -> None:
    raise sqlite3.OperationalError("disk I/O error")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def make_faulty(node: Node, fault: Callable[[], None], at: int, dead: bool = False) -> Faulty:
    faulty = Faulty(node._store._db._connection, fault, at, dead)
    node._store._db._connection = faulty  # type: ignore[assignment]
    return faulty


def killed_at_every_statement(
    database: Path, now: Callable[[], float], before: Callable[[Node], object], act: Callable[[Node], object]
) -> Iterator[Node]:
    """Nodes opened again after `act`, of which the disk died at its first statement, its second, and so on.

    Each begins with a copy of the database, and with what is done `before`. The last one came through.
    """
    is_cut, at = True, 0
    while is_cut:
        at += 1
        path = Path(shutil.copy(database, database.with_name(f"{at}.db")))
        with closing(Node.open(path, now=now)) as node:
            before(node)
            make_faulty(node, disk_error, at, dead=True)
            is_cut = _is_cut(node, act)
        with closing(Node.open(path, now=now)) as again:
            yield again


def _is_cut(node: Node, act: Callable[[Node], object]) -> bool:
    try:
        act(node)
    except StoreError:
        return True
    return False
