"""torch_npu.utils.custom_ops: names that C++ has already, expressions that divide, out= that overlaps an operand."""

from __future__ import annotations

import pytest
import torch

from tests.extension.build import operators
from tests.extension.test_custom_ops import FORMULAS, ONE, TWO, generated

OVERLAP = "some elements of the input tensor and the written-to tensor refer to a single memory location"


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    """The namespace is a macro of g++."""
    return operators(tmp_path_factory.mktemp("names"), "custom_names", "linux")


@pytest.mark.parametrize(
    ("name", "value"),
    [("new", 9), ("delete", 14), ("fit", 9), ("broadcast", 14), ("rethrow_named", 9), ("halved", 14)],
)
def test_names_that_cpp_has_already(ops, name, value):
    a, b = torch.tensor([[2.0], [7.0]], device="npu")
    assert getattr(ops, name)(a, b).tolist() == [value]
    assert getattr(ops, name)(a.to("meta"), b.to("meta")).shape == (1,)


@pytest.mark.parametrize(("name", "gradients"), [("new", (1, 3)), ("delete", (7, 2)), ("broadcast", (7, 2))])
def test_formulas_with_such_names(ops, name, gradients):
    """That of `new` calls an operator that has a name of custom_op.h; a and a_ are kept beside each other."""
    a, b = (torch.tensor([value], device="npu", requires_grad=True) for value in (2.0, 7.0))
    getattr(ops, name)(a, b).sum().backward()
    assert (a.grad.item(), b.grad.item()) == gradients


def test_an_error_has_the_names_of_the_row(ops, tmp_path):
    with pytest.raises(RuntimeError, match=r"^linux\.fit: "):
        ops.fit(torch.ones(3, device="npu"), torch.ones(2, device="npu"))
    assert 'rethrow_named(error, "f", "x,y,n");' in generated(tmp_path, TWO)


def test_an_overload_and_an_operator_may_become_one_name(ops):
    x, out = torch.tensor([-1.0, 2.0], device="npu"), torch.empty(2, device="npu")
    assert ops.copied.out(x, out=out) is out and out.tolist() == [1, 2]
    assert ops.copied_out(-2 * x, out=out) is out and out.tolist() == [2, 4]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("Tensor x)", "Tensor x, int and_eq)"), "the argument and_eq has the name of a word of C"),
        (("Tensor x)", "Tensor x, int thread_local)"), "the argument thread_local has the name of a word of C"),
        (("Tensor x)", "Tensor x, Tensor x)"), "two arguments have the name x$"),
        (("dtype: x}", "dtype: x, name: new}"), "the result new has the name of a word of C"),
        (("out:", "1a:"), "the result '1a' should have a name of letters, digits and _"),
        (("out:", "\u043eut:"), "the result '\u043eut' should have a name of letters, digits and _"),
        (("out:", "x:"), "the result x has the name of another result or of an argument$"),
        (("dtype: x}", "dtype: x, name: x}"), "the result x has the name of another result or of an argument$"),
        (("size: x,", "size: '[x.size(0) // 2]',"), "out: size: 'x.size.0. // 2': `//` begins a comment in C"),
        (("aclnnAbs", "'aclnnAbs, [&] { int a = 4; a /= 2; return x; }(), out'"), "write `a = a / b` for `a /= b`"),
    ],
)  # fmt: skip
def test_names_and_expressions_that_cannot_be(tmp_path, change, error):
    with pytest.raises(ValueError, match="ops.yaml:2: f: .*" + error):
        generated(tmp_path, ONE.replace(*change))


def test_two_results_of_one_name(tmp_path):
    text = TWO.replace("b: {size: y, dtype: y}", "b: {size: y, dtype: y, name: a}")
    with pytest.raises(ValueError, match="ops.yaml:2: f: the result a has the name of another result or of an arg"):
        generated(tmp_path, text)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (" n=1", " grad=1", "3: f: the argument grad cannot be told from what formulas call grad"),
        (" n=1", " result=1", "3: f: the argument result cannot be told from what formulas call result"),
        (" n=1", " grad_a=1", "3: f: the argument grad_a cannot be told from what formulas call grad_a"),
        ("a: {", "result1: {", "3: f: the result result1 cannot be told from what formulas call result1"),
        ("grad * result0", "grad // result0", "3: f: y: 'grad // a': `//` begins a comment"),
    ],
)
def test_formulas_in_which_a_name_would_be_two_things(tmp_path, old, new, error):
    with pytest.raises(ValueError, match="derivatives.yaml:" + error):
        generated(tmp_path, TWO.replace(old, new), FORMULAS.replace(old, new))


