"""torch_npu.utils.custom_ops: operators from a file in the manner of npu_custom.yaml."""

from __future__ import annotations

import os
import re
import subprocess
import warnings
from pathlib import Path

import pytest
import torch

from tests import forked
from tests.extension.build import SOURCES, TOOLS, operators
from torch_npu.utils import cpp_extension, custom_ops

ONE = "custom:\n  - func: f(Tensor x) -> Tensor\n    gen_opapi:\n      out: {size: x, dtype: x}\n      exec: aclnnAbs\n"


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    return operators(tmp_path_factory.mktemp("yaml"), "npu_custom", "from_yaml")


def test_values_and_gradients_are_those_of_the_own_operator(ops):
    x = torch.linspace(-3, 3, 12, device="npu").view(3, 4).requires_grad_()
    own = x.detach().clone().requires_grad_()
    ops.fast_gelu_custom(x).square().sum().backward()
    torch.ops.npu.npu_fast_gelu(own).square().sum().backward()
    assert torch.equal(ops.fast_gelu_custom(x), torch.ops.npu.npu_fast_gelu(own))
    assert torch.equal(x.grad, own.grad)


def test_a_formula_of_pytorchs_operators(ops):
    x = torch.randn(3, 1, device="npu", requires_grad=True)
    y = torch.randn(1, 4, device="npu", requires_grad=True)
    out = ops.scaled_sum(x, y, alpha=2)
    assert torch.equal(out, x + 2 * y)
    out.sum().backward()
    assert x.grad.tolist() == [[4.0]] * 3 and y.grad.tolist() == [[6.0] * 4]


def test_an_out_variant_fits_what_its_caller_brings(ops):
    x, y, out = torch.ones(2, 3, device="npu"), torch.ones(3, device="npu"), torch.empty(0, device="npu")
    assert ops.scaled_sum(x, y, alpha=2, out=out) is out and torch.equal(out.cpu(), torch.full((2, 3), 3.0))
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype Float, but got Half instead"):
        ops.scaled_sum(x, y, out=out.half())
    assert torch.equal(ops.scaled_sum(x, y, out=torch.ones(4, device="npu")), x + y)  # resized, as PyTorch's own are
    assert ops.scaled_sum(x.to("meta"), y.to("meta"), out=torch.empty(0, device="meta")).shape == (2, 3)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers"):
        ops.scaled_sum(x, y, out=torch.empty(1, device="npu").expand(2, 3))
    compiled = torch.compile(lambda a, b, to: ops.scaled_sum(a, b, out=to), dynamic=True, backend="aot_eager")
    assert torch.equal(compiled(x, y, torch.empty(0, device="npu")), x + y)
    with pytest.raises(RuntimeError, match="derivative for from_yaml::scaled_sum is not implemented"):
        ops.scaled_sum(x.requires_grad_(), y, out=out).sum().backward()


def test_listed_sizes_and_types(ops):
    sums = ops.row_sums(torch.ones(2, 5, device="npu"), torch.float16)
    assert (sums.dtype, sums.tolist()) == (torch.float16, [5, 5])


def test_two_results(ops):
    x, gamma = torch.randn(3, 8, device="npu"), torch.rand(8, device="npu")
    y, rstd = ops.normed(x, gamma, 1e-5)
    expected, expected_rstd = torch.ops.npu.npu_rms_norm(x, gamma, 1e-5)
    assert torch.equal(y, expected) and torch.equal(rstd, expected_rstd) and rstd.shape == (3, 1)


def test_in_place(ops):
    x = torch.arange(3.0, device="npu")
    version = x._version
    assert ops.twice_(x) is x or ops.twice_(x).data_ptr() == x.data_ptr()
    assert x[1].item() in (2.0, 4.0) and x._version > version


