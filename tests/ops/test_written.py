"""What an operator writes: lazy conjugations and negations are written through, memory that overlaps is refused at the
call with PyTorch's error, and nothing is lost. The CPU is the judge."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.upstream import transfer, views
from torch_npu import _C

A = torch.arange(1, 5).reshape(2, 2).to(torch.complex64) * (1 + 2j)
B = A.flip(0) + 1j

# Into a lazy conjugation of `out`: operators that PyTorch hands over as they are.
CONJUGATED: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "mm": lambda a, b, out: torch.mm(a, b, out=out),
    "bmm": lambda a, b, out: torch.bmm(a[None], b[None], out=out[None]),
    "addmm": lambda a, b, out: torch.addmm(a, a, b, out=out),
    "mv": lambda a, b, out: torch.mv(a, b[0], out=out[0]),
    "conjugated inputs": lambda a, b, out: torch.mm(a.conj(), b.mH, out=out),
    "in place": lambda a, b, out: out.addmm_(a, b),
    "copy_": lambda a, b, out: out.copy_(a),
    "zero_": lambda a, b, out: out.zero_(),
}


@pytest.mark.parametrize("name", CONJUGATED)
def test_a_lazy_conjugation_is_written(name: str) -> None:
    results = []
    for device in ("cpu", "npu"):
        memory = torch.full((2, 2), 3 + 1j, dtype=torch.complex64, device=device)
        CONJUGATED[name](A.to(device), B.to(device), memory.conj())
        results.append(memory.cpu())
    torch.testing.assert_close(results[1], results[0])


def test_a_lazy_negation_is_written() -> None:
    results = []
    for device in ("cpu", "npu"):
        memory = A.to(device, copy=True)
        negated = memory.conj().imag  # a lazy negation of memory's imaginary part
        assert negated.is_neg()
        torch.mm(negated.clone(), negated, out=negated)
        negated[0].copy_(negated[1])
        results.append(memory.cpu())
    torch.testing.assert_close(results[1], results[0])


def expanded(device: str, *sizes: int) -> torch.Tensor:
    return torch.zeros(1, *sizes[1:], device=device).expand(sizes)


REFUSED: dict[str, Callable[[str], object]] = {
    "copy_ of itself, shifted": lambda d: (lambda x: x[1:].copy_(x[:-1]))(torch.arange(5.0, device=d)),
    "add_ of itself, shifted": lambda d: (lambda x: x[1:].add_(x[:-1]))(torch.arange(5.0, device=d)),
    "mm out": lambda d: torch.mm(torch.ones(3, 3, device=d), torch.ones(3, 3, device=d), out=expanded(d, 3, 3)),
    "cumsum out": lambda d: torch.cumsum(torch.ones(3, 3, device=d), 0, out=expanded(d, 3, 3)),
    "normal_": lambda d: expanded(d, 3, 3).normal_(),
    "uniform_": lambda d: expanded(d, 3, 3).uniform_(),
    "bernoulli_": lambda d: expanded(d, 3, 3).bernoulli_(torch.full((3, 3), 0.5, device=d)),
    "copy_ from the host": lambda d: expanded(d, 3, 3).copy_(torch.ones(3, 3)),
    "copy_": lambda d: expanded(d, 3, 3).copy_(torch.ones(3, 3, device=d)),
    "mul_": lambda d: expanded(d, 3, 3).mul_(2),
    "index_select out": lambda d: torch.index_select(
        torch.ones(3, 3, device=d), 0, torch.arange(3, device=d), out=expanded(d, 3, 3)
    ),
    "take out": lambda d: torch.take(torch.ones(9, device=d), torch.arange(3, device=d), out=expanded(d, 3)),
    "masked_select out": lambda d: torch.masked_select(
        torch.ones(3, device=d), torch.ones(3, device=d, dtype=torch.bool), out=expanded(d, 3)
    ),
    "kthvalue out": lambda d: (lambda x: torch.kthvalue(x, 1, out=(x, torch.empty(0, dtype=torch.long, device=d))))(
        torch.ones(3, 3, device=d)
    ),
    "cat out": lambda d: (lambda x: torch.cat([x[:2], x[2:]], out=x[1:3]))(torch.ones(4, device=d)),
    "gather out": lambda d: (lambda x: torch.gather(x, 0, torch.tensor([0, 1, 2], device=d), out=x))(
        torch.ones(3, device=d)
    ),
    "values of a wrong shape": lambda d: torch.ones(5, device=d).__setitem__(
        torch.tensor([0, 1], device=d), torch.ones(3, device=d)
    ),
    "values of a wrong shape beside a slice": lambda d: torch.ones(2, 3, 4, device=d).__setitem__(
        (torch.tensor([0, 1], device=d), slice(None), torch.tensor([0, 1], device=d)), torch.ones(3, 2, device=d)
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_written_is_an_error_of_the_call(name: str) -> None:
    with pytest.raises(RuntimeError) as on_cpu:
        REFUSED[name]("cpu")
    with pytest.raises(on_cpu.type) as raised:
        REFUSED[name]("npu")
    assert not isinstance(raised.value, torch.AcceleratorError)
    assert str(raised.value).split("\n")[0] == str(on_cpu.value).split("\n")[0]
    torch.npu.synchronize()


@pytest.mark.filterwarnings("ignore:Use of")
def test_one_value_may_be_written_into_expanded_memory() -> None:
    def write(device: str) -> list[torch.Tensor]:
        x = [expanded(device, 3, 2) for _ in range(5)]
        rows = torch.tensor([0, 1], device=device)
        x[0].fill_(2)
        x[1].fill_(5).zero_()
        x[2].masked_fill_(torch.tensor([True, False], device=device), 3)
        x[3].index_fill_(1, rows[:1], 4)
        x[4][:, rows] = 6
        return [t.cpu() for t in x]

    for got, want in zip(write("npu"), write("cpu"), strict=True):
        assert torch.equal(got, want)


def test_values_broadcast_to_what_an_index_selects() -> None:
    rows, columns = torch.tensor([[0], [1]]), torch.tensor([0, 2, 1])
    cases = [
        ((rows, columns), (2, 3)),
        ((rows, columns), (3,)),
        ((slice(None), rows, columns), (2, 2, 3)),
        ((rows, slice(None), columns), (2, 3, 3)),
        ((rows, slice(None), columns), (1, 3, 1)),
        ((torch.tensor([True, False, True]),), (2, 1, 1)),
    ]
    for index, sizes in cases:
        x = torch.zeros(3, 3, 3, 3)[..., 0]
        values = torch.arange(1.0, 1 + torch.Size(sizes).numel()).reshape(sizes)
        try:
            want = x.clone()
            want[index] = values
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match="shape mismatch"):
                x.npu()[tuple(i.npu() if isinstance(i, torch.Tensor) else i for i in index)] = values.npu()
            assert "shape mismatch" in str(error)
            continue
        got = x.npu()
        got[tuple(i.npu() if isinstance(i, torch.Tensor) else i for i in index)] = values.npu()
        assert torch.equal(got.cpu(), want)


def test_each_of_many_operands_is_compared() -> None:
    """Of an operator with five outputs and three inputs, by two of those that the caller gives."""
    x, memory = torch.ones(4, 6, device="npu"), torch.ones(40, device="npu")
    a, b, c = memory[:6], memory[6:12], memory[12:18]

    def train(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor, *of: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.batch_norm(x, mean, var, *of, training=True)

    train(x, a, b, c)
    for wrong in ((memory[:24].view(4, 6), memory[20:26], b), (x, a, b, memory[3:9]), (x, a, b, c, memory[8:14])):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
            train(*wrong)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        train(x, a, memory[30:31].expand(6), c)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        train(x, torch.ones(6), b, c)


def test_what_is_copied_by_index_may_be_a_part_of_the_tensor_itself() -> None:
    """CANN calls the tensor written; it is not."""
    for x in (torch.arange(6.0).view(2, 3), torch.arange(3.0).expand(2, 3), torch.arange(6.0).view(3, 2).t()):
        ours, kept = x.npu(), x.clone()
        found = ours.index_copy(0, torch.tensor([1]).npu(), ours[:1])
        assert torch.equal(found.cpu(), x.index_copy(0, torch.tensor([1]), x[:1])) and torch.equal(ours.cpu(), kept)
    rows = torch.ones(2, 3).npu()
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        torch.index_copy(rows, 0, torch.tensor([1]).npu(), rows[:1], out=rows)


def test_an_output_on_another_device_is_refused() -> None:
    with pytest.raises(RuntimeError, match="device"):
        torch.dot(torch.ones(3).npu(), torch.ones(3).npu(), out=torch.empty(()))
    with pytest.raises(RuntimeError, match="device"):
        torch.mm(torch.ones(2, 2).npu(), torch.ones(2, 2).npu(), out=torch.ones(2, 2, device="npu:1"))
    assert _C._fallback_counts() == {}


# Into outputs of any strides: operators whose CPU kernels write as if they were contiguous, so that the judge is the
# CPU's result without `out=`.
STRIDED: dict[str, Callable[..., torch.Tensor]] = {
    "gelu": lambda x, **out: torch._C._nn.gelu(x, **out),
    "gelu, tanh": lambda x, **out: torch._C._nn.gelu(x, approximate="tanh", **out),
    "avg_pool3d": lambda x, **out: torch._C._nn.avg_pool3d(x, 2, **out),
    "replication_pad2d": lambda x, **out: torch._C._nn.replication_pad2d(x[0], (1, 2, -1, 0), **out),
    "replication_pad3d": lambda x, **out: torch._C._nn.replication_pad3d(x, (1, 2, -1, 0, 1, 1), **out),
    "reflection_pad2d": lambda x, **out: torch._C._nn.reflection_pad2d(x[0], (1, 2, 1, 0), **out),
    "narrow_copy": lambda x, **out: torch.narrow_copy(x, 1, 1, 2, **out),
}


@pytest.mark.parametrize("view", [views.permuted, views.offset, lambda x: x], ids=["permuted", "offset", "plain"])
@pytest.mark.parametrize("name", STRIDED)
def test_outputs_of_any_strides_are_written(name: str, view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    call, x = STRIDED[name], torch.randn(2, 3, 4, 4, 4)
    for layout in (x, x.contiguous(memory_format=torch.channels_last_3d), views.permuted(x)):
        expected = call(layout)
        out = transfer.on_device(view(torch.empty(expected.shape)), "npu")
        torch.testing.assert_close(call(transfer.on_device(layout, "npu"), out=out).cpu(), expected)


@pytest.mark.parametrize("name", ["max", "min", "angle", "logsumexp", "nansum"])
def test_a_result_is_cast_to_the_type_of_its_output(name: str) -> None:
    arguments = {"logsumexp": {"dim": 1}, "nansum": {"dim": 1}}.get(name, {})
    x, results = torch.randn(3, 4), []
    for device in ("cpu", "npu"):
        out = torch.empty(0, dtype=torch.float64, device=device)
        results.append(getattr(torch, name)(x.to(device), **arguments, out=out).cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["abs", "conj_physical", "logsigmoid", "where"])
def test_outputs_of_another_type_are_refused_as_on_the_cpu(name: str) -> None:
    calls = {"where": lambda x, out: torch.where(x > 0, x, x, out=out), "logsigmoid": torch._C._nn.log_sigmoid}
    for device in ("cpu", "npu"):
        out = torch.empty(3, dtype=torch.float64, device=device)
        with pytest.raises(RuntimeError, match="Double"):
            calls.get(name, getattr(torch, name, None))(torch.ones(3, device=device), out=out)


def test_a_lazy_conjugation_is_conjugated_in_place() -> None:
    memory = A.npu()
    memory.conj().conj_physical_()
    assert memory.tolist() == A.conj().tolist()


@pytest.mark.parametrize("reduce", [torch.median, torch.nanmedian])
def test_the_median_of_one_element_expanded(reduce: Callable) -> None:
    x = torch.tensor([[3.0], [1.0]])
    values, indices = reduce(x.npu().expand(2, 5), 1)
    assert values.tolist() == [3, 1]
    assert (indices.cpu() < 5).all()


# Into an input, which has another shape than the result.
INTO_ITSELF: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "histc": lambda x, out: torch.histc(x, 3, 1, 16, out=out),
    "sum": lambda x, out: torch.sum(x, 0, out=out),
    "mean": lambda x, out: torch.mean(x, 0, out=out),
    "amax": lambda x, out: torch.amax(x, 0, out=out),
    "prod": lambda x, out: torch.prod(x, 0, out=out),
    "var": lambda x, out: torch.var(x, 0, out=out),
    "nansum": lambda x, out: torch.nansum(x, 0, out=out),
    "logsumexp": lambda x, out: torch.logsumexp(x, 1, keepdim=True, out=out),
    "vector_norm": lambda x, out: torch.linalg.vector_norm(x, 2, 0, out=out),
    "mm": lambda x, out: torch.mm(x[:2], x, out=out),
    "addmm": lambda x, out: torch.addmm(x[:2], x[:2], x, out=out),
    "mv": lambda x, out: torch.mv(x, x[0], out=out),
}


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("name", INTO_ITSELF)
def test_an_input_is_read_before_it_is_resized_as_out(name: str) -> None:
    x = torch.arange(1.0, 17).view(4, 4)
    want = torch.empty(0)
    INTO_ITSELF[name](x, want)
    got = x.npu()
    address = got.untyped_storage().data_ptr()
    INTO_ITSELF[name](got, got)
    torch.testing.assert_close(got.cpu(), want)
    assert got.numel() > x.numel() or got.untyped_storage().data_ptr() == address


def test_a_number_that_promotes_changes_the_result() -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    got = x.npu() ** (1 + 1j)
    assert got.dtype == torch.complex64
    torch.testing.assert_close(got.cpu(), x ** (1 + 1j))


def test_an_input_of_repeated_elements_is_read() -> None:
    """aclnnIndexCopy calls its input one that it may write."""
    x, index, source = torch.arange(5.0).expand(3, 5), torch.tensor([1]), torch.full((1, 5), 9.0)
    got = torch.index_copy(x.npu(), 0, index.npu(), source.npu())
    torch.testing.assert_close(got.cpu(), torch.index_copy(x, 0, index, source), check_stride=True)


@pytest.mark.parametrize("name", ["tril_", "triu_"])
def test_a_batch_of_permuted_matrices_is_written_in_place(name: str) -> None:
    """ATen's kernel goes through an output that is not contiguous by the strides of one that is, and past its end."""
    for shape in ((2, 3, 4, 4), (2, 1, 4, 5), (3, 4)):
        values = torch.arange(1.0, 1 + torch.Size(shape).numel()).view(shape[::-1])
        backwards = range(len(shape))[::-1]
        for offset in (-1, 0, 2):
            want, got = values.clone().permute(*backwards), values.npu().permute(*backwards)
            getattr(want, name)(offset)
            getattr(got, name)(offset)
            assert torch.equal(got.cpu(), want)
            out = torch.zeros(shape[::-1], device="npu").permute(*backwards)
            getattr(torch, name[:-1])(values.npu().permute(*backwards), offset, out=out)
            assert torch.equal(out.cpu(), want)


