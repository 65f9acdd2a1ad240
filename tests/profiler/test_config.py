"""torch_npu.profiler's choices without a source here: not kept, or refused (config.py, profile.py)."""

from __future__ import annotations

import pytest

import torch_npu.profiler


def test_a_choice_without_a_source_is_not_kept():
    with pytest.warns(UserWarning, match="gc_detect_threshold is left out"):
        config = torch_npu.profiler._ExperimentalConfig(gc_detect_threshold=1.0)
    assert (config.with_gc, config.gc_detect_threshold) == (False, None)


@pytest.mark.parametrize("name", ["enable_profiler_in_child_thread", "disable_profiler_in_child_thread"])
def test_a_thread_that_joins_a_profile_is_refused(name):
    with pytest.raises(NotImplementedError, match=f"{name}: PyTorch gives Python no call"):
        getattr(torch_npu.profiler.profile, name)()