def test_meta_has_the_same_results(ops):
    y, rstd = ops.normed(torch.empty(3, 8, device="meta"), torch.empty(8, device="meta"))
    assert (y.shape, rstd.shape, rstd.dtype) == ((3, 8), (3, 1), torch.float32)
    assert ops.row_sums(torch.empty(7, 2, device="meta"), torch.float64).shape == (7,)


def test_pytorchs_check_of_operators(ops):
    x = torch.randn(4, 3, device="npu", requires_grad=True)
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")  # the fourth knows CPU, CUDA and XPU alone
    torch.library.opcheck(ops.fast_gelu_custom.default, (x,), test_utils=checks)
    y = torch.randn(3, device="npu", requires_grad=True)
    torch.library.opcheck(ops.scaled_sum.default, (x, y), test_utils=checks)


def test_cpu_tensors_are_refused_and_missing_gradients_said(ops):
    with pytest.raises(NotImplementedError, match=r"torch.ops.from_yaml.row_sums runs on the npu only.*\.npu\(\)"):
        ops.row_sums(torch.ones(2, 2), torch.float32)
    x = torch.ones(2, 2, device="npu", requires_grad=True)
    with pytest.raises(RuntimeError, match="derivative for from_yaml::row_sums is not implemented"):
        ops.row_sums(x, torch.float32).sum().backward()


def test_rows_of_other_versions_are_left_out(ops):
    assert not hasattr(ops, "of_another_version")


