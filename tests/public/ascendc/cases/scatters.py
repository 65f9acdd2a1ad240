"""DrivingSDK's operators that gather rows by an index: sums, maxima, means, softmax over the edges of a graph."""

from __future__ import annotations

import torch

from ..case import case
from .driving import unit


@case(unit("graph_softmax"), rtol=1e-4, atol=1e-5)
def graph_softmax(npu, r):
    for edges, nodes in ((5, 2), (1000, 37), (20000, 900)):
        src, index = r.normal(edges, 8), r.whole(0, nodes, edges)
        out = torch.zeros_like(src)
        npu.op("GraphSoftmax", src, index, nodes, out)
        e = src.exp()
        yield out, e / torch.zeros(nodes, 8).index_add(0, index, e)[index.long()]


@case(unit("graph_softmax_grad", "graph_softmax"), rtol=1e-4, atol=1e-5)
def graph_softmax_grad(npu, r):
    for edges, nodes in ((5, 2), (1000, 37), (20000, 900)):
        soft, grad, index = r.uniform(0, 1, edges, 8), r.normal(edges, 8), r.whole(0, nodes, edges)
        out, sums = torch.zeros_like(soft), torch.zeros(nodes, 8)
        npu.op("GraphSoftmaxGrad", index, soft, grad, sums, nodes, out)
        yield out, soft * (grad - torch.zeros(nodes, 8).index_add(0, index, soft * grad)[index.long()])


@case(unit("scatter_add_v1", "scatter_add"), rtol=1e-4, atol=1e-4)
def scatter_add(npu, r):
    for rows, tail, into in ((10, 16, 4), (700, 64, 50)):
        src, index = r.normal(rows, tail), r.whole(0, into, rows)
        out = r.normal(into, tail)
        wanted = out.index_add(0, index, src)
        npu.op("ScatterAddV1", src, index, out, 0, out)
        yield out, wanted


@case(unit("scatter_add_v1", "scatter_add"), rtol=1e-4, atol=1e-4)
def scatter_add_by_element(npu, r):
    for shape, into in (((3, 40), 7), ((5, 60, 300), 20)):
        src, index = r.normal(*shape), r.whole(0, into, *shape)
        out = torch.zeros(*shape[:-1], into)
        npu.op("ScatterAddV1", src, index, out, len(shape) - 1, out)
        yield out, torch.zeros_like(out).scatter_add(-1, index.long(), src)


@case(unit("scatter_add_grad_v1", "scatter_add"), rtol=0, atol=0)
def scatter_add_grad(npu, r):
    for rows, tail, into in ((10, 16, 4), (700, 64, 50)):
        grad, index = r.normal(into, tail), r.whole(0, into, rows)
        out = torch.zeros(rows, tail)
        npu.op("ScatterAddGradV1", grad, index, 0, out)
        yield out, grad[index.long()]


@case(unit("scatter_add_grad_v1", "scatter_add"), rtol=0, atol=0)
def scatter_add_grad_by_element(npu, r):
    for shape, into in (((3, 40), 7), ((5, 60, 300), 20)):
        grad, index = r.normal(*shape[:-1], into), r.whole(0, into, *shape)
        out = torch.zeros(*shape)
        npu.op("ScatterAddGradV1", grad, index, len(shape) - 1, out)
        yield out, grad.gather(-1, index.long())


def largest(r, rows: int, tail: int, into: int):
    src, index = r.normal(rows, tail), r.whole(0, into, rows)
    index[:into] = torch.arange(into)
    spread = index.long()[:, None].expand(rows, tail)
    return src, index, torch.full((into, tail), -torch.inf).scatter_reduce(0, spread, src, "amax")


def maxima(npu, r, rows: int, tail: int, into: int):
    src, index, wanted = largest(r, rows, tail, into)
    out, at = torch.full((into, tail), -torch.inf), torch.full((into, tail), -1, dtype=torch.int32)
    npu.op("ScatterMaxV1", src, index[:, None], out, at)
    yield out, wanted


@case(unit("scatter_max_v1", "scatter_max"), rtol=0, atol=0)
def scatter_max(npu, r):
    yield from maxima(npu, r, 700, 64, 50)
    yield from maxima(npu, r, 5000, 13, 50)


@case(unit("scatter_max_v1", "scatter_max"), rtol=0, atol=0)
def scatter_max_few_rows(npu, r):
    yield from maxima(npu, r, 10, 16, 4)


@case(unit("scatter_max_argmax_v1", "scatter_max"), rtol=0, atol=0)
def scatter_max_argmax(npu, r):
    for rows, tail, into in ((700, 64, 50), (5000, 13, 50)):
        src, index, out = largest(r, rows, tail, into)
        at = torch.full((into, tail), -1, dtype=torch.int32)
        npu.op("ScatterMaxArgmaxV1", src, index[:, None], out, at)
        yield src.gather(0, at.long()), out


@case(unit("scatter_mean"), rtol=1e-4, atol=1e-4)
def scatter_mean(npu, r):
    for rows, tail, into in ((10, 16, 4), (700, 64, 50)):
        src, index = r.normal(rows, tail), r.whole(0, into, rows)
        out, count = torch.zeros(into, tail), torch.zeros(into)
        npu.op("ScatterMean", src, index, out, 0, out, count)
        yield out, torch.zeros(into, tail).index_add(0, index, src)
        yield count, torch.bincount(index, minlength=into)


@case(unit("scatter_mean_grad", "scatter_mean"), rtol=1e-4, atol=1e-4)
def scatter_mean_grad(npu, r):
    for rows, tail, into in ((10, 16, 4), (700, 64, 50)):
        grad, index = r.normal(into, tail), r.whole(0, into, rows)
        count = torch.bincount(index, minlength=into).float()
        out = torch.zeros(rows, tail)
        npu.op("ScatterMeanGrad", grad, index, count, 0, out)
        yield out, (grad / count[:, None])[index.long()]
