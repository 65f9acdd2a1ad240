"""The environment of the vendor's wheel: several processes that ask for it get one that is whole."""

from __future__ import annotations

import threading
import time

from tests.conformance import environment


def test_it_is_made_once_when_several_ask_at_once(tmp_path, monkeypatch):
    made = []

    def make(home):
        home.mkdir()  # fails if it is there
        time.sleep(0.05)
        made.append(home)

    monkeypatch.setattr(environment, "make", make)
    askers = [threading.Thread(target=environment.python, args=(tmp_path / "vendor",)) for _ in range(4)]
    for thread in askers:
        thread.start()
    for thread in askers:
        thread.join()
    assert made == [tmp_path / "vendor"]