def test_the_command_writes_the_source(tmp_path):
    (tmp_path / "one.yaml").write_text(ONE)
    command = ["-m", "torch_npu.utils.custom_ops", "one.yaml", "-o", "out.cpp"]
    done = forked.run(command, cwd=tmp_path)
    assert done.stdout == "out.cpp: 1 operators; build it with NpuExtension\n", done.stderr
    assert "EXEC_NPU_CMD_EXT(aclnnAbs, x_v, out_v)" in (tmp_path / "out.cpp").read_text()
    done = forked.run([*command[:-1], "no/out.cpp"], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "[Errno 2] No such file or directory: 'no/out.cpp'\n")
    (tmp_path / "one.yaml").write_text(ONE.replace("size: x", "size: z"))
    done = forked.run(command, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_the_vendors_headers_are_refused_by_name(tmp_path):
    """Those of PyTorch are not needed for it: it is the first error."""
    (tmp_path / "one.cpp").write_text(generated(tmp_path, ONE))
    done = subprocess.run(["g++", "-fsyntax-only", tmp_path / "one.cpp"], capture_output=True, text=True)
    said = "this was written for anycend's torch_npu, and these headers are another's: its own generator, torchnpugen"
    assert done.returncode and said in done.stderr


def generated(folder: Path, text: str, derivatives: str | None = None) -> str:
    (folder / "ops.yaml").write_text(text)
    if derivatives:
        (folder / "derivatives.yaml").write_text(derivatives)
    return custom_ops.generate(folder / "ops.yaml", folder / "derivatives.yaml" if derivatives else None)


def test_operators_of_the_namespace_npu_need_no_more_than_others(tmp_path):
    """The checks of ours are not installed."""
    text = generated(tmp_path, ONE)
    assert "first_device(x_v)" in text and "check_operands" not in text and "TORCH_LIBRARY_FRAGMENT(npu, m)" in text


def test_numbers_get_the_types_of_declared_functions(tmp_path):
    text = ONE.replace("Tensor x)", "Tensor x, float eps)").replace("aclnnAbs", "aclnnThreshold, x, 1, 2, out")
    assert "EXEC_NPU_CMD_EXT(aclnnThreshold, x_v, 1, 2, out_v)" in generated(tmp_path, text)
    text = ONE.replace("aclnnAbs", "aclnnReduceSum, x, at::IntArrayRef({0}), 1, at::kFloat, out")
    assert "static_cast<bool>(1)" in generated(tmp_path, text)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("size: x", "size: z"), r"ops.yaml:2: f: out: size: 'z' is neither an argument, a list such as \[x"),
        (("dtype: x", "dtype: float"), r"ops.yaml:2: f: out: dtype: 'float' is neither an argument nor a type"),
        (("aclnnAbs", "aclnnAbs, x"),
         r"aclnnAbs of CANN takes 2 values, const aclTensor\* self, aclTensor\* out; the row gives x;"),
        (("aclnnAbs", "aclnnFastGelu, out, x"),
         r"ops.yaml:2: f: exec: x is not written \(Tensor\(a!\)\), and parameter 2 "
         r"of aclnnFastGelu\(const aclTensor\* self, aclTensor\* out\) is: is the order right\? "
         r"If x is to change, write Tensor\(a!\) in its place$"),
        (("aclnnAbs", "aclnnInplaceMuls, x, at::Scalar(2)"), "x is not written .* parameter 1 of aclnnInplaceMuls"),
        (("aclnnAbs", "aclnnAbs, y, out"), "ops.yaml:2: f: exec: y is neither an argument nor a result: x, out$"),
        (("aclnnAbs", "abs"), "'abs' is no function such as aclnnAdd"),
        (("Tensor x)", "Tensor x"), "ops.yaml:2: cannot read the schema"),
        (("Tensor x)", "Tensor x, Banana b)"), "ops.yaml:2: cannot read the schema"),
        (("Tensor x)", "Tensor x, float most=1e400)"), "ops.yaml:2: f: a default value is beyond the numbers of its"),
        (("Tensor x)", "Tensor x, int most=true)"), "ops.yaml:2: f: PyTorch does not read the schema: "),
        (("Tensor x)", "Tensor x, int most=1.5)"), "ops.yaml:2: f: the default value of most, 1.5, is no int$"),
        (("Tensor x)", "Tensor x, int auto)"), "ops.yaml:2: f: the argument auto has the name of a word of C"),
        (("f(", "f\u043e("), "ops.yaml:2: f\u043e: PyTorch does not read the schema: "),
        (("Tensor x)", "Tensor x, int? n=None)"), "n is a int[?]: aclnnAbs cannot be given nothing"),
        (("-> Tensor", "-> (Tensor, Tensor)"), "2 results that are not arguments, but 1 are .* in gen_opapi: out$"),
        (("      exec", "      more: {size: x, dtype: x}\n      exec"), "1 results that .* but 2 are .*: out, more$"),
        (("      exec", "      new_params: all\n      exec"), "ops.yaml:2: f: gen_opapi: new_params: what is not `ex"),
        (("      exec", "      exce: aclnnAbs\n      exec"), "gen_opapi: exce: .* `dtype:`, not by 'aclnnAbs'"),
        (("dtype: x", "dytpe: x"), "ops.yaml:2: f: out: a result is described by `size:` and `dtype:`, not by {'"),
        (("-> Tensor", "-> int"), "results must be tensors"),
        (("custom:", "official:"), "section `official` is not for users' operators"),
        (("gen_opapi", "gen_opapy"), r"ops.yaml:2: unknown keys gen_opapy: is gen_opapi meant\?$"),
        (("    gen_opapi", "    kernel: x\n    gen_opapi"), "unknown keys kernel: a row has acl_op, exposed, func, "),
        (("exec: aclnnAbs", "structured_inherit: abs.out"), "`gen_opapi:` with `out:` and `exec: aclnnX` is needed"),
        (("    gen_opapi", "    op_api: soon\n    gen_opapi"), "op_api: 'soon' is no version"),
        (("{size: x, dtype: x}", "x"), "gen_opapi: out: what is not `exec:` .* and `dtype:`, not by 'x'"),
        (("func", "fnuc"), "ops.yaml:2: a row is `- func: <schema>` with its other keys, not {'fnuc'"),
        (("Tensor x)", "Tensor)"), "ops.yaml:2: cannot read the schema .*: 'Tensor' is no argument"),
        (("    gen_opapi", "    op_api: v2.1\n    gen_opapi"),
         r"no operator for torch 2.13: its only row is for other versions \(v2.1\): write `op_api: all_version`"),
        ((ONE.partition("\n")[2], 2 * ONE.partition("\n")[2]), r"ops.yaml:6: f is defined in line 2 as well: an ope"),
        ((ONE.partition("\n")[2], ""), r"ops.yaml: no operator for torch 2.13: it has no rows, which are `- func"),
    ],
)  # fmt: skip
def test_mistakes_name_the_line_and_what_is_wrong(tmp_path, change, error):
    with pytest.raises(ValueError, match=error):
        generated(tmp_path, ONE.replace(*change))


