"""Functions of torch, torch.fft and torch.nn by other functions, with their exact results."""

import torch
import torch.nn.functional as F


def std_mean(input, dim=None, unbiased=None, *, correction=None, keepdim=False):
    variance, mean = var_mean(input, dim, unbiased, correction=correction, keepdim=keepdim)
    return variance.sqrt(), mean


def var_mean(input, dim=None, unbiased=None, *, correction=None, keepdim=False):
    if isinstance(dim, bool):  # torch.var_mean(input, unbiased)
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return (
        torch.var(input, dim=dim, correction=correction, keepdim=keepdim),
        torch.mean(input, dim=tuple(range(input.dim())) if dim is None else dim, keepdim=keepdim),
    )


def heaviside(input, values, *, out=None):
    if input.dtype != values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    result = torch.where(input == 0, values, (input > 0).to(values.dtype))
    return result if out is None else out.copy_(result)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    if dim is None:
        shape, rows = input.shape, input.reshape(-1, 1)
    else:
        shape, rows = (input.size(dim),), input.transpose(0, dim).reshape(input.size(dim), -1)
    size = rows.size(0)
    starts = torch.ones(size, dtype=torch.bool, device=input.device)
    if size > 1:
        starts[1:] = (rows[1:] != rows[:-1]).any(dim=1)
    first = starts.nonzero().squeeze(1)
    output = input.reshape(-1)[first] if dim is None else input.index_select(dim, first)
    results = [output]
    if return_inverse:
        results.append((torch.cumsum(starts.to(torch.int64), 0) - 1).reshape(shape))
    if return_counts:
        ends = torch.cat([first[1:], torch.tensor([size], device=first.device)]) if size else first
        results.append(ends - first)
    return results[0] if len(results) == 1 else tuple(results)


def fftfreq(n, d=1.0, **options):
    indices = torch.cat([torch.arange(0, (n + 1) // 2), torch.arange(-(n // 2), 0)])
    return _frequencies(indices, n, d, **options)


def rfftfreq(n, d=1.0, **options):
    return _frequencies(torch.arange(0, n // 2 + 1), n, d, **options)


def _frequencies(indices, n, d, *, out=None, dtype=None, device=None, requires_grad=False, **_):
    dtype = torch.get_default_dtype() if dtype is None else dtype
    result = (indices.to(dtype) * (1.0 / (n * d))).to(torch.get_default_device() if device is None else device)
    if out is not None:
        return out.copy_(result)
    return result.requires_grad_(requires_grad)


def _shift(input, dim, sign):
    dims = range(input.dim()) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = list(dims)
    # fftshift moves by half rounded down, ifftshift back by the same amount.
    return torch.roll(input, [sign * (input.size(d) // 2) for d in dims], dims) if dims else input.clone()


def fftshift(input, dim=None):
    return _shift(input, dim, 1)


def ifftshift(input, dim=None):
    return _shift(input, dim, -1)


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def _one(value):
    return value if isinstance(value, int) or value is None else value[0]


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """As a pool of height 1; the indices of a row of height 1 are the row's own."""
    stride = _one(stride)
    result = F.max_pool2d(
        input.unsqueeze(-2), (1, _one(kernel_size)), None if stride is None else (1, stride), (0, _one(padding)),
        (1, _one(dilation)), ceil_mode, return_indices,
    )  # fmt: skip
    return (result[0].squeeze(-2), result[1].squeeze(-2)) if return_indices else result.squeeze(-2)


def adaptive_max_pool1d(input, output_size, return_indices=False):
    result = F.adaptive_max_pool2d(input.unsqueeze(-2), (1, _one(output_size)), return_indices)
    return (result[0].squeeze(-2), result[1].squeeze(-2)) if return_indices else result.squeeze(-2)


def pdist(input, p=2.0):
    rows, columns = torch.triu_indices(input.size(0), input.size(0), 1, device=input.device).unbind(0)
    return torch.linalg.vector_norm(input[rows] - input[columns], ord=p, dim=-1)


def _reduce(loss, reduction):
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")


def _reduction(size_average, reduce, reduction):
    if size_average is None and reduce is None:
        return reduction
    if reduce is not None and not reduce:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"
):
    def distance(a, b):
        return torch.linalg.vector_norm(a - b + eps, ord=p, dim=-1)

    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=distance, margin=margin, swap=swap,
        reduction=_reduction(size_average, reduce, reduction),
    )  # fmt: skip


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = F.pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = torch.minimum(far, distance(positive, negative))
    return _reduce(torch.clamp_min(margin + near - far, 0), reduction)


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    loss = -(target * F.logsigmoid(input) + (1 - target) * F.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    loss = loss.sum(dim=input.dim() - 1) / input.size(input.dim() - 1)
    return _reduce(loss, _reduction(size_average, reduce, reduction))
