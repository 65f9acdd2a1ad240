"""What a program does with the NPU, in steps; each that fails is tried once more. Prints what became of them, as JSON.
It runs as a process of its own, with a fault asked for (ANYCEND_FAULT): see test_faults.py."""

import gc
import io
import json
import os
import tempfile
import threading

import torch

STEPS = {}


def step(function):
    STEPS[function.__name__] = function
    return function


def equal(found, expected):
    torch.testing.assert_close(torch.as_tensor(found).cpu(), torch.as_tensor(expected))


@step
def about():
    assert torch.npu.device_count() >= 2
    properties = torch.npu.get_device_properties(0)
    assert properties.total_memory > 0 and properties.name.startswith("Ascend")
    assert torch.npu.can_device_access_peer(0, 1)
    assert torch.npu.utilization(0) >= 0
    assert torch.npu.check_uce_in_memory(0) == 0
    free, total = torch.npu.mem_get_info()
    assert 0 < free <= total
    assert torch.version.cann
    torch.npu.set_device(0)


@step
def operators():
    x = torch.arange(12.0, device="npu").view(3, 4)
    equal(x + 1, torch.arange(1.0, 13).view(3, 4))
    equal(x.sum((0, 1)), 66.0)
    equal(x.flip(0)[0, 0], 8.0)
    equal(torch.cat([x, x]).shape[0], 6)
    equal(torch.nn.functional.interpolate(x[None, None], scale_factor=2.0)[0, 0, 0, 1], 0.0)
    equal(torch.std_mean(x)[1], 5.5)
    equal(x[x > 5].numel(), 6)
    equal(x.nonzero().shape[0], 11)
    many = [torch.ones(3, device="npu"), torch.ones(2, device="npu")]
    torch._foreach_add_(many, [1.0, 2.0])
    equal(many[1], [3.0, 3.0])
    torch._foreach_mul_(many, 2.0)
    equal(many[0], [4.0] * 3)
    q = torch.ones(1, 2, 4, 8, device="npu", dtype=torch.half)
    equal(torch.nn.functional.scaled_dot_product_attention(q, q, q).float(), torch.ones(1, 2, 4, 8))


@step
def copies():
    host = torch.arange(1000.0)
    on = host.npu()
    equal(on, host)
    pinned = host.pin_memory()
    assert pinned.is_pinned()
    twice = pinned.to("npu", non_blocking=True)
    back = torch.empty(1000, pin_memory=True)
    back.copy_(twice, non_blocking=True)
    torch.npu.synchronize()
    equal(back, host)
    strided = torch.empty(1000, 2, device="npu")[:, 0]
    strided.copy_(host)
    equal(strided, host)
    equal(on.to("npu:1"), host)
    equal(on.clone().zero_(), torch.zeros(1000))
    assert on.untyped_storage().clone().nbytes() == 4000
    file = io.BytesIO()
    torch.save(on, file)
    file.seek(0)
    equal(torch.load(file), host)


@step
def streams():
    side = torch.npu.Stream(priority=-1)
    begin, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    x = torch.ones(1000, device="npu")
    begin.record()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        y = x * 2
        end.record(side)
    y.record_stream(torch.npu.current_stream())
    torch.npu.current_stream().wait_event(end)
    equal(y + 1, torch.full((1000,), 3.0))
    end.synchronize()
    assert end.query() and begin.elapsed_time(end) >= 0
    side.synchronize()
    assert side.query()
    other = torch.npu.Event(blocking=True)
    other.record()
    other.wait()
    torch.npu.synchronize()


@step
def memory():
    blocks = [torch.empty(1 << 22, device="npu") for _ in range(3)]
    for block in blocks:
        block.fill_(1)
    equal(blocks[2][-1], 1.0)
    del blocks, block
    torch.npu.empty_cache()
    assert torch.npu.memory_stats()["allocated_bytes.all.current"] == 0