def test_a_function_that_nobody_declares_has_names_like_it(tmp_path):
    """A package that has it may come later."""
    said = r"^ops.yaml:2: f: neither CANN nor a package .* has aclnnFastGelo: is aclnnFastGelu meant(, aclnn\w+)*\?$"
    with pytest.warns(UserWarning, match=said):
        text = generated(tmp_path, ONE.replace("aclnnAbs", "aclnnFastGelo"))
    assert "EXEC_NPU_CMD_EXT(aclnnFastGelo, x_v, out_v)" in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        generated(tmp_path, ONE)
        generated(tmp_path, ONE.replace("aclnnAbs", "aclnnNobodyHasThis"))


def test_an_input_that_is_declared_as_what_is_written(tmp_path):
    """CANN declares aclnnGroupedMatmulFinalizeRouting's w without const, and only reads it."""
    functions = custom_ops._generator()[0].custom_functions
    header = Path(custom_ops.torch_npu.__path__[0]) / "include" / "aclnn" / "api.h"
    found, _ = functions.Functions(header, []).parameters("aclnnGroupedMatmulFinalizeRouting")
    written = [p.text for p in found if p.type.startswith("aclTensor") and not p.text.startswith("const ")]
    assert "aclTensor* w" in written and [p.text for p in found if p.is_written] == written[1:]


def test_rows_that_are_all_for_other_versions_are_counted(tmp_path):
    row = ONE.partition("\n")[2]
    rows = [row.replace("    gen_opapi", f"    op_api: {v}\n    gen_opapi") for v in ("v2.1", "'[v2.1, v2.7]'", "v2.1")]
    rows[1] = rows[1].replace("'", "")
    with pytest.raises(ValueError, match=r"all its 3 rows are for other versions \(v2.1, \['v2.1', 'v2.7'\]\): write"):
        generated(tmp_path, "custom:\n" + "".join(rows))


def test_what_is_no_text_is_named(tmp_path):
    (tmp_path / "ops.yaml").write_bytes(ONE.encode("utf-16"))
    with pytest.raises(ValueError, match="ops.yaml: is no text in UTF-8: "):
        custom_ops.generate(tmp_path / "ops.yaml")


def test_an_operator_that_is_there_already_is_named(ops, tmp_path):
    """The registration would end the process."""
    (tmp_path / "again.yaml").write_text(ONE.replace("f(", "fast_gelu_custom("))
    said = r"again.yaml:2: torch.ops.from_yaml.fast_gelu_custom is defined already, .* as another `library`"
    with pytest.raises(ValueError, match=said):
        custom_ops.load(tmp_path / "again.yaml", library="from_yaml", build_directory=str(tmp_path))
    (tmp_path / "again.yaml").write_text(ONE.replace("f(", "npu_fast_gelu("))
    with pytest.raises(ValueError, match=r"again.yaml:2: torch.ops.npu.npu_fast_gelu is defined already"):
        custom_ops.load(tmp_path / "again.yaml")


def test_an_implementation_alone_is_no_operator_yet(tmp_path):
    (tmp_path / "early.yaml").write_text(ONE)
    early = torch.library.Library("from_early", "IMPL")
    early.impl("f", lambda x: x, "CPU")
    custom_ops.load(tmp_path / "early.yaml", library="from_early", build_directory=str(tmp_path))
    assert torch.ops.from_early.f(torch.tensor([-2.0], device="npu")).tolist() == [2]
    early._destroy()


