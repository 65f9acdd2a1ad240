"""Flags between cores (CrossCoreSetFlag, CrossCoreWaitFlag) where one core is ahead of the others. sync.h, run.cpp."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.ascendc.kit import KERNELS, Kernels, build
from tests.runtime.acl import run

ROUNDS = 4
SEEN = 100 + np.arange(ROUNDS)


@pytest.fixture
def flags(compiled) -> Kernels:
    return compiled("flags")


def launch(flags: Kernels, name: str, blocks: int, cores: int) -> np.ndarray:
    return flags.launch(name, blocks, np.zeros(512, "i4"), np.zeros((cores, ROUNDS), "i4"))[1]


def test_a_wait_of_the_cube_core_ends_when_each_vector_core_has_told_it(flags):
    np.testing.assert_array_equal(launch(flags, "to_cube", 1, 1), [2 * SEEN])


@pytest.mark.parametrize("blocks", [2, 3, 40])
def test_a_wait_ends_when_each_core_has_told_the_others(flags, blocks):
    np.testing.assert_array_equal(launch(flags, "among_all", blocks, blocks), np.tile(SEEN, (blocks, 1)))


def test_a_wait_ends_when_each_vector_core_of_the_block_has_told_the_other(flags):
    np.testing.assert_array_equal(launch(flags, "among_vectors", 1, 2), np.tile(SEEN, (2, 1)))


def test_the_cube_core_may_tell_again_before_the_vector_cores_have_waited(flags):
    np.testing.assert_array_equal(launch(flags, "to_vectors", 1, 2), np.tile(SEEN, (2, 1)))


@pytest.mark.parametrize("blocks", [1, 2, 20])
def test_one_flag_serves_all_modes(flags, blocks):
    vectors = 2 * blocks
    got = flags.launch("one_flag", blocks, np.zeros(512, "i4"), np.zeros(vectors, "i4"))[1]
    me = np.arange(vectors)
    np.testing.assert_array_equal(got, (me + 1) % vectors + 1000 * (100 + (me ^ 1)) + 1_000_000)


def test_more_blocks_than_cores_cannot_wait_for_each_other(flags):
    error = flags.launch("among_all", 41, np.zeros(512, "i4"), np.zeros((41, ROUNDS), "i4"), check=False)
    assert "CrossCoreSetFlag: 41 blocks wait for each other, and Ascend910B3 has 40 vector cores" in error


def test_two_tellings_of_one_core_are_not_one_of_each(flags):
    error = flags.launch("one_more", 1, np.zeros(8, "i4"), check=False)
    assert (
        "one_more failed on device 0: 1 of 3 blocks waits (SyncAll, CrossCoreWaitFlag, IBWait), 2 have ended" in error
    )


CHECKED = """
from pathlib import Path
import numpy as np
from tests.ascendc.kit import Device, Kernels
kernels = Kernels(Path({library!r}), Device())
for name, blocks in ("to_cube", 1), ("among_all", 3), ("among_vectors", 1), ("to_vectors", 1), ("one_flag", 2):
    print(name, kernels.launch(name, blocks, np.zeros(512, "i4"), np.zeros(16, "i4"), check=False))
"""


def test_the_checker_follows_flags_of_a_core_that_is_ahead(tmp_path: Path):
    code = CHECKED.format(library=str(build(KERNELS / "flags.asc", tmp_path)))
    said = run(code, timeout=120, ANYCEND_CHECK="kernel").stdout.splitlines()
    assert [line.split(" ", 1)[1] for line in said] == [""] * 5, said
