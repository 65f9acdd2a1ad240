"""Language models: the loss of a vocabulary in parts, hyper connections, the gated delta rule, quantized groups."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import FLOATS, NEAR, compare, rand
from tests.opapi.client import AclError


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_loss_of_a_vocabulary_in_two_parts(npu, dtype):
    """Both parts, reduced as two ranks would, are the loss and the gradients of the whole."""
    rows, h, each = 11, 5, 7
    x, weight = rand(rows, h, dtype=dtype), rand(2 * each, h, dtype=dtype)
    target = torch.arange(rows) * 5 % (2 * each)
    leaves = x.float().requires_grad_(), weight.float().requires_grad_()
    logits = leaves[0] @ leaves[1].t()
    loss = torch.nn.functional.cross_entropy(logits, target, reduction="none")
    near = NEAR[dtype]
    found = []
    for part in range(2):
        w, begin = weight[part * each : (part + 1) * each], part * each
        own = logits.detach()[:, begin : begin + each]
        outside = (target < begin) | (target >= begin + each)
        local = torch.where(outside, 0, target - begin)
        rest = own - own.amax(1, keepdim=True)
        bits = outside.tolist() + [True] * 5
        mask = [int("".join("01"[b] for b in bits[i : i + 8]), 2) for i in (0, 8)]
        found.append(compare(
            npu, "aclnnFusedLinearOnlineMaxSum",
            {"input": x, "weight": w, "target": target, "vocabStartIndex": begin, "vocabEndIndex": begin + each - 1},
            {
                "logitsMaxLocalOut": own.amax(1), "sumExpLogitsLocalOut": rest.exp().sum(1),
                "predictedLogitsLocalOut": torch.where(outside, 0, rest[torch.arange(rows), local]),
                "targetMaskOut": torch.tensor(mask, dtype=torch.uint8), "maskedTargetOut": local,
                "vocabParallelLogitsOutOptional": own.to(dtype),
            }, **near,
        ))  # fmt: skip
    largest = torch.maximum(*(f["logitsMaxLocalOut"] for f in found))
    shift = [f["logitsMaxLocalOut"] - largest for f in found]
    total = sum(f["sumExpLogitsLocalOut"] * s.exp() for f, s in zip(found, shift, strict=True))
    here = [(target // each) == part for part in range(2)]
    predicted = sum(torch.where(at, f["predictedLogitsLocalOut"] + s, 0)
                    for f, s, at in zip(found, shift, here, strict=True))  # fmt: skip
    gradient = rand(rows, seed=9)
    want = torch.autograd.grad(loss, leaves, gradient)
    summed = torch.zeros(rows, h)
    for part, f in enumerate(found):
        w, numbers = weight[part * each : (part + 1) * each], {"logitsMax": largest, "sumExpLogits": total}
        own = logits.detach()[:, part * each : (part + 1) * each]
        softmax = (own - largest[:, None]).exp() / total[:, None]
        compare(
            npu, "aclnnFusedCrossEntropyLossWithMaxSum",
            numbers | {"predictedLogits": predicted, "vocabParallelLogitsOptional": own.to(dtype)},
            {"lossOut": loss.detach(), "softMaxOutOptional": softmax}, **near,
        )  # fmt: skip
        common = {"grad": gradient, "input": x, "weight": w, "targetMask": f["targetMaskOut"],
                  "maskedTarget": f["maskedTargetOut"]}  # fmt: skip
        by_softmax = {"softmaxOptional": softmax}
        by_numbers = {"logitsMaxOptional": largest, "sumExpLogitsOptional": total}
        expected_weight = want[1][part * each : (part + 1) * each].to(dtype)
        for known in (by_softmax, by_numbers):
            made = npu.call(
                "aclnnFusedLinearCrossEntropyLossGrad", **common, labelSmoothing=0.0,
                **({"logitsMaxOptional": None, "sumExpLogitsOptional": None, "softmaxOptional": None} | known),
                inputGradOut=torch.zeros(rows, h, dtype=dtype), weightGradOut=torch.zeros(each, h, dtype=dtype),
            )  # fmt: skip
            torch.testing.assert_close(made["weightGradOut"], expected_weight, **near)
        summed += made["inputGradOut"].float()
    torch.testing.assert_close(summed, want[0], **near)


def test_what_the_parts_of_a_loss_refuse(npu):
    x, weight, target = rand(3, 2), rand(4, 2), torch.tensor([0, 1, 2])
    outputs = {"logitsMaxLocalOut": rand(3), "sumExpLogitsLocalOut": rand(3), "predictedLogitsLocalOut": rand(3),
               "targetMaskOut": torch.zeros(1, dtype=torch.uint8), "maskedTargetOut": target}  # fmt: skip
    inputs = {"input": x, "weight": weight, "target": target, "vocabStartIndex": 0, "vocabEndIndex": 4}
    with pytest.raises(AclError, match="vocabEndIndex 4 do not lie in the 4 rows"):
        compare(npu, "aclnnFusedLinearOnlineMaxSum", inputs, outputs)
    numbers = {"logitsMax": rand(3), "sumExpLogits": rand(3), "predictedLogits": rand(3)}
    with pytest.raises(AclError, match="labelSmoothing 0.5 is not implemented"):
        compare(npu, "aclnnFusedCrossEntropyLossWithMaxSum", numbers | {"labelSmoothing": 0.5}, {"lossOut": rand(3)})


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("outer", [(3,), (2, 3)])
def test_streams_and_their_gradients(npu, dtype, outer):
    n, d = 4, 5
    x, h_out = rand(*outer, n, d, dtype=dtype), rand(*outer, d, dtype=dtype)
    h_res, h_post = rand(*outer, n, n), rand(*outer, n)
    leaves = [t.double().requires_grad_() for t in (x, h_res, h_out, h_post)]
    a, r, o, p = leaves
    out = torch.einsum("...ij,...id->...jd", r, a) + torch.einsum("...d,...n->...nd", o, p)
    near = NEAR[dtype]
    inputs = {"x": x, "hRes": h_res, "hOut": h_out, "hPost": h_post}
    compare(npu, "aclnnMhcPost", inputs, {"out": out.detach().to(dtype)}, **near)
    without = (a + torch.einsum("...d,...n->...nd", o, p)).detach().to(dtype)
    compare(npu, "aclnnMhcPost", inputs | {"hRes": None}, {"out": without}, **near)
    gradient = rand(*outer, n, d, dtype=dtype, seed=7)
    dx, dr, do, dp = torch.autograd.grad(out, leaves, gradient.double())
    expected = {"gradX": dx.to(dtype), "gradHRes": dr.float(), "gradHOut": do.to(dtype), "gradHPost": dp.float()}
    compare(npu, "aclnnMhcPostBackward", inputs | {"gradOutput": gradient}, expected, **near)
    with pytest.raises(AclError, match="hPost is .* is expected"):
        compare(npu, "aclnnMhcPost", inputs | {"hPost": h_post[..., :2]}, {"out": without})


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("parts", [2, 3])
def test_weights_of_streams(npu, dtype, parts):
    n, d, tokens = 3, 4, 5
    outputs = 2 * n + (n * n if parts == 3 else 0)
    x, phi, alpha, bias, gamma = (
        rand(tokens, n, d, dtype=dtype),
        rand(outputs, n * d),
        rand(parts),
        rand(outputs),
        rand(n, d),
    )
    flat = x.double().flatten(1)
    inv = (flat.square().mean(1) + 1e-6) ** -0.5
    mix = (flat * gamma.double().flatten()) @ phi.double().t()
    w = mix * inv[:, None]
    pre = torch.sigmoid(w[:, :n] * alpha[0] + bias[:n]) + 1e-3
    res = w[:, 2 * n :] * alpha[2] + bias[2 * n :] if parts == 3 else torch.zeros(tokens, n * n)
    expected = {
        "hIn": (pre[:, :, None] * x.double()).sum(1).to(dtype),
        "hPost": 2 * torch.sigmoid(w[:, n : 2 * n] * alpha[1] + bias[n : 2 * n]).float(),
        "hRes": res.reshape(tokens, n, n).float(), "invRmsOptional": inv.float(), "hMixOptional": mix.float(),
        "hPreOptional": pre.float(),
    }  # fmt: skip
    expected["hPost"] = expected["hPost"].float()
    inputs = {"x": x, "phi": phi, "alpha": alpha, "bias": bias, "gammaOptional": gamma, "normEps": 1e-6, "hcEps": 1e-3}
    compare(npu, "aclnnMhcPre", inputs, expected, **NEAR[dtype])
    with pytest.raises(AclError, match="alpha has 1 elements"):
        compare(npu, "aclnnMhcPre", inputs | {"alpha": alpha[:1]}, expected)


def test_rows_and_columns_that_sum_to_one(npu):
    x = rand(2, 3, 4, 4)
    y = x.double().softmax(-1) + 1e-6
    for i in range(20):
        y = y / (y.sum(-2, keepdim=True) + 1e-6)
        if i < 19:
            y = y / (y.sum(-1, keepdim=True) + 1e-6)
    found = compare(
        npu, "aclnnMhcSinkhorn", {"x": x, "eps": 1e-6, "numIters": 20}, {"output": y.float()}, rtol=1e-4, atol=1e-5
    )
    torch.testing.assert_close(found["output"].sum(-2), torch.ones(2, 3, 4), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(found["output"].sum(-1), torch.ones(2, 3, 4), rtol=1e-2, atol=1e-2)
    with pytest.raises(AclError, match="numIters is 0"):
        compare(npu, "aclnnMhcSinkhorn", {"x": x, "eps": 1e-6, "numIters": 0}, {"output": x})
    with pytest.raises(AclError, match=r"normOut must have sizes \[4, 4, 4, 2, 3\], got \[8\]"):
        compare(npu, "aclnnMhcSinkhorn", {"x": x, "eps": 1e-6, "numIters": 2}, {"output": x, "normOut": rand(8)})


def delta(q, k, v, beta, g, gk, state, scale):
    """One head, token by token, by the formula: S = S a diag(ak) (I - b k k^T) + b v k^T."""
    out = []
    for t in range(q.shape[0]):
        decayed = state * g[t].exp() * gk[t].exp()
        eye = torch.eye(k.shape[1], dtype=torch.float64)
        state = decayed @ (eye - beta[t] * torch.outer(k[t], k[t])) + beta[t] * torch.outer(v[t], k[t])
        out.append((state @ q[t] * scale, state))
    return out


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_gated_delta_rule(npu, dtype):
    tokens, of_key, heads, dk, dv, lengths = 5, 2, 4, 3, 2, [2, 3]
    unit = lambda t: torch.nn.functional.normalize(t.float(), dim=-1).to(dtype)
    q, k = unit(rand(tokens, of_key, dk)), unit(rand(tokens, of_key, dk, seed=1))
    v, beta = rand(tokens, heads, dv, dtype=dtype), torch.sigmoid(rand(tokens, heads)).to(dtype)
    g, gk, pool = -rand(tokens, heads).abs(), -rand(tokens, heads, dk).abs(), rand(7, heads, dv, dk, dtype=dtype)
    blocks = torch.tensor([6, 0, 2, 3, 5], dtype=torch.int32)
    accepted = torch.tensor([2, 1], dtype=torch.int32)
    near = NEAR[dtype]
    d = lambda t: t.double()
    out, after, starts = torch.zeros(tokens, heads, dv, dtype=torch.float64), d(pool), [0, 2]
    chunk, last = out.clone(), torch.zeros(2, heads, dv, dk, dtype=torch.float64)
    for b, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        rows = slice(start, start + length)
        for h in range(heads):
            at = h // (heads // of_key)
            common = d(q[rows, at]), d(k[rows, at]), d(v[rows, h]), d(beta[rows, h]), d(g[rows, h])
            begin = d(pool[blocks[start + accepted[b] - 1], h])
            for i, (value, state) in enumerate(delta(*common, d(gk[rows, h]), begin, 0.5)):
                out[start + i, h], after[blocks[start + i], h] = value, state
            for i, (value, state) in enumerate(delta(*common, d(gk[rows, h]) * 0, d(pool[b, h]), 0.5)):
                chunk[start + i, h], last[b, h] = value, state
    inputs = {"query": q, "key": k, "value": v, "beta": beta, "scaleValue": 0.5,
              "actualSeqLengths": torch.tensor(lengths, dtype=torch.int32)}  # fmt: skip
    recurrent = inputs | {"g": g, "gk": gk, "stateRef": pool, "ssmStateIndices": blocks, "numAcceptedTokens": accepted}
    results = compare(npu, "aclnnRecurrentGatedDeltaRule", recurrent, {"out": out.to(dtype)}, **near)
    torch.testing.assert_close(results["stateRef"], after.to(dtype), **near)
    expected = {"out": chunk.to(dtype), "finalState": last.to(dtype)}
    compare(npu, "aclnnChunkGatedDeltaRule", inputs | {"gOptional": g, "initialState": pool[:2]}, expected, **near)
    with pytest.raises(AclError, match="actualSeqLengths names 4 tokens"):
        wrong = inputs | {"actualSeqLengths": torch.tensor([2, 4], dtype=torch.int32)}
        compare(npu, "aclnnChunkGatedDeltaRule", wrong | {"gOptional": g, "initialState": pool[:2]}, expected)


def grouped_operands():
    """Two groups, of 2 and 3 rows; products of int8 operands by both scales."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randint(-9, 9, (5, 4), generator=generator, dtype=torch.int8)
    weight = torch.randint(-9, 9, (2, 4, 6), generator=generator, dtype=torch.int8)
    of_row, of_column = torch.rand(5, generator=generator) + 0.5, torch.rand(2, 6, generator=generator) + 0.5
    group = torch.tensor([0, 0, 1, 1, 1])
    product = torch.einsum("mk,mkn->mn", x.float(), weight.float()[group]) * of_row[:, None] * of_column[group]
    return x, weight, of_row, of_column, product