def test_what_is_no_name_stays(tmp_path):
    """Strings, members, what a namespace has, functions; a number's suffix and separator."""
    row = ONE.replace("Tensor x)", "Tensor x, int size, int at, int u)")
    text = generated(
        tmp_path,
        row.replace("aclnnAbs", "'aclnnMine, x . size(at), \"x, at\", at::zeros(size), 1u, 1''0, ''u'', f(u)'"),
    )
    assert (
        "EXEC_NPU_CMD_EXT(aclnnMine, x_v . size(at_v), \"x, at\", at::zeros(size_v), 1u, 1'0, 'u', call_f(u_v))" in text
    )


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_a_division_by_zero_is_an_error_of_the_operator(ops, device):
    x = torch.ones(6, device=device)
    assert (ops.parts(x, 4).shape, ops.parts(x, 3, 5).shape) == ((3, 12), (4, 2))
    for given, dividend in (((x, 0), 12), ((x, 1, 0), 12)):
        with pytest.raises(RuntimeError, match=rf"^linux\.parts: division of {dividend} by zero"):
            ops.parts(*given)
    with pytest.raises(RuntimeError, match=r"^linux\.parts.*: division of 6 by zero"):
        ops.parts.out(x, 0, out=torch.empty(1, device=device))
    with pytest.raises(RuntimeError, match=r"^linux\.parts.*negative dimension"):
        ops.parts(x, -2)


def test_a_division_by_zero_of_a_value_or_a_formula(ops):
    x = torch.ones(3, device="npu", requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^linux\.folded: division of 6 by zero"):
        ops.folded(x, 0)
    out = ops.folded(x, 3)
    out.sum().backward()
    assert out.tolist() == [2] * 3 and x.grad.tolist() == [3] * 3
    with pytest.raises(RuntimeError, match=r"^linux\.folded: division of 6 by zero"):
        ops.folded(x, 1).sum().backward()
    assert torch.equal(ops.parts(torch.ones(6, device="npu"), 4).cpu(), torch.full((3, 12), 3.0))


def test_the_smallest_number_by_minus_one(ops):
    """It is beyond the type, and ends a process as a division by zero does."""
    with pytest.raises(RuntimeError, match=r"^linux\.parts: division of -9223372036854775808 by -1 is beyond its type"):
        ops.parts(torch.empty(2**62, 0, device="npu"), -1)


def test_divided_sizes_stay_symbolic(ops):
    seen = []

    def backend(graph, _):
        seen.append(graph)
        return graph

    compiled = torch.compile(lambda x, k: ops.parts(x, k) + 1, backend=backend, dynamic=True)
    for n, k in ((6, 3), (8, 4), (12, 5)):
        x = torch.ones(n, device="npu")
        assert torch.equal(compiled(x, k), ops.parts(x, k) + 1)
    assert len(seen) == 1


def test_an_output_that_overlaps_an_operand_in_part_is_refused(ops):
    x = torch.arange(-8.0, 8.0, device="npu")
    square = x.view(4, 4)
    before = x.tolist()
    for call in (
        lambda: ops.copied.out(x[:-1], out=x[1:]),
        lambda: ops.copied.out(square, out=square.t()),
        lambda: ops.copied.out(square, out=x.view(2, 8)),
        lambda: ops.added.out(torch.ones(2, device="npu"), x[1:3], out=x[:2]),
        lambda: ops.joined.out([x[:2], x[8:10]], None, out=x[7:11]),
        lambda: ops.joined.out([torch.ones(2, device="npu")] * 2, x[:3], out=x[:4]),
        lambda: ops.both.out(torch.ones(2, device="npu"), a=x[:2], b=x[1:3]),
    ):
        with pytest.raises(RuntimeError, match=OVERLAP):
            call()
    assert x.tolist() == before


def test_an_output_may_be_an_operand(ops):
    x = torch.tensor([-1.0, 2.0], device="npu")
    assert ops.copied.out(x, out=x) is x and x.tolist() == [1, 2]
    assert ops.added.out(x, x[:], out=x).tolist() == [2, 4]
    both = torch.tensor([1.0, 2, 3, 4], device="npu")
    assert ops.added.out(both[:2], both[2:], out=both[2:]).tolist() == [4, 6] and both.tolist() == [1, 2, 4, 6]
    assert ops.joined.out([x, x], x, out=both).tolist() == [2, 4, 2, 4]


def test_an_operand_is_not_resized_as_an_output(ops):
    """Neither itself, as PyTorch says it, nor what lies where the output would grow to."""
    x, y = torch.ones(3, device="npu"), torch.ones(2, 3, device="npu")
    for device in ("npu", "meta"):
        x, y = x.to(device), y.to(device)
        with pytest.raises(RuntimeError, match=r"output with shape \[3\] doesn't match the shape \[2, 3\]"):
            ops.added.out(x, y, out=x)
        assert x.shape == (3,)
    rows = torch.arange(6.0, device="npu").view(2, 3)
    for row in (rows[0], rows[1]):
        with pytest.raises(RuntimeError, match=OVERLAP):
            ops.added.out(row, torch.ones(2, 3, device="npu"), out=rows[0])
    assert rows.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_overlap_in_a_compiled_function(ops):
    for dynamic in (False, True):
        compiled = torch.compile(lambda a, out: ops.copied.out(a, out=out), backend="aot_eager", dynamic=dynamic)
        x = torch.tensor([-1.0, 2.0, -3.0], device="npu")
        assert compiled(x, torch.empty(3, device="npu")).tolist() == [1, 2, 3]
