"""torch.cuda.comm between devices of one process, by plain copies."""

import torch


def _device(device):
    if isinstance(device, int):
        return torch.device("npu", device) if device >= 0 else torch.device("cpu")
    return torch.device(device)


def broadcast(tensor, devices=None, *, out=None):
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and out={out}"
        )
    if out is not None:
        for target in out:
            target.copy_(tensor)
        return tuple(out)
    return tuple(tensor if tensor.device == _device(d) else tensor.to(_device(d)) for d in devices)


def broadcast_coalesced(tensors, devices, buffer_size=10485760):
    return [tuple(copies) for copies in zip(*(broadcast(tensor, devices) for tensor in tensors))]


def reduce_add(inputs, destination=None):
    """The sum of tensors of one shape on one device; the first is not changed."""
    inputs = list(inputs)
    shapes = {tuple(tensor.shape) for tensor in inputs}
    if len(shapes) > 1:
        raise ValueError(f"reduce_add expects tensors of one shape, got {sorted(shapes)}")
    target = inputs[0].device if destination is None else _device(destination)
    result = inputs[0].to(target)
    for tensor in inputs[1:]:
        result = result + tensor.to(target)
    return result


def reduce_add_coalesced(inputs, destination=None, buffer_size=10485760):
    return tuple(reduce_add(tensors, destination) for tensors in zip(*inputs))


def scatter(tensor, devices=None, chunk_sizes=None, dim=0, streams=None, *, out=None):
    if out is not None:
        if devices is not None:
            raise RuntimeError(f"'devices' must not be specified when 'out' is specified, but got devices={devices}")
        sizes = [target.size(dim) for target in out]
        for target, part in zip(out, torch.split(tensor, sizes, dim)):
            target.copy_(part)
        return tuple(out)
    count = len(devices)
    parts = torch.split(tensor, list(chunk_sizes), dim) if chunk_sizes is not None else torch.chunk(tensor, count, dim)
    return tuple(part.to(_device(device)) for part, device in zip(parts, devices))


def gather(tensors, dim=0, destination=None, *, out=None):
    if out is not None:
        if destination is not None:
            raise RuntimeError(f"'destination' must not be specified when 'out' is specified, but got {destination}")
        return torch.cat([tensor.to(out.device) for tensor in tensors], dim, out=out)
    target = torch.device("npu") if destination is None else _device(destination)
    return torch.cat([tensor.to(target) for tensor in tensors], dim)
