"""Attention and experts on workers of their own, whose context holds addresses; checks of silent corruption; marks; and
what is refused by name. References are written from the vendor's pages.
"""

from __future__ import annotations

import math
import struct
import threading
import time

import pytest
import torch

import torch_npu

SESSIONS, MICRO_BATCHES, TOKENS, CHOICES, COLUMNS = 2, 2, 3, 2, 8
SPACE = 512  # of a token


class Context:
    """A ScheduleContext by its fields' places in the pages' struct, and the tensors whose addresses it holds."""

    def __init__(self, **sizes: int) -> None:
        given = {"sessions": SESSIONS, "micro_batches": MICRO_BATCHES, "space": SPACE} | sizes
        self.held: list[torch.Tensor] = []
        self.bytes = torch.zeros(1024, dtype=torch.int8)
        self.put(
            0, "7I", given["sessions"], given["micro_batches"], TOKENS, CHOICES, 16, given["space"], given["space"]
        )
        self.put(128, "i", 1)  # running

    def put(self, at: int, layout: str, *values: float) -> None:
        data = struct.pack(f"<{layout}", *values)
        self.bytes[at : at + len(data)] = torch.frombuffer(bytearray(data), dtype=torch.int8)

    def point(self, at: int, tensor: torch.Tensor) -> torch.Tensor:
        self.held.append(device := tensor.npu())
        self.put(at, "QQ", device.data_ptr(), device.nbytes)
        return device

    def npu(self) -> torch.Tensor:
        return self.bytes.npu()


def number(context: torch.Tensor, at: int, layout: str = "I") -> int:
    return struct.unpack_from(f"<{layout}", bytes(context.cpu().view(torch.uint8).tolist()), at)[0]


