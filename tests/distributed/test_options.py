"""csrc/distributed/options and settings: what is taken works, what is not is refused or said."""

from __future__ import annotations

import copy
import re

import pytest
import torch  # noqa: F401

from tests.core.tools import LIBRARY, run
from tests.distributed import failures
from tests.ports import free_port


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


@pytest.mark.parametrize("high", [False, True])
def test_the_priority_of_a_groups_streams(high: bool) -> None:
    """As the plugin's own streams have it. A call turns bytes into numbers that HCCL adds, on the group's stream."""
    program = f"""
import ctypes, torch, torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch_npu._C._distributed_c10d import ProcessGroupHCCL
library = ctypes.CDLL({str(LIBRARY)!r})
def priority(stream):
    found = ctypes.c_uint32()
    assert library.aclrtStreamGetPriority(ctypes.c_void_p(stream.npu_stream), ctypes.byref(found)) == 0
    return found.value
class Streams(TorchDispatchMode):
    seen = set()
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.add(torch.npu.current_stream())
        return function(*args, **(kwargs or {{}}))
options, call = ProcessGroupHCCL.Options(is_high_priority_stream={high}), dist.AllreduceOptions()
dist.init_process_group("hccl", rank=0, world_size=1, pg_options=options)
call.asyncOp = True
number = torch.ones(3, dtype=torch.uint8).npu()
with Streams() as streams:
    work = dist.group.WORLD._get_backend(number.device).allreduce([number], call)
work.wait()
(used,) = streams.seen
assert used != torch.npu.current_stream()
print(*[priority(stream) for stream in (used, torch.npu.Stream(), torch.npu.Stream(priority=-1))])
"""
    done = run(program, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    used, low, highest = map(int, done.stdout.split())
    assert highest < low and used == (highest if high else low)


def test_a_group_made_by_hand_has_the_time_and_the_name_of_its_options(fresh):
    (name, text), _ = fresh(2).run(failures.made_by_hand)
    assert name == "mine/0"
    assert "rank 1 did not call it within 3 s" in text, text


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (
            "op_timeout = datetime.timedelta(seconds=7)",
            "pg_options has a timeout of 0:00:07, but the group's is 0:00:20",
        ),
        ("group_id = 'mine'", "pg_options has the group_id mine, but PyTorch names groups itself"),
        ("is_high_priority_stream = True", ""),
    ],
    ids=lambda text: text.split(" ")[0],
)
def test_what_pytorch_settles_itself_is_said(field: str, said: str) -> None:
    program = f"""
import datetime, torch, torch.distributed as dist
from torch_npu._C._distributed_c10d import ProcessGroupHCCL
limit = datetime.timedelta(seconds=20)
dist.init_process_group("hccl", rank=0, world_size=1, timeout=limit)
options = ProcessGroupHCCL.Options()
options.{field}
group = dist.new_group(pg_options=options, timeout=limit)
own = group._get_backend(torch.device("npu")).options
print(own.op_timeout == limit, own.group_id == group.group_name)
dist.new_group(pg_options=own, timeout=limit)  # another group's options are no news
"""
    done = run(program, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    assert done.stdout.split() == ["True", "True"]
    assert done.stderr.count("pg_options has") == (said != "") and said in done.stderr


@pytest.mark.parametrize(("field", "value"), [("op_timeout", 3), ("op_timeout", "3"), ("group_id", 3)])
def test_a_field_of_another_type_is_refused(field, value):
    with pytest.raises(TypeError):
        setattr(options(), field, value)


def test_a_setting_without_effect_is_said(monkeypatch):
    from torch_npu import distributed

    for name, value in (("STATUS_SAVE_ENABLE", "1"), ("ZERO_COPY", "0"), ("HIGH_PRIORITY", "1")):
        monkeypatch.setenv(f"TORCH_HCCL_{name}", value)
    with pytest.warns(UserWarning, match="TORCH_HCCL_STATUS_SAVE_ENABLE=1 is set, but") as told:
        distributed._warn_of_settings.__wrapped__()
    assert len(told) == 1


@pytest.mark.parametrize("name", ["qos_service_level", "hccl_buffer_size"])
def test_a_field_without_effect_is_said(name: str) -> None:
    program = f"""
import torch, torch.distributed as dist
from torch_npu._C._distributed_c10d import ProcessGroupHCCL
options = ProcessGroupHCCL.Options()
options.hccl_config = {{"{name}": 3, "group_name": "mine"}}
dist.init_process_group("hccl", rank=0, world_size=1, pg_options=options)
dist.all_reduce(torch.ones(2).npu())
"""
    done = run(program, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    assert f'hccl_config["{name}"] is set, but has no effect on the software NPU' in done.stderr
    assert "group_name" not in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TORCH_HCCL_BLOCKING_WAIT", "false", "it must be 0 (off) or 1 (on)"),
        ("HCCL_BLOCKING_WAIT", "false", "it must be 0 (off) or 1 (on)"),
        ("TORCH_FR_DUMP_ON_TIMEOUT", "yes", "it must be 0 (off) or 1 (on)"),
        ("TORCH_HCCL_TRACE_BUFFER_SIZE", "many", "is not a number of calls"),
        ("TORCH_FR_BUFFER_SIZE", "many", "is not a number of calls"),
    ],
)
def test_a_value_that_is_none_is_named_with_the_variable_it_came_from(name: str, value: str, said: str) -> None:
    program = "import torch, torch.distributed as dist; dist.init_process_group('hccl', rank=0, world_size=1)"
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    done = run(program, check=False, **{name: value}, **where)
    assert re.search(rf"\b{name}={value}:? {re.escape(said)}", done.stderr), done.stderr
