"""Of C++ of torch_npu/csrc/ops, what it calls: functions of CANN and PyTorch's operators, also in functions of those
files that it calls. For operators_page.py.

What it is not: a compiler. A function is found by its name, all its overloads together: in the file that calls it,
else in the only one beside it, else in the only one at all, that defines it for others.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import aten_row  # noqa: E402
import npu  # noqa: E402
from cpp_text import closing  # noqa: E402

HEAD = re.compile(r"^(?!return|else)[\w:<>,&* ]*[\w>&*] [&*]?(\w+)\(", re.M)  # of a definition or declaration
HIDDEN = re.compile(r"^namespace \{", re.M)  # what stands in it is the file's own
OPENED = re.compile(r"\)\s*(?:const\s*)?\{")
# Not `std::vector<Tensor> index(2)`, which defines a name; also `linalg::f(`, and the struct of `Struct::apply(`.
CALL = re.compile(r"(?:(?<=return )|(?<![\w.:>])(?<!\w> )|(?<=linalg::))(\w+)(?:(?:<[\w:<>&* ]*>)?\(|::apply\()")
OWN = re.compile(r"\bops::(_?npu_\w+)\(")  # operators of ops/npu.yaml
STRUCT = re.compile(r"^struct (\w+)[^;{]*\{", re.M)  # of a kernel that a template of PyTorch's takes
TAKEN = re.compile(r"<(\w+)[,>]")
FUNCTION = re.compile(r"ACLNN\((\w+)\)")
FREE = re.compile(r"\bat::(?:native::|_ops::)?(\w+?)(?:_dims_out_default|_outf|_out|_symint)?[(>]")  # at::mul_out(
METHOD = re.compile(r"(?<=[\w)\]])\.(\w+)\(")  # x.mul(
DISPATCHED = re.compile(r'findSchemaOrThrow\("npu::(\w+)"')  # an operator of the plugin's own, by its name
HOST = re.compile(r'run_on_processor_or_copies\("(\w+)"')
# Operators without a row that compute by those that have one, or by a kernel of csrc/ops.
WRITTEN = """_batch_norm_with_update _fused_rms_norm _native_batch_norm_legit convolution convolution_backward copy
cross_entropy_loss ctc_loss fill index layer_norm linear lstm masked_fill matmul multi_margin_loss_backward
norm_except_dim native_batch_norm native_batch_norm_backward native_layer_norm native_layer_norm_backward
repeat_interleave scaled_dot_product_attention softmax stft tensordot unique_consecutive zero""".split()
# What copies, if it does anything.
MOVES = re.compile(r"\.(?:to|clone|contiguous|reshape)\(|\.index\(\{")
FILLS = {"copy", "fill", "zero"}  # named only where an operator does nothing else
OTHERS = {"take", "index"}  # methods of a list of results and of a device, too


@cache
def sources() -> dict[str, str]:
    paths = sorted((ROOT / "torch_npu" / "csrc" / "ops").rglob("*.cpp"))
    return {path.relative_to(ROOT).as_posix(): re.sub(r"//.*", "", path.read_text(encoding="utf-8")) for path in paths}


@cache
def bodies() -> dict[str, dict[str, str]]:
    """Function -> file that defines it -> the bodies of its overloads."""
    found: dict[str, dict[str, str]] = {}
    for path, text in sources().items():
        heads = [(head[1], OPENED.match(text, closing(text, head.end()))) for head in HEAD.finditer(text)]
        for name, opened in [*heads, *((struct[1], struct) for struct in STRUCT.finditer(text))]:
            if opened:
                inside = text[opened.end() : closing(text, opened.end())]
                files = found.setdefault(name, {})
                files[path] = f"{files.get(path, '')}\n{inside}"
    return found


@cache
def shared() -> dict[str, set[str]]:
    """Function -> the files that define it for others, too."""
    found: dict[str, set[str]] = {}
    for path, text in sources().items():
        hidden = [(start.end(), closing(text, start.end())) for start in HIDDEN.finditer(text)]
        for head in HEAD.finditer(text):
            if not any(first < head.start() < last for first, last in hidden):
                found.setdefault(head[1], set()).add(path)
    return found


@cache
def computing() -> frozenset[str]:
    """PyTorch's operators by name that a composition may be made of: not views, factories and what moves nothing."""
    rows = (row.func.partition(".")[0] for row in aten_row.rows())
    return frozenset((*rows, *WRITTEN))


def kernels(name: str) -> list[str]:
    """The C++ functions that are registered for an operator of the plugin's own."""
    return re.findall(rf'm\.impl\("{name}", &(\w+)\)', "\n".join(sources().values()))


@cache
def npus() -> frozenset[str]:
    return frozenset(row.schema.full.partition(".")[0] for row in npu.rows())


@cache
def named(text: str) -> tuple[list[str], list[str], list[str]]:
    """What a body calls: functions, functions of CANN, operators of PyTorch."""
    operators = [*FREE.findall(text), *(name for name in METHOD.findall(text) if name not in OTHERS)]
    own = [name for name in OWN.findall(text) if name in npus()]
    computed = [name for name in (name.rstrip("_") for name in operators) if name in computing()]
    registered = [kernel for name in DISPATCHED.findall(text) for kernel in kernels(name)]
    return (
        list(dict.fromkeys(CALL.findall(text) + TAKEN.findall(text) + registered)),
        FUNCTION.findall(text),
        own + computed,
    )


def reached(text: str, near: str, seen: set[str]) -> Iterable[str]:
    """The text, and the bodies of the functions of csrc/ops that it calls, and they."""
    yield text
    for name in named(text)[0]:
        files = bodies().get(name, {})
        others, beside = shared().get(name, set()), near if near.endswith("/") else near.rpartition("/")[0] + "/"
        paths = [path for path in files if path.startswith(near)] or [path for path in files if path in others]
        paths = [path for path in paths if path.startswith(beside)] or paths
        if len(paths) == 1 and name not in seen:
            seen.add(name)
            yield from reached(files[paths[0]], paths[0], seen)


def called(text: str, near: str) -> tuple[list[str], list[str]]:
    """Functions of CANN, and operators of PyTorch, that C++ calls by name; `near`: the file or folder that it is of."""
    texts = list(reached(text, near, set()))
    functions, operators = ([*dict.fromkeys(name for part in texts for name in named(part)[i])] for i in (1, 2))
    computed = [name for name in operators if name not in FILLS]
    return functions, computed or ([] if functions else operators)


def on_host(text: str, near: str) -> list[str]:
    """Operators of PyTorch's CPU library that C++ runs, on copies where the device's memory is none of the host's."""
    return list(dict.fromkeys(name for part in reached(text, near, set()) for name in HOST.findall(part)))


def copies(text: str, near: str) -> bool:
    """Whether C++ copies, of that which calls nothing by name."""
    return any(MOVES.search(part) for part in reached(text, near, set()))
