"""csrc/distributed/point_to_point and lanes: no order of messages blocks."""

from __future__ import annotations

import pytest

from tests.distributed import failures


@pytest.fixture(scope="module")
def three():
    from tests.distributed.conftest import start

    with start(3, timeout=20) as job:
        yield job


@pytest.mark.parametrize("batched", [False, True], ids=["single", "batches"])
@pytest.mark.parametrize("n", [10, 50_000])
def test_any_order(three, n, batched):
    three.run(failures.orders, n, batched)


def test_a_gather_is_no_message(three):
    three.run(failures.gather_beside_messages)


def test_groups_do_not_share_streams(three):
    three.run(failures.many_groups)
