"""A plugin of pytest for MindSpeed's unit tests: a test of a DistributedTest is run by that class, on its ranks.

Upstream has this in the conftest.py above the tests, which is not among the archive's files.
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    if getattr(item.cls, "is_dist_test", False):
        item.runtest = lambda: item.cls()(item._request)