@step
def training():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten())
    model.append(torch.nn.Linear(4 * 36, 3)).append(torch.nn.Dropout(0.1))
    model.npu()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("npu")
    for _ in range(2):
        with torch.autocast("npu", dtype=torch.float16):
            out = model(torch.ones(2, 1, 8, 8, device="npu"))
            loss = torch.nn.functional.cross_entropy(out, torch.tensor([0, 2]).npu())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert 0 < loss.item() < 10


@step
def graph():
    x = torch.ones(8, device="npu")
    captured = torch.npu.NPUGraph()
    with torch.npu.graph(captured):
        y = x * 3
        y.add_(1)
    captured.replay()
    equal(y, [4.0] * 8)
    x.fill_(2)
    captured.replay()
    equal(y, [7.0] * 8)
    with tempfile.TemporaryDirectory() as folder:
        captured.enable_debug_mode()
        captured.debug_dump(os.path.join(folder, "graph"))


@step
def settings():
    torch.npu.set_option({"ACL_OP_SELECT_IMPL_MODE": "high_precision"})
    torch.use_deterministic_algorithms(True)
    try:
        equal(torch.ones(3, device="npu") + 1, [2.0] * 3)
    finally:
        torch.use_deterministic_algorithms(False)
    equal(torch.ones(3, device="npu") + 2, [3.0] * 3)
    event = torch.npu.Event(enable_timing=True)
    event.record()
    event.synchronize()
    assert event.recorded_time() > 0


@step
def limits():
    chip, stream, event = torch.npu.get_device_limit(0), torch.npu.Stream(), torch.npu.ExternalEvent()
    try:
        torch.npu.set_device_limit(0, 2, 3)
        torch.npu.set_stream_limit(stream, 1)
        assert torch.npu.get_stream_limit(stream) == {"cube_core_num": 1, "vector_core_num": 3}
        with torch.npu.stream(stream):
            event.record()
            event.wait()
            event.reset()
            equal(torch.ones(3, device="npu") + 1, [2.0] * 3)
    finally:
        torch.npu.reset_stream_limit(stream)
        torch.npu.set_device_limit(0, *chip.values())


@step
def another_thread():
    failures = []

    def work():
        try:
            equal(torch.ones(4, device="npu:1").sum(), 4.0)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


@step
def restart():
    x = torch.ones(3, device="npu")
    assert torch.npu.stop_device(0) == 0
    torch.npu.restart_device(0, rebuild_all_resources=True, disable_tensor_unsafe_check=True)
    equal(x + 1, [2.0] * 3)


@step
def shared():
    event = torch.npu.Event(interprocess=True)
    event.record()
    assert len(event.ipc_handle()) > 0


@step
def group():
    import torch.distributed as dist

    import torch_npu

    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        x = torch.ones(4, device="npu")
        dist.all_reduce(x)
        assert dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(0)
        dist.broadcast(x, 0)
        out = torch.empty(4, device="npu")
        dist.all_gather_into_tensor(out, x)
        dist.reduce_scatter_tensor(out, x)
        dist.all_to_all_single(out, x)
        dist.all_to_all_single(out, x, [4], [4])
        torch_npu.distributed.all_gather_into_tensor_uneven(out, x, [4])
        torch_npu.distributed.reduce_scatter_tensor_uneven(out, x, [4])
        with dist._coalescing_manager(device=x.device):
            dist.all_reduce(x)
            dist.all_reduce(out)
        dist.reduce(x, 0)
        dist.scatter(out, [x], 0)
        dist.barrier()
        torch.npu.synchronize()
        equal(out, [1.0] * 4)
    finally:
        dist.destroy_process_group()


def main():
    found = {}
    for name, function in STEPS.items():
        found[name] = tries = []
        while len(tries) < 2:
            try:
                function()
                tries.append(["fine", ""])
                break
            except Exception as error:
                tries.append([type(error).__name__, str(error)])
                error.__traceback__ = None
    gc.collect()
    try:
        torch.npu.synchronize()
        torch.npu.synchronize(1)
    except Exception as error:
        found["end"] = [[type(error).__name__, str(error)]]
    allocated = [torch.npu.memory_allocated(0), torch.npu.memory_allocated(1)]
    print(json.dumps({"steps": found, "allocated": allocated}))


main()
