"""csrc/distributed/options and settings: what is taken works, what is not is refused or said."""

from __future__ import annotations

import copy

import pytest
import torch  # noqa: F401

from tests.core.tools import run
from tests.distributed import failures
from tests.distributed.conftest import free_port


def options():
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    return ProcessGroupHCCL.Options()


def test_hccl_config_reaches_the_communicator(two):
    assert two.run(failures.named_by_options) == ["mine"] * 2


@pytest.mark.parametrize(
    ("config", "error", "text"),
    [
        ({"hccl_bufer_size": 200}, ValueError, 'no "hccl_bufer_size": there are hccl_buffer_size'),
        ({"hccl_buffer_size": 0}, ValueError, "1 to"),
        ({"hccl_buffer_size": "200"}, TypeError, "is a number"),
        ({"group_name": 3}, TypeError, "is a text"),
        ({"group_name": "x" * 33}, ValueError, "1 to 32 characters"),
        ({"qos_traffic_class": 256}, ValueError, "0 to 255"),
    ],
    ids=str,
)
def test_what_hccl_config_does_not_take_is_refused(config, error, text):
    with pytest.raises(error, match=text):
        options().hccl_config = config


def test_options_are_copied():
    one = options()
    one.hccl_config = {"group_name": "one"}
    other = copy.deepcopy(one)
    other.hccl_config = {"group_name": "other"}
    assert one.hccl_config == {"group_name": "one"}


def test_a_setting_without_effect_is_said(monkeypatch):
    from torch_npu import distributed

    for name, value in (("STATUS_SAVE_ENABLE", "1"), ("ZERO_COPY", "0"), ("HIGH_PRIORITY", "1")):
        monkeypatch.setenv(f"TORCH_HCCL_{name}", value)
    with pytest.warns(UserWarning, match="TORCH_HCCL_STATUS_SAVE_ENABLE=1 is set, but") as told:
        distributed._warn_of_settings.__wrapped__()
    assert len(told) == 1


def test_a_field_without_effect_is_said() -> None:
    program = """
import torch, torch.distributed as dist
from torch_npu._C._distributed_c10d import ProcessGroupHCCL
options = ProcessGroupHCCL.Options()
options.hccl_config = {"qos_service_level": 3, "hccl_buffer_size": 64}
dist.init_process_group("hccl", rank=0, world_size=1, pg_options=options)
dist.all_reduce(torch.ones(2).npu())
"""
    done = run(program, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    assert 'hccl_config["qos_service_level"] is set, but has no effect on the software NPU' in done.stderr
    assert "hccl_buffer_size" not in done.stderr


def test_a_switch_that_is_neither_on_nor_off_is_named() -> None:
    program = "import torch, torch.distributed as dist; dist.init_process_group('hccl', rank=0, world_size=1)"
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    done = run(program, check=False, TORCH_HCCL_BLOCKING_WAIT="false", **where)
    assert "TORCH_HCCL_BLOCKING_WAIT=false: it must be 0 (off) or 1 (on)" in done.stderr