@pytest.mark.parametrize("kind, groups", [(0, [2, 5]), (1, [2, 3])])
def test_products_of_groups_with_a_gate(npu, kind, groups):
    x, weight, of_row, of_column, product = grouped_operands()
    a, gate = product.chunk(2, 1)
    value = a * torch.sigmoid(a) * gate
    scale = value.abs().amax(1) / 127
    inputs = {"x": x, "weight": [weight], "weightScale": [of_column], "xScale": of_row,
              "groupList": torch.tensor(groups), "groupListType": kind}  # fmt: skip
    expected = {"output": (value / scale[:, None]).round().to(torch.int8), "outputScale": scale}
    compare(npu, "aclnnGroupedMatmulSwigluQuantWeightNzV2", inputs, expected, rtol=1e-4, atol=1e-5)


def test_products_of_groups_summed_by_row(npu):
    x, weight, of_row, of_column, product = grouped_operands()
    logit, rows, shared = torch.rand(5) + 0.5, torch.tensor([2, 0, 1, 0, 3]), rand(2, 6).bfloat16()
    out = torch.zeros(4, 6).index_add_(0, rows, product * logit[:, None])
    out[1:3] += 0.5 * shared.float()
    inputs = {"x1": x, "x2": weight, "scale": of_column, "pertokenScaleOptional": of_row, "logit": logit,
              "rowIndex": rows, "groupList": torch.tensor([2, 3]), "groupListType": 1, "sharedInput": shared,
              "sharedInputWeight": 0.5, "sharedInputOffset": 1}  # fmt: skip
    compare(npu, "aclnnGroupedMatmulFinalizeRoutingWeightNz", inputs, {"out": out}, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("version", [2, 5])
def test_attention_of_inference_of_other_versions(npu, dtype, version):
    q, k, v = rand(2, 4, 3, 8, dtype=dtype), rand(2, 2, 5, 8, dtype=dtype), rand(2, 2, 5, 8, dtype=dtype, seed=1)
    wide = [t.double() for t in (q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))]
    weights = (wide[0] @ wide[1].transpose(-1, -2) * 0.3).softmax(-1)
    inputs = {"query": q, "key": [k], "value": [v], "numHeads": 4, "numKeyValueHeads": 2, "scaleValue": 0.3,
              "inputLayout": "BNSD", "preTokens": 2**31 - 1, "nextTokens": 2**31 - 1}  # fmt: skip
    expected = {"attentionOut": (weights @ wide[2]).to(dtype), "softmaxLse": torch.zeros(0)}
    op = f"aclnnFusedInferAttentionScoreV{version}"
    compare(npu, op, inputs, expected, **NEAR[dtype])
    if version < 5:
        return
    for changed, words in (
        ({"pseType": 2}, "pseType 2 is not implemented; 0 is"),
        ({"queryQuantMode": 3}, "queryQuantMode 3 is not implemented; 0 is"),
        ({"dequantScaleQueryOptional": rand(4)}, "dequantScaleQuery is not implemented"),
        ({"qStartIdxOptional": [1]}, "qStartIdx and kvStartIdx are not implemented"),
    ):
        with pytest.raises(AclError, match=words) as error:
            compare(npu, op, inputs | changed, expected)
        assert error.value.status == 161002
