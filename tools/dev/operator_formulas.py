"""What PyTorch's operators compute, in a cell: the page of PyTorch that has the formula, with a composed one's
expression; of those without a page what they are the gradient of, or what ops/aclnn.yaml runs. For operators_page.py.

What PyTorch has pages of is read from the docstrings in the text of the installed torch, which is not imported.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import npu_reads  # noqa: E402

DOCS = "https://docs.pytorch.org/docs/2.13"
SCHEMAS = "https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/native_functions.yaml"
FUNCTION = r"^(?:def )?([a-z]\w+)(?: = (?:_add_docstr|boolean_dispatch)|\()"
# Module, its file, what names a function with a page there, and what its operators' names begin with.
PLACES = (
    ("torch", "_torch_docs.py", r"add_docstr\(\s*torch\.(\w+)", ""),
    ("torch", "functional.py", FUNCTION, ""),
    ("torch.linalg", "linalg/__init__.py", r"^(\w+) = _add_docstr", "linalg_"),
    ("torch.special", "special/__init__.py", r"^(\w+) = _add_docstr", "special_"),
    ("torch.nn.functional", "nn/functional.py", FUNCTION, ""),
    ("torch.Tensor", "_tensor_docs.py", r'add_docstr_all\(\s*"(\w+)"', ""),
)
# Operators that PyTorch's pages call otherwise -> the page. `*` is any ending; the first that fits counts.
OTHERWISE = {
    "__ilshift__ __lshift__": "torch.bitwise_left_shift",
    "__irshift__ __rshift__": "torch.bitwise_right_shift",
    "_adaptive_avg_pool2d": "torch.nn.functional.adaptive_avg_pool2d",
    "_batch_norm_with_update _native_batch_norm_legit native_batch_norm": "torch.nn.functional.batch_norm",
    "batch_norm_*": "torch.nn.SyncBatchNorm",
    "_copy_from*": "torch.Tensor.copy_",
    "_efficientzerotensor": "torch.zeros",
    "_embedding_bag*": "torch.nn.functional.embedding_bag",
    "_fft_c2c": "torch.fft.fftn",
    "_fft_c2r": "torch.fft.irfftn",
    "_fft_r2c": "torch.fft.rfftn",
    "_fused_adagrad_": "torch.optim.Adagrad",
    "_fused_adam_": "torch.optim.Adam",
    "_fused_adamw_": "torch.optim.AdamW",
    "_fused_sgd_": "torch.optim.SGD",
    "_histogramdd_*": "torch.histogramdd",
    "_local_scalar_dense": "torch.Tensor.item",
    "_native_multi_head_attention": "torch.nn.MultiheadAttention",
    "_reshape_alias": "torch.Tensor.view",
    "_resize_output_": "torch.Tensor.resize_",
    "_thnn_fused_gru_cell": "torch.nn.GRUCell",
    "_thnn_fused_lstm_cell": "torch.nn.LSTMCell",
    "_transformer_encoder_layer_fwd": "torch.nn.TransformerEncoderLayer",
    "_unique _unique2 unique_dim": "torch.unique",
    "_upsample_* upsample_*": "torch.nn.functional.interpolate",
    "_weight_norm_interface": "torch.nn.utils.weight_norm",
    "clamp_max clamp_min": "torch.clamp",
    "col2im": "torch.nn.functional.fold",
    "constant_pad_nd reflection_pad* replication_pad*": "torch.nn.functional.pad",
    "convolution_overrideable": "torch.nn.functional.conv2d",
    "cross_entropy_loss": "torch.nn.functional.cross_entropy",
    "embedding_renorm_": "torch.nn.functional.embedding",
    "grid_sampler_*": "torch.nn.functional.grid_sample",
    "im2col": "torch.nn.functional.unfold",
    "log_sigmoid_forward": "torch.nn.functional.logsigmoid",
    "max_pool2d_with_indices": "torch.nn.functional.max_pool2d",
    "max_pool3d_with_indices": "torch.nn.functional.max_pool3d",
    "nll_loss2d_forward": "torch.nn.functional.nll_loss",
    "norm": "torch.linalg.vector_norm",
    "rrelu_with_noise*": "torch.nn.functional.rrelu",
    "threshold": "torch.nn.functional.threshold",
    "unfold": "torch.Tensor.unfold",
}
# Functions with a docstring that PyTorch's pages leave out; what its lists of pages have is in its docs/source.
UNLISTED = re.compile(
    r"torch\.special\.(?:bessel_y|chebyshev_|hermite_|laguerre_|legendre_|modified_bessel_|shifted_).*"
    r"|torch\.(?:Tensor\.)?(?:_assert_async|nonzero_static|quantize_per_tensor_dynamic)"
    r"|torch\.Tensor\.to_mkldnn|torch\.nn\.functional\.channel_shuffle"
)
# What may stand around the name of a page.
AROUND = re.compile(r"^(?:_fused_|_?native_|_)|_(?:helper|impl|impl_|forward|kernel|)$")
# Of what an operator is the gradient, where PyTorch's table of derivatives does not say it.
GRADIENTS = {
    "_embedding_bag_dense_backward": "_embedding_bag",
    "embedding_dense_backward": "embedding",
    "_thnn_fused_lstm_cell_backward_impl": "_thnn_fused_lstm_cell",
    "batch_norm_backward_elemt": "batch_norm_elemt",
    "batch_norm_backward_reduce": "batch_norm_elemt",
    "huber_loss_backward": "huber_loss",
    "threshold_backward": "threshold",
}


@cache
def installed(package: str, path: str) -> str:
    return (Path(find_spec(package).origin).parent / path).read_text(encoding="utf-8")


@cache
def documented() -> dict[str, str]:
    """Name as operators have it -> that of its page."""
    found: dict[str, str] = {}
    for module, path, pattern, prefix in PLACES:
        for name in re.findall(pattern, installed("torch", path), re.M):
            if not UNLISTED.fullmatch(f"{module}.{name}"):
                found.setdefault(prefix + name, f"{module}.{name}")
    return found


@cache
def gradients() -> dict[str, str]:
    """Operator of a backward pass -> the operator whose gradient it is, by PyTorch's own table."""
    found = dict(GRADIENTS)
    text = installed("torchgen", "packaged/autograd/derivatives.yaml")
    for name, block in re.findall(r"^- name: (\w+)(.*(?:\n(?!- name).*)*)", text, re.M):
        for backward in re.findall(r"\b(\w*backward\w*?)(?:_symint)?\(", block.partition("\n")[2]):
            found.setdefault(backward, name)
    return found