def test_what_is_loaded_and_has_not_changed_stays(ops, tmp_path):
    given = (SOURCES / "npu_custom.yaml", SOURCES / "npu_custom_derivatives.yaml")
    assert custom_ops.load(*given, library="from_yaml", build_directory=str(tmp_path)) is None


def test_the_folder_that_it_is_built_in_is_made(tmp_path, monkeypatch):
    """Where it cannot be, the error names it. The compiler is given what it does not know, and ends at once."""
    (tmp_path / "one.yaml").write_text(ONE)
    monkeypatch.setenv("PATH", TOOLS)
    wrong = {"library": "nowhere", "extra_cflags": ["-no-such-option"]}
    folder = tmp_path / "not" / "there"
    with pytest.raises(RuntimeError, match="no-such-option"):
        custom_ops.load(tmp_path / "one.yaml", build_directory=str(folder), **wrong)
    assert (folder / "npu_custom_nowhere_one.cpp").is_file()
    with pytest.raises(OSError, match="one.yaml"):
        custom_ops.load(tmp_path / "one.yaml", build_directory=str(tmp_path / "one.yaml" / "x"), **wrong)


def test_a_row_may_begin_with_any_key(tmp_path):
    text = ONE.replace(
        "  - func: f(Tensor x) -> Tensor\n", "  - op_api: all_version\n    func: f(Tensor x) -> Tensor\n"
    )
    assert "// ops.yaml:2  f(Tensor x) -> Tensor" in generated(tmp_path, text)


TWO = """\
custom:
  - func: f(Tensor x, Tensor y, int n=1) -> (Tensor, Tensor)
    gen_opapi:
      a: {size: x, dtype: x}
      b: {size: y, dtype: y}
      exec: aclnnMine
"""
FORMULAS = """\
# The formulas.
backward:
  - name: f(Tensor x, Tensor y, int n=1) -> (Tensor, Tensor)
    version: all_version
    output_differentiability: [True, False]
    x: grads[0] * result1
    y: grad * result0
"""


def test_gradients_and_results_are_those_of_the_row(tmp_path):
    text = generated(tmp_path, TWO, FORMULAS)
    assert "put(edges, next, grad_a_v * b_v);" in text and "put(edges, next, grad * a_v);" in text