@pytest.mark.parametrize("reduce", [torch.any, torch.all])
def test_truth_over_dimensions_is_written_into_bool_or_bytes(reduce: Callable) -> None:
    x = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    for dtype in (torch.bool, torch.uint8):
        outs = [torch.zeros((), dtype=dtype, device=device) for device in ("cpu", "npu")]
        reduce(x, dim=(0, 1), out=outs[0])
        reduce(x.npu(), dim=(0, 1), out=outs[1])
        assert outs[0].item() == outs[1].item()
    with pytest.raises(RuntimeError, match="only supports bool tensor for result, got: Float"):
        reduce(x.npu(), dim=(0, 1), out=torch.zeros((), device="npu"))


def test_nothing_is_put_into_repeated_elements() -> None:
    index, source = torch.zeros(0, dtype=torch.long, device="npu"), torch.zeros(0, device="npu")
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.zeros(1, 3).npu().expand(4, 3).put_(index, source)


def test_views_of_a_storage_without_bytes_are_refused():
    x = torch.ones(4, device="npu")
    a, b = x[:2], x[2:]
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="no address"):
        a.add_(b)


@pytest.mark.parametrize("form", ["add_", "mul_", "sub_"])
def test_views_of_a_storage_without_bytes_overlap(form):
    x = torch.ones(10, device="npu")
    a, b = x[:5], x[1:6]
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        getattr(a, form)(b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.complex64, torch.bool], ids=str)
@pytest.mark.parametrize(
    "view", [lambda x: x, lambda x: x[1:, 1:].t(), lambda x: x[0, 0].expand(3)], ids=["whole", "part", "expanded"]
)
def test_what_is_cloned_lazily_has_memory_of_its_own(view, dtype):
    cpu = view(torch.arange(12).reshape(3, 4).to(dtype))
    x = view(torch.arange(12).reshape(3, 4).to(dtype).npu())
    y = torch._lazy_clone(x)
    assert (y.size(), y.stride(), y.storage_offset()) == (cpu.size(), cpu.stride(), cpu.storage_offset())
    x.copy_(torch.zeros_like(cpu)) if x.stride(0) else x.untyped_storage().fill_(0)
    assert torch.equal(y.cpu(), cpu)
    y.copy_(torch.ones_like(cpu)) if y.stride(0) else y.untyped_storage().fill_(1)
    assert torch.equal(x.cpu(), torch.zeros_like(cpu))


@pytest.mark.parametrize("bytes", [0, 12])
def test_a_lazy_clone_has_no_more_bytes_than_the_storage(bytes):
    x = torch.arange(4.0, device="npu")
    x.untyped_storage().resize_(bytes)
    assert torch._lazy_clone(x).untyped_storage().nbytes() == bytes