@cache
def page(name: str) -> str | None:
    for names, other in OTHERWISE.items():
        if any(name == one or (one.endswith("*") and name.startswith(one[:-1])) for one in names.split()):
            return other
    while name not in documented():
        shorter = AROUND.sub("", name, count=1)
        if shorter == name:
            return None
        name = shorter
    return documented()[name]


def link(name: str) -> str | None:
    found = page(name)
    if found and found.startswith("torch.special."):
        return f"[{found}]({DOCS}/special.html#{found})"
    return f"[{found}]({DOCS}/generated/{found}.html)" if found else None


def told(name: str) -> str | None:
    """Of an operator without overload, what PyTorch's pages say of it or of what it belongs to."""
    if "backward" in name and name in gradients():
        return f"the gradient of {link(gradients()[name]) or '`' + gradients()[name] + '`'}"
    if name.startswith("_foreach_"):
        of = link(name.removeprefix("_foreach_"))
        return of and f"{of} of each tensor"
    return link(name)


def formula(func: str, functions: list[str], compose: str | None) -> str:
    words = told(func.partition(".")[0])
    if compose and compose != "native":
        return f"{words}: `{compose}`" if words else f"`{compose}`"
    runs = (npu_reads.software()[name].run for name in functions if name in npu_reads.software())
    return words or next((f"`{run}`" for run in runs), f"without a page: [its schema]({SCHEMAS})")
