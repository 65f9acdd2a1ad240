"""Mixture of experts on one device, products of groups, and cross entropy fused with log softmax."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import torch_npu
from tests.npu_ops.compare import FLOATING, check

pytestmark = pytest.mark.usefixtures("seeded")


def test_gating_top_k_softmax():
    def reference(x, finished, k):
        y, experts = torch.topk(torch.softmax(x, -1), k)
        experts = torch.where(finished.unsqueeze(1), x.shape[-1], experts)
        return y, experts.int(), torch.arange(5 * k, dtype=torch.int32).reshape(k, 5).t()

    # Numbers that 16 bits tell apart.
    x = torch.stack([torch.randperm(8) for _ in range(5)]) * 0.25
    check(torch_npu.npu_moe_gating_top_k_softmax, reference, [x, torch.tensor([0, 1, 0, 0, 1]).bool(), 3])
    check(torch_npu.npu_moe_gating_top_k_softmax, lambda x, k: reference(x, torch.zeros(5).bool(), k), [x], {"k": 2})


@pytest.mark.parametrize("renorm", [0, 1])
def test_gating_top_k_softmax_v2(renorm):
    def reference(x, k, renorm, output_softmax):
        y, experts = torch.topk(x if renorm else torch.softmax(x, -1), k)
        return (torch.softmax(y, -1) if renorm else y), experts.int(), None if renorm else torch.softmax(x, -1)

    kwargs = {"k": 2, "renorm": renorm, "output_softmax": True}
    check(
        torch_npu.npu_moe_gating_top_k_softmax_v2,
        reference,
        [torch.randn(5, 8)],
        kwargs,
        dtypes=FLOATING[:1],
        gradient=False,
    )
    if renorm:
        assert torch_npu.npu_moe_gating_top_k_softmax_v2(torch.randn(5, 8).npu(), **kwargs)[2].numel() == 0


def test_routing_there_and_back():
    torch.manual_seed(2)
    x, experts = torch.randn(4, 6), torch.tensor([[1, 0], [2, 1], [0, 2], [1, 2]], dtype=torch.int32)
    rows = torch.arange(8, dtype=torch.int32).reshape(2, 4).t().contiguous()
    expanded, places, sorted_experts = torch_npu.npu_moe_init_routing(x.npu(), rows.npu(), experts.npu(), 4)
    assert sorted_experts.cpu().tolist() == sorted(experts.flatten().tolist())
    order = torch.sort(experts.flatten(), stable=True)[1]
    torch.testing.assert_close(expanded.cpu(), x[rows.flatten()[order].long() % 4])
    ends = torch_npu.npu_moe_compute_expert_tokens(sorted_experts, 3)
    assert ends.cpu().tolist() == [2, 5, 8]
    finished = torch.tensor([0, 1, 3], dtype=torch.int32).npu()  # a gate gives finished rows the number of experts
    assert torch_npu.npu_moe_compute_expert_tokens(finished, 3).tolist() == [1, 2, 2]
    wrong = {
        "expert 4 is out of bounds for 3 experts": [0, 1, 4],
        "expert -1 is out of": [-1, 0],
        "not in order": [2, 1],
    }
    for said, numbers in wrong.items():
        with pytest.raises(RuntimeError, match=said):
            torch_npu.npu_moe_compute_expert_tokens(torch.tensor(numbers, dtype=torch.int32).npu(), 3).cpu()
    scales, skip, bias = torch.rand(4, 2), torch.randn(4, 6), torch.randn(3, 6)
    out = torch_npu.npu_moe_finalize_routing(
        expanded, skip.npu(), None, bias.npu(), scales.npu(), places, experts.npu()
    )
    expected = skip + sum(scales[:, k, None] * (x + bias[experts[:, k].long()]) for k in range(2))
    torch.testing.assert_close(out.cpu(), expected)


@pytest.mark.parametrize("wanted", [None, 5, -2])
def test_permute_and_unpermute_with_gradients(wanted):
    torch.manual_seed(3)
    indices, probs = torch.tensor([[1, 0], [2, 1], [0, 2], [1, 2]]), torch.rand(4, 2)
    order = torch.sort(indices.flatten(), stable=True)[1]
    count = 8 if wanted is None else wanted if wanted > 0 else 8 + wanted

    def permute(tokens, indices, num_out_tokens):
        return tokens[order[:count] // 2], torch.argsort(order).int()

    check(torch_npu.npu_moe_token_permute, permute, [torch.randn(4, 6), indices, wanted])
    places = torch.argsort(order)

    def unpermute(rows, places, probs):
        padded = torch.cat([rows, rows.new_zeros(8 - count, 6)])
        return (padded[places.long()].reshape(4, 2, 6) * probs.unsqueeze(-1)).sum(1)

    check(torch_npu.npu_moe_token_unpermute, unpermute, [torch.randn(count, 6), places.int(), probs])


def test_unpermute_without_probabilities():
    places = torch.tensor([2, 0, 1], dtype=torch.int32)
    check(torch_npu.npu_moe_token_unpermute, lambda r, p: r[p.long()], [torch.randn(3, 6), places])


def test_grouped_matmul_of_rows():
    torch.manual_seed(4)
    x, w, b = torch.randn(9, 4), torch.randn(3, 4, 5), torch.randn(3, 5)
    ends = [2, 2, 9]
    parts = [x[:2] @ w[0] + b[0], x[2:2] @ w[1] + b[1], x[2:] @ w[2] + b[2]]
    for weights, biases in [([w], [b]), (list(w), list(b))]:
        for kind, values in [(0, ends), (1, [2, 0, 7])]:
            (out,) = torch_npu.npu_grouped_matmul(
                [x.npu()], [t.npu() for t in weights], bias=[t.npu() for t in biases], split_item=3, group_type=0,
                group_list=torch.tensor(values).npu(), group_list_type=kind,
            )  # fmt: skip
            torch.testing.assert_close(out.cpu(), torch.cat(parts), rtol=1e-4, atol=1e-5)
    (out,) = torch_npu.npu_grouped_matmul([x.npu()], [w.npu()], split_item=3, group_type=0, group_list=ends, act_type=5)
    expected = F.silu(torch.cat([x[:2] @ w[0], x[2:] @ w[2]]))
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_grouped_matmul_of_listed_groups():
    """group_list_type 2: rows of which group and how many rows, in the order of x, those without rows behind."""
    torch.manual_seed(5)
    listed, order = torch.tensor([[2, 3], [0, 4], [1, 0]]), [2, 2, 2, 0, 0, 0, 0]
    x, w, b = torch.randint(-9, 9, (8, 4)), torch.randint(-9, 9, (3, 4, 5)), torch.randint(-9, 9, (3, 5))
    scale, rows = torch.rand(3, 5), torch.rand(8)
    product = torch.stack([x[i] @ w[g] + b[g] for i, g in enumerate(order)]).double()
    options = {"split_item": 3, "group_type": 0, "group_list": listed.npu(), "group_list_type": 2}
    for weights, biases in [([w], [b]), (list(w), list(b))]:
        on = [[t.float().npu() for t in part] for part in ([x], weights, biases)]
        (out,) = torch_npu.npu_grouped_matmul(*on[:2], bias=on[2], **options)
        assert torch.equal(out.cpu()[:7], product.float()) and not out.cpu()[7:].any()
    whole = [
        [t.to(kind).npu() for t in part] for part, kind in (([x], torch.int8), ([w], torch.int8), ([b], torch.int32))
    ]
    options |= {"scale": [scale.npu()], "per_token_scale": [rows.npu()], "output_dtype": torch.float16}
    (out,) = torch_npu.npu_grouped_matmul(*whole[:2], bias=whole[2], **options)
    expected = product * scale.double()[order] * rows.double()[:7, None]
    torch.testing.assert_close(out.cpu()[:7], expected.half())
    plain = [[torch.randn(8, 4).npu()], [torch.randn(3, 4, 5).npu()]]
    options = {"split_item": 3, "group_type": 0, "group_list_type": 2}
    for rows_of, more, words in [
        ([[3, 3], [0, 4], [1, 1]], {}, "groupList names the group 3 of 3"),
        ([[2, 3], [0, 9], [1, 0]], {}, "ends at row 12 of 8"),
        ([2, 3, 8], {}, "group_list must have 2 dimensions"),
        ([[2, 3], [0, 4], [1, 0]], {"group_type": 2}, "group_list_type 2 goes with group_type 0 and one x"),
    ]:
        with pytest.raises((RuntimeError, ValueError), match=words):
            torch_npu.npu_grouped_matmul(*plain, group_list=torch.tensor(rows_of).npu(), **options | more)[0].cpu()
    with pytest.raises(NotImplementedError, match="group_list_type 2"):
        torch_npu.npu_grouped_matmul(*plain, group_list=[3, 8, 8], **options)


def test_rows_of_several_x_are_those_of_the_list():
    x, w = [torch.randn(3, 4).npu(), torch.randn(2, 4).npu()], torch.randn(2, 4, 5).npu()
    expected = torch.cat([x[0] @ w[0], x[1] @ w[1]]).cpu()
    for numbers, kind in (([3, 5], 0), ([3, 2], 1)):
        rows = torch.tensor(numbers).npu()
        [y] = torch_npu.npu_grouped_matmul(x, [w], group_list=rows, split_item=3, group_type=0, group_list_type=kind)
        assert torch.allclose(y.cpu(), expected)
    with pytest.raises(RuntimeError, match=r"groupList ends at \[3, 4\], and the 2 x do not"):
        rows = torch.tensor([3, 4]).npu()
        torch_npu.npu_grouped_matmul(x, [w], group_list=rows, split_item=3, group_type=0)[0].cpu()


def test_grouped_matmul_of_pairs_inner_groups_and_integers():
    x, w = [torch.randn(2, 4), torch.randn(3, 6)], [torch.randn(4, 5), torch.randn(6, 7)]
    out = torch_npu.npu_grouped_matmul([t.npu() for t in x], [t.npu() for t in w])
    for o, a, b in zip(out, x, w, strict=True):
        torch.testing.assert_close(o.cpu(), a @ b, rtol=1e-4, atol=1e-5)
    a, b = torch.randn(3, 8), torch.randn(8, 4)
    (out,) = torch_npu.npu_grouped_matmul(
        [a.npu()], [b.npu()], split_item=3, group_type=2, group_list=torch.tensor([3, 8]).npu()
    )
    torch.testing.assert_close(out.cpu(), torch.stack([a[:, :3] @ b[:3], a[:, 3:] @ b[3:]]), rtol=1e-4, atol=1e-5)
    q, v = torch.randint(-9, 9, (5, 4), dtype=torch.int8), torch.randint(-9, 9, (2, 4, 3), dtype=torch.int8)
    scale, token = torch.rand(2, 3), torch.rand(5)
    (out,) = torch_npu.npu_grouped_matmul(
        [q.npu()], [v.npu()], scale=[scale.npu()], per_token_scale=[token.npu()], split_item=3, group_type=0,
        group_list=torch.tensor([2, 5]).npu(), output_dtype=torch.bfloat16,
    )  # fmt: skip
    expected = (
        torch.cat([q[:2].float() @ v[0].float() * scale[0], q[2:].float() @ v[1].float() * scale[1]]) * token[:, None]
    )
    torch.testing.assert_close(out.cpu(), expected.bfloat16())


def grouped(x, weight, ends=(2, 4, 8), device="npu", **more):
    to = lambda *sizes: torch.randn(sizes).to(device)
    ends = None if ends is None else torch.tensor(ends).to(device)
    more = {name: [to(*size) for size in value] if name in ("bias", "scale") else value for name, value in more.items()}
    options = {"group_type": 0, "split_item": 3, "group_list": ends} | more
    return torch_npu.npu_grouped_matmul([to(*size) for size in x], [to(*size) for size in weight], **options)


COUNTS = {
    "fewer weights": (([(8, 4)], [(4, 6)] * 2), {}, "2 weights for 3 groups of group_list"),
    "more weights": (([(8, 4)], [(4, 6)] * 4), {}, "4 weights for 3 groups of group_list"),
    "one weight for all": (([(8, 4)], [(4, 6)]), {}, "1 weights for 3 groups of group_list"),
    "fewer matrices": (([(8, 4)], [(2, 4, 6)]), {}, "weight must have 3 matrices, one for each number of group_list"),
    "inner groups": (([(6, 8)], [(8, 7)] * 2), {"group_type": 2}, "group_type 2 takes one weight, there are 2"),
    "two x in inner groups": (([(6, 8)] * 2, [(8, 7)]), {"group_type": 2}, "group_type 2 takes one x, there are 2"),
    "pairs": (([(2, 4)] * 3, [(4, 6)] * 2), {"ends": None, "group_type": -1}, "2 weights for 3 x"),
    "a stack of pairs": (([(2, 4)] * 3, [(2, 4, 6)]), {"ends": None, "group_type": -1}, "3 matrices, one for each x"),
    "biases": (([(8, 4)], [(4, 6)] * 3), {"bias": [(6,)] * 2}, "bias must have a tensor for each of 3 weights"),
    "scales": (([(8, 4)], [(4, 6)] * 3), {"scale": [(6,)] * 2}, "scale must have a tensor for each of 3 tensors"),
    "rows of scales": (([(8, 4)], [(3, 4, 6)]), {"scale": [(5, 6)]}, "scale must have 3 rows, one for each matrix"),
    "fewer rows of scales": (([(8, 4)], [(3, 4, 6)]), {"scale": [(2, 6)]}, "scale must have 3 rows"),
    "no list": (([(8, 4)], [(3, 4, 6)]), {"ends": None}, "group_type 0 with one x needs group_list"),
    "no list of two": (([(8, 4)], [(3, 4, 6)]), {"ends": None, "split_item": 2}, "group_type 0 with one x needs"),
    "no list of inner groups": (([(6, 8)], [(8, 7)]), {"ends": None, "group_type": 2}, "group_type 2 with one x needs"),
}


@pytest.mark.parametrize("device", ["npu", "meta"])
@pytest.mark.parametrize("case", COUNTS)
def test_lists_of_a_grouped_product_have_as_many_members_as_it_has_groups(case, device):
    """At the call: the kernel would read behind the shorter list."""
    lists, more, words = COUNTS[case]
    with pytest.raises(RuntimeError, match=words) as error:
        grouped(*lists, device=device, **more)
    assert not isinstance(error.value, torch.AcceleratorError)


@pytest.mark.parametrize("more", [{"group_type": 1}, {"split_item": 7}, {"group_list_type": 3}, {"act_type": 6}])
def test_kinds_of_a_grouped_product_that_are_none(more):
    (name, value), *_ = more.items()
    with pytest.raises(NotImplementedError, match=f"npu_grouped_matmul: {name} {value} is not implemented; .*"):
        grouped([(8, 4)], [(3, 4, 6)], **more)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("row", [9, 4, -2])
def test_a_row_that_is_none_is_an_error(mode, row):
    rows = torch.randn(1, 4, 6).npu() if mode % 2 else torch.randn(4, 6).npu()
    places = torch.tensor([0, 1, 2, row], dtype=torch.int32).npu()
    with pytest.raises(torch.AcceleratorError, match=f"row {row} is out of bounds for 4 rows"):
        torch_npu.npu_moe_finalize_routing(rows, None, None, None, None, places, None, mode).cpu()


@pytest.mark.parametrize("mode", [0, 2])
def test_pairs_that_were_dropped_are_zero(mode):
    """Pair 3 has no row among the three that are kept, pair 1 none by its number."""
    rows, places = torch.randn(3, 6), torch.tensor([0, -1, 2, 3], dtype=torch.int32)
    out = torch_npu.npu_moe_finalize_routing(rows.npu(), None, None, None, None, places.npu(), None, mode)
    torch.testing.assert_close(out.cpu(), torch.stack([rows[0], torch.zeros(6), rows[2], torch.zeros(6)]))


@pytest.mark.parametrize("place", [-2, 4])
def test_a_place_that_is_none_is_an_error(place):
    rows, places = torch.randn(4, 6).npu(), torch.tensor([0, 1, 2, place], dtype=torch.int32).npu()
    with pytest.raises(torch.AcceleratorError, match=f"row {place} is out of bounds for 4 rows"):
        torch_npu.npu_moe_token_unpermute(rows, places).cpu()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_loss(reduction, smoothing):
    torch.manual_seed(5)
    target = torch.tensor([1, 0, -100, 3, 2])

    def reference(x, target, weight, reduction, label_smoothing):
        loss = F.cross_entropy(x, target, weight, reduction=reduction, label_smoothing=label_smoothing)
        return loss.reshape(-1), x.log_softmax(1).detach()

    def constant(loss):  # neither side has a derivative for the weight, and both refuse to be asked for one
        return lambda *a, weight, **k: loss(*a, weight=None if weight is None else weight.detach(), **k)

    for weight in (None, torch.rand(4)):
        args, kwargs = (
            [torch.randn(5, 4), target],
            {"weight": weight, "reduction": reduction, "label_smoothing": smoothing},
        )
        check(constant(torch_npu.npu_cross_entropy_loss), constant(reference), args, kwargs)


def test_a_loss_that_counts_no_row_has_a_gradient_of_zero():
    """As PyTorch's: the loss is 0 / 0, of which no row is a part."""
    x, target = torch.randn(3, 4), torch.full((3,), -100)
    for device, loss in (("cpu", F.cross_entropy), ("npu", lambda *a: torch_npu.npu_cross_entropy_loss(*a)[0])):
        leaf = x.detach().to(device, copy=True).requires_grad_()
        value = loss(leaf, target.to(device))
        value.sum().backward()
        assert value.isnan().all().item() and not leaf.grad.cpu().any()