def test_the_compilers_errors_name_the_line_of_the_formula(tmp_path):
    text = generated(tmp_path, TWO, FORMULAS.replace("result1", "nothing_such").replace("    y:", "\n    y :"))
    lines = text.split("\n")
    for line, formula in ((6, "grad_a_v * nothing_such"), (8, "grad * a_v")):
        at = lines.index(f'#line {line} "derivatives.yaml"')
        assert lines[at + 1 : at + 3] == [f"    put(edges, next, {formula});", f'#line {at + 4} "ops.cpp"']
    (tmp_path / "ops.cpp").write_text(text)
    includes = [flag for path in cpp_extension.include_paths() for flag in ("-isystem", path)]
    command = ["g++", "-std=c++20", "-fsyntax-only", *includes, "ops.cpp"]
    env = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=env)
    (error,) = [line for line in done.stderr.splitlines() if " error: " in line]
    assert re.match(r"derivatives.yaml:6:\d+: error: 'nothing_such' was not declared", error), error


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("backward:", "backward: ["), " while parsing"),
        (("backward:", "forward:"), " section `forward` is not for users' operators: write `backward:`"),
        (("backward:", "backward: f\nold:"), " expected sections of rows `- name: <schema>`"),
        (("- name", "- nmae"), "3: a row is `- name: <schema>` with its other keys, not {'nmae'"),
        (("  - name", "  - f\n  - name"), "3: a row is `- name: <schema>` with its other keys, not 'f'"),
        (("(Tensor x, Tensor y", "(Tensr x, Tensor y"), "3: cannot read .*: Tensr is no type of an argu"),
        (("(Tensor x, Tensor y", "(Tensor, Tensor y"), "3: cannot read .*: 'Tensor' is no argument: it"),
        (("(Tensor, Tensor)", "(Tensr, Tensor)"), "3: cannot read .*: Tensr is no type of a result"),
        (("f(Tensor x, Tensor y, int n=1) -> (Tensor, Tensor)", "f"), "3: cannot read the schema 'f'"),
        (("f(Tensor", "g(Tensor"), "3: derivatives are given for g, which ops.yaml does not define"),
        (("Tensor y", "Tensor z"), "3: f: its arguments are x, y, n in ops.yaml:2"),
        (("version: all_version", "version: v2"), "3: version: 'v2' is no version such as v2.13"),
        (("# The", "backward:\n  - name: f(T"), " 'backward' is written twice"),
        (("[True, False]", "[True]"), r"3: f: output_differentiability is \[True\]: it should be 2 of"),
        (("[True, False]", "yes please"), "3: f: output_differentiability is 'yes please': it should be"),
        (("[True, False]", "[False, True]"), "3: f: x uses the gradient of a, which has none"),
        (("grads[0]", "grads[1]"), "3: f: x uses the gradient of b, which has none"),
        (("grads[0]", "grads[2]"), r"3: f: grads\[2\]: it has 2 results, from 0 on"),
        (("grads[0]", "grads"), r"3: f: x: write `grads\[0\]`"),
        (("result1", "result2"), "3: f: result2: it has 2 results, from 0 on"),
        (("    x:", "    z:"), "3: f: z is none of its arguments, x, y, n"),
        (("    x:", "    n:"), "3: f: n is of type int: gradients are of tensors"),
        (("    x:", "    x, y:"), "3: f: y has two formulas"),
        (("grads[0] * result1", "0"), "3: f: x: 0 is no formula, which is text"),
        (("grads[0] * result1", ""), "3: f: x: None is no formula, which is text"),
        (("    y:", "    x:"), " 'x' is written twice in one mapping: lines 6 and 7"),
    ],
)  # fmt: skip
def test_mistakes_in_derivatives_name_the_line_and_what_is_wrong(tmp_path, change, error):
    assert change[0] in FORMULAS
    with pytest.raises(ValueError, match="derivatives.yaml:" + error):
        generated(tmp_path, TWO, FORMULAS.replace(*change))


def test_a_files_name_in_the_compilers_errors_is_any(tmp_path):
    for name, text in (('a "b"\\.yaml', TWO), ("d\\.yaml", FORMULAS)):
        (tmp_path / name).write_text(text)
    text = custom_ops.generate(tmp_path / 'a "b"\\.yaml', tmp_path / "d\\.yaml")
    said = [line.partition(" ")[2] for line in text.split("\n") if line.startswith("#line")]
    assert said[0] == r'6 "d\\.yaml"' and said[1].endswith(r' "a \"b\"\\.cpp"')


def test_formulas_without_a_gradient_and_formulas_given_twice(tmp_path):
    lines = FORMULAS.splitlines(keepends=True)
    with pytest.raises(ValueError, match="derivatives.yaml:3: f: no formula uses a gradient: `grad`, or"):
        generated(tmp_path, TWO, "".join(lines[:5]) + "    x: at::ones_like(x)\n    y: not_differentiable\n")
    with pytest.raises(ValueError, match="derivatives.yaml:8: f has formulas already, in line 3"):
        generated(tmp_path, TWO, FORMULAS + "".join(lines[2:]))


def test_a_library_must_be_a_name():
    with pytest.raises(ValueError, match="'a-b' cannot be a namespace"):
        custom_ops.generate(SOURCES / "npu_custom.yaml", library="a-b")
