"""Another process, which does what programs.py says."""

from __future__ import annotations

from typing import Any

import torch.multiprocessing as mp

from tests.sharing import programs

SPAWN = mp.get_context("spawn")


class Peer:
    """`peer.describe(tensor)` calls programs.describe there. Raises RuntimeError with what it raised."""

    def __init__(self) -> None:
        self.connection, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=programs.serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def send(self, name: str | None, *arguments: Any) -> None:
        self.connection.send((name, arguments))

    def answer(self) -> Any:
        if not self.connection.poll(120):
            raise TimeoutError("the other process does not answer")
        good, value = self.connection.recv()
        if not good:
            raise RuntimeError(value)
        return value

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self.send(name, *arguments)
            return self.answer()

        return call

    def close(self) -> None:
        self.send(None)
        self.process.join()
        self.connection.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()