def test_groups_as_numbers_are_captured():
    """Their tensor is made on the device: a copy from the host would wait for the stream that is captured."""
    x, w = torch.randn(8, 4).npu(), torch.randn(3, 4, 6).npu()
    call = lambda: torch_npu.npu_grouped_matmul([x], [w], group_list=[2, 4, 8], split_item=3, group_type=0)[0]
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        out = call()
    x.copy_(torch.randn(8, 4))
    graph.replay()
    torch.testing.assert_close(out.cpu(), call().cpu())


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_a_number_of_rows_that_tokens_do_not_share_alike_is_refused(device):
    x, routing = torch.rand(4, 6, device=device), torch.ones(4, 3, dtype=torch.bool, device=device)
    with pytest.raises(RuntimeError, match="num_out_tokens 5 is no multiple of the 4 tokens, each of which goes to"):
        torch_npu.npu_moe_token_permute_with_routing_map(x, routing, num_out_tokens=5)


def test_refusals():
    x = torch.randn(4, 6).npu()
    with pytest.raises(NotImplementedError, match="z-loss is not implemented"):
        torch_npu.npu_cross_entropy_loss(x, torch.zeros(4).long().npu(), return_zloss=True)
    with pytest.raises(NotImplementedError, match="padded_mode is not implemented"):
        torch_npu.npu_moe_token_permute(x, torch.zeros(4, 2).long().npu(), 8, True)
    with pytest.raises(RuntimeError, match="k is 7, but there are 6 experts"):
        torch_npu.npu_moe_gating_top_k_softmax(x, None, 7)
    with pytest.raises(RuntimeError, match="inner sizes of pair 0 are 6 and 5"):
        torch_npu.npu_grouped_matmul([x], [torch.randn(5, 2).npu()])