def results(dtype: torch.dtype, ready: int) -> tuple[Context, torch.Tensor]:
    """Of experts, at an attention worker: tokens of each micro batch, of which `ready` is the last."""
    torch.manual_seed(3)
    context = Context()
    tokens = torch.randn(MICRO_BATCHES, TOKENS, CHOICES, SPACE // 2).to(dtype)
    context.point(272, tokens)
    context.put(288, "I", ready)
    return context, tokens[..., :COLUMNS]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_results_of_experts_are_combined(dtype):
    context, tokens = results(dtype, ready=1)
    scales, layer = torch.rand(TOKENS, CHOICES), torch.tensor([4], dtype=torch.int32)
    given = {"token_dtype": int(dtype == torch.bfloat16)}
    y, after = torch_npu.npu_attention_worker_combine(context.npu(), scales.npu(), layer.npu(), COLUMNS, **given)
    want = torch.einsum("tk,tkh->th", scales.double(), tokens[1].double()).to(dtype)
    assert y.dtype == dtype and after.tolist() == [5]
    torch.testing.assert_close(y.cpu(), want, rtol=1e-2 if dtype == torch.bfloat16 else 1e-3, atol=1e-3)


def test_a_worker_waits_for_its_experts():
    """need_schedule: until another thread has set the last flag of the micro batch behind the last ready one."""
    context, tokens = results(torch.float16, ready=0)
    flags = torch.ones(MICRO_BATCHES, TOKENS * CHOICES, dtype=torch.int32)
    flags[1, 3] = 0
    flags, last, stream = context.point(256, flags), torch.ones(1, dtype=torch.int32).npu(), torch.npu.Stream()
    scales, layer, device = torch.ones(TOKENS, CHOICES).npu(), torch.zeros(1, dtype=torch.int32).npu(), context.npu()
    torch.npu.synchronize()
    with torch.npu.stream(stream):
        y, _ = torch_npu.npu_attention_worker_combine(device, scales, layer, COLUMNS, need_schedule=1)
    time.sleep(0.05)
    assert not stream.query()
    flags[1, 3:4].copy_(last)
    stream.synchronize()
    torch.testing.assert_close(y.cpu(), tokens[1].float().sum(1).half(), rtol=1e-3, atol=1e-3)
    assert flags.tolist() == [[1] * 6, [0] * 6] and number(device, 288) == 1


def test_schedulers_leave_a_context_that_does_not_run():
    context = Context()
    context.put(128, "i", 0)
    flags = context.point(256, torch.zeros(MICRO_BATCHES, TOKENS * CHOICES, dtype=torch.int32))
    device = context.npu()
    assert torch_npu.attention_worker_scheduler(device).tolist() == device.tolist()
    assert torch_npu.attention_worker_scheduler_(device) is device and device.tolist() == context.bytes.tolist()
    assert flags.count_nonzero().item() == 0


def sent(context: Context, marks: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """What attention workers send: marks, layers and experts, and tokens."""
    generator = torch.Generator().manual_seed(5)
    sessions = len(marks)
    info = torch.randint(-1, 3, (sessions, MICRO_BATCHES, 2 + TOKENS * CHOICES), generator=generator).int()
    info[:, :, 0] = torch.tensor(marks).int()
    info[:, :, 1] = torch.arange(sessions).view(-1, 1).int()
    return context.point(384, info), info


def lists(context: Context, sessions: int) -> list[torch.Tensor]:
    sizes = (sessions, sessions, sessions, sessions * TOKENS * CHOICES)
    return [context.point(512 + 16 * i, torch.full((n,), -7, dtype=torch.int32)) for i, n in enumerate(sizes)]


@pytest.mark.parametrize(
    ("group", "marks", "polling", "want"),
    [
        (2, [[0, 1], [1, 1]], 1, [(0, 1), (1, 1)]),  # one group: the next micro batch of all
        (1, [[0, 1], [0, 0]], 0, [(0, 1)]),  # of each group what is ready
        (1, [[1, 1], [0, 1]], 0, [(0, 0), (1, 1)]),
    ],
)
def test_tokens_of_sessions_are_listed(group, marks, polling, want):
    context = Context()
    context.put(416, "Q", polling)
    device_info, info = sent(context, marks)
    layers, sessions, micro_batches, experts = lists(context, SESSIONS)
    device = context.npu()
    assert torch_npu.ffn_worker_scheduler_(device, sync_group_size=group) is device
    n = len(want)
    assert number(device, 576) == n
    assert list(zip(sessions.tolist()[:n], micro_batches.tolist()[:n], strict=True)) == want
    assert layers.tolist()[:n] == [info[s, m, 1].item() for s, m in want]
    assert experts.view(SESSIONS, -1)[:n].tolist() == [info[s, m, 2:].tolist() for s, m in want]
    left = torch.tensor(marks)
    for place in want:
        left[place] = 0
    assert device_info[:, :, 0].tolist() == left.tolist()
    assert number(device, 416, "Q") == ((polling + 1) % MICRO_BATCHES if group == SESSIONS else polling)


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize(("layers", "schedule"), [(0, 0), (2, 1)])
def test_tokens_are_sorted_by_expert(kind, layers, schedule):
    dtype = (torch.float16, torch.bfloat16, torch.int8)[kind]
    context = Context()
    _, info = sent(context, [[1, 1], [1, 1]])
    lists(context, SESSIONS)
    generator = torch.Generator().manual_seed(9)
    data = torch.randint(-99, 99, (SESSIONS, MICRO_BATCHES, TOKENS, CHOICES, SPACE), generator=generator).to(torch.int8)
    if kind < 2:
        data = torch.randn(data.shape[:-1] + (SPACE // 2,), generator=generator).to(dtype).view(torch.int8)
    else:
        data[..., COLUMNS : COLUMNS + 4] = torch.rand(data.shape[:-1] + (1,), generator=generator).view(torch.int8)
    context.point(400, data)
    device = context.npu()
    if not schedule:
        device = torch_npu.ffn_worker_scheduler(device, sync_group_size=SESSIONS)
    experts = 6
    most = [SESSIONS, TOKENS, CHOICES, COLUMNS]
    got = torch_npu.npu_ffn_worker_batching(
        device, experts, most, token_dtype=kind, need_schedule=schedule, layer_num=layers
    )
    y, groups, sessions, micro_batches, tokens, places, scale, count = (t.cpu() for t in got)

    # From the page: a stable sort of the expert numbers, of which those without an expert are left out.
    found = []
    for s in range(SESSIONS):
        layer = info[s, 0, 1].item()
        for i, e in enumerate(info[s, 0, 2:].tolist()):
            if 0 <= e:
                found.append((e + (layer * experts // layers if layers else 0), s, i // CHOICES, i % CHOICES))
    found.sort(key=lambda row: row[0])
    rows = SESSIONS * TOKENS * CHOICES
    assert count.tolist() == [len(found)] and y.shape == (rows, COLUMNS) and y.dtype == dtype
    pad = [0] * (rows - len(found))
    assert sessions.tolist() == [row[1] for row in found] + pad and micro_batches.tolist() == [0] * rows
    assert tokens.tolist() == [row[2] for row in found] + pad and places.tolist() == [row[3] for row in found] + pad
    numbers = [row[0] for row in found]
    used = [[e, numbers.count(e)] for e in sorted(set(numbers))]
    assert groups.tolist() == used + [[0, 0]] * (experts - len(used))
    want = torch.stack([data[s, 0, t, k] for _, s, t, k in found])
    assert torch.equal(y[: len(found)], want[:, : COLUMNS * y.itemsize].contiguous().view(dtype))
    assert y[len(found) :].count_nonzero().item() == 0
    if kind == 2:
        assert torch.equal(scale[: len(found)], want[:, COLUMNS : COLUMNS + 4].contiguous().view(torch.float32)[:, 0])
    else:
        assert scale.shape == (0,)


def test_a_smaller_space_than_a_token_is_the_next_multiple_of_512():
    """As in the pages' examples, whose contexts say 512 of tokens of 8192 bytes."""
    context, columns = Context(space=512), 300
    tokens = torch.randn(MICRO_BATCHES, TOKENS, CHOICES, 512).half()  # 1024 bytes each, of which 600 count
    context.point(272, tokens)
    scales, layer = torch.ones(TOKENS, CHOICES).npu(), torch.zeros(1, dtype=torch.int32).npu()
    y, _ = torch_npu.npu_attention_worker_combine(context.npu(), scales, layer, columns)
    torch.testing.assert_close(y.cpu(), tokens[0, ..., :columns].float().sum(1).half(), rtol=1e-3, atol=1e-3)


def test_addresses_that_are_none_of_the_device_are_refused():
    context, layer = Context(), torch.zeros(1, dtype=torch.int32).npu()
    host = torch.zeros(4096)
    for tensor, said in ((None, "token_data_buf is at 0"), (host, "is not in the device's memory")):
        if tensor is not None:
            context.put(272, "QQ", tensor.data_ptr(), tensor.nbytes)
        with pytest.raises(RuntimeError, match=said):
            torch_npu.npu_attention_worker_combine(context.npu(), torch.ones(TOKENS, CHOICES).npu(), layer, COLUMNS)
            torch.npu.synchronize()
    context.point(272, torch.zeros(64, dtype=torch.int8))
    context.put(24, "I", 1 << 28)
    with pytest.raises(RuntimeError, match="token_data_buf needs 1610612736 bytes"):
        torch_npu.npu_attention_worker_combine(context.npu(), torch.ones(TOKENS, CHOICES).npu(), layer, COLUMNS)
        torch.npu.synchronize()


def test_wrong_arguments_of_workers():
    context = Context().npu()
    for call, said in (
        (lambda: torch_npu.ffn_worker_scheduler_(context, execute_mode=1), "execute_mode"),
        (lambda: torch_npu.npu_ffn_worker_batching(context, 0, [1, 1, 1, 1]), "expert_num is 0"),
        (lambda: torch_npu.npu_ffn_worker_batching(context, 4, [1, 1, 65, 1]), "max_out_shape is"),
        (lambda: torch_npu.npu_ffn_worker_batching(context, 4, [1, 1, 1, 1], layer_num=3), "layer_num is 3"),
        (lambda: torch_npu.attention_worker_scheduler_(context[:8]), "1024"),
    ):
        with pytest.raises((ValueError, RuntimeError, NotImplementedError), match=said):
            call()


def one(value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor([value], dtype=dtype).npu()


LIMITS = {"c_min_steps": 3, "c_thresh_l1": 1000.0, "c_coeff_l1": 50.0, "c_thresh_l2": 100.0, "c_coeff_l2": 5.0}


def judged_by_jumps(x: float, seen: list[float], step: int) -> int:
    jump = abs(x - seen[0]) / (seen[2] - seen[1]) if seen[2] > seen[1] else math.inf * abs(x - seen[0])
    jump = jump if step >= LIMITS["c_min_steps"] and not math.isnan(jump) else 0
    if not math.isfinite(x) or x > LIMITS["c_thresh_l1"] or jump > LIMITS["c_coeff_l1"]:
        return 1
    return 2 if x > LIMITS["c_thresh_l2"] or jump > LIMITS["c_coeff_l2"] else 0


def test_a_silent_check_by_jumps():
    """Both forms, number by number: levels and the history, which no fault by itself enters."""
    seen, step, parts = torch.zeros(3).npu(), one(0, torch.int64), [one(0) for _ in range(3)]
    history, gradient = [0.0, 0.0, 0.0], torch.ones(2, 3).npu()
    levels, n = [], 0
    for x in [
        math.nan,
        2.0,
        2.5,
        math.inf,
        1.5,
        2.25,
        8.0,
        90.0,
        150.0,
        2000.0,
        5.0,
        math.inf,
        -math.inf,
        math.nan,
        1e6,
        5.0,
    ]:
        want = judged_by_jumps(x, history, n)
        got = torch_npu._npu_silent_check_v2(one(x), gradient, seen, step, **LIMITS, npu_asd_detect=1)
        former = torch_npu._npu_silent_check(gradient, one(x), *parts, one(n, torch.int32), **LIMITS)
        assert got.tolist() == former.tolist() == [want] and got.dtype == torch.int32
        if math.isfinite(x) and x <= LIMITS["c_thresh_l1"]:
            history = [x, x if n == 0 else min(x, history[1]), x if n == 0 else max(x, history[2])]
            n += 1
        assert seen.tolist() == history == [part.item() for part in parts] and step.item() == n
        levels.append(want)
    assert set(levels) == {0, 1, 2} and gradient.min().item() == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_silent_check_by_the_mean(dtype):
    """Neither inf nor nan enters the average: no later fault would be found."""
    average, step, gradient = one(4, dtype), one(0, torch.int64), torch.ones(2, 3).npu()
    kept, beta, n = 4.0, 0.75, 0
    given = {"c_thresh_l1": 8.0, "c_thresh_l2": 2.0, "betal": beta, "npu_asd_detect": 1}
    levels = []
    for x in [math.inf, 4.0, 4.5, 3.0, 20.0, 4.0, 200.0, math.nan, 2.0**20, 4.0, -math.inf, 2.0**30]:
        mean = kept if n == 0 else kept / (1 - beta**n)
        want = 1 if not math.isfinite(x) or x > 8 * mean else 2 if x > 2 * mean else 0
        got = torch_npu._npu_silent_check_v3(one(x, dtype), gradient, step, one(9, dtype), average, **given)
        levels.append(want)
        if math.isfinite(x):
            kept = torch.tensor(beta * kept + (1 - beta) * x, dtype=dtype).item()
            n += 1
        assert got.tolist() == [want] and step.item() == n and average.item() == pytest.approx(kept)
    assert set(levels) == {0, 1, 2} and levels[-1] == 1 and gradient.min().item() == 1


@pytest.mark.parametrize("detect", [2, 3])
def test_a_fault_ends_the_stream(detect):
    """And leaves the history; at step 0 the gradient becomes zero."""
    average, step, gradient = one(1), one(0, torch.int64), torch.ones(2, 3).npu()
    given = {"c_thresh_l1": 8.0, "c_thresh_l2": 2.0, "betal": 0.75, "npu_asd_detect": detect}
    with pytest.raises(RuntimeError, match="silent data corruption: value 100 at step 0"):
        torch_npu._npu_silent_check_v3(one(100), gradient, step, one(9), average, **given)
        torch.npu.synchronize()
    assert (average.item(), step.item(), gradient.count_nonzero().item()) == (1, 0, 0)
    with pytest.raises(NotImplementedError, match="npu_asd_detect 4"):
        torch_npu._npu_silent_check_v3(one(1), gradient, step, one(9), average, **given | {"npu_asd_detect": 4})


def test_a_thread_stops_a_worker_that_waits():
    context = Context()
    context.point(256, torch.zeros(MICRO_BATCHES, TOKENS * CHOICES, dtype=torch.int32))
    device, stream, stop = context.npu(), torch.npu.Stream(), torch.zeros(4, dtype=torch.int8).npu()
    torch.npu.synchronize()
    with torch.npu.stream(stream):
        torch_npu.attention_worker_scheduler_(device)
    thread = threading.Thread(target=lambda: (time.sleep(0.05), device[128:132].copy_(stop)))
    thread.start()
    stream.synchronize()
    thread.join()
    assert number(device, 288) == 0


REFUSED = {
    "npu_fused_attention_score": "sizes of the result.*use npu_fusion_attention",
    "npu_attention_to_ffn": "where in the receiver's memory",
    "obfuscation_finalize": "no documentation",
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_operator_that_is_not_implemented_says_why(name):
    """torch_npu has no such name, for programs that look; torch.ops.npu has the schema, and says it on every device."""
    assert not hasattr(torch_npu, name)
    operator = getattr(torch.ops.npu, name)
    kinds = {"Tensor": torch.ones(2), "int": 1, "float": 1.0, "number": 1.0, "str": "g", "List[int]": [1, 1, 1]}
    for device in ("npu", "meta", "cpu"):
        given = [kinds[str(a.type)] for a in operator.default._schema.arguments if not a.has_default_value()]
        given = [t.to(device) if isinstance(t, torch.Tensor) else t for t in given]
        with pytest.raises(NotImplementedError, match=rf"npu::{name} is not implemented: .*{REFUSED[name]}"):
            operator(*given)
