"""Arguments that do not go together are errors at the call that name the operator's argument: not taken without effect,
not broadcast or cut, and no error of the stream.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import torch_npu

f, npu = torch_npu, torch.ops.npu


def r(*size: int) -> torch.Tensor:
    return torch.rand(size).npu()


def i(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32).npu()


def q8(*size: int) -> torch.Tensor:
    return torch.zeros(size, dtype=torch.int8).npu()


def gate(**options: object) -> object:
    return f.npu_moe_gating_top_k(r(3, 8), 2, **options)


def route(x: torch.Tensor | None = None, **options: object) -> object:
    experts = torch.tensor([[0, 1], [3, 1]], dtype=torch.int32).npu()
    return f.npu_moe_init_routing_v2(r(2, 6) if x is None else x, experts, **({"expert_num": 4} | options))


def reroute(**options: object) -> object:
    return f.npu_moe_re_routing(r(4, 3), i(3, 1).reshape(1, 2), **options)


MAP = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 1], [0, 1, 1]]).bool()
PLACES = (0, 2, 3, 5, 1, 6, 4, 7)


def attend(
    query: tuple = (2, 4, 3, 8), key: tuple = (2, 4, 3, 8), value: tuple | None = None, **options: object
) -> object:
    options = {"num_heads": 4, "input_layout": "BNSD"} | options
    return f.npu_fused_infer_attention_score(r(*query), r(*key), r(*(value or key)), **options)


def pages(lengths: list[int], rows: int = 2, table: torch.Tensor | None = None) -> object:
    table = torch.zeros(rows, 2, dtype=torch.int32).npu() if table is None else table
    options = {"block_table": table, "block_size": 4, "actual_seq_lengths_kv": lengths}
    return attend((2, 2, 1, 8), (3, 2, 4, 8), num_heads=2, **options)


def latent(mode: str, places: int, k: torch.Tensor, c: torch.Tensor) -> object:
    index = torch.arange(places).npu()
    angles = r(2, 1, 3, 32)
    return f.npu_kv_rmsnorm_rope_cache_v2(r(2, 1, 3, 96), r(64), angles, angles, index, k, c, cache_mode=mode)


def rope(
    indices: torch.Tensor, mode: str = "contiguous", splits: tuple = (32, 16, 16), cache: tuple = (2, 8, 1, 16)
) -> object:
    angles = r(2, 3, 1, 16)
    return f.npu_rope_quant_kvcache(
        r(2, 3, 64), angles, angles, q8(*cache), q8(*cache), indices, r(1, 16), r(1, 16), list(splits), cache_mode=mode
    )


def ffn(tokens: list[int] | None = None, **options: object) -> object:
    return f.npu_ffn(r(5, 4), r(2, 4, 6), r(2, 6, 4), "gelu", expert_tokens=tokens, **options)


def lora(a: tuple = (2, 1, 4, 8), b: tuple = (2, 1, 5, 4), **options: object) -> object:
    return f.npu_batch_gather_matmul(r(3, 8), r(3, 8), r(*b), i(0, 1, 0), r(*a), **options)


def transposed(**options: object) -> object:
    return f.npu_transpose_batchmatmul(r(2, 3, 4), r(2, 4, 5), **options)


def mrope(positions: torch.Tensor | None = None, head_size: int = 8, **options: object) -> object:
    return f.npu_mrope(
        i(0, 1, 2).long() if positions is None else positions, r(3, 16), r(3, 8), r(5, 8), head_size, **options
    )


CASES: dict[str, tuple[str, Callable[[], object]]] = {
    # experts
    "gate: mode": ("group_select_mode 5", lambda: gate(k_group=1, group_count=4, group_select_mode=5)),
    "gate: no groups": ("k_group is 0 of group_count 4", lambda: gate(k_group=0, group_count=4)),
    "gate: more groups": ("k_group is 5 of group_count 4", lambda: gate(k_group=5, group_count=4)),
    "gate: uneven": ("not group_count 3 groups", lambda: gate(k_group=1, group_count=3)),
    "gate: too few": ("k is 2, but k_group 1", lambda: gate(k_group=1, group_count=8)),
    "gate: one table": ("input_ids and tid2eid go together", lambda: gate(input_ids=i(0, 1, 2))),
    "gate: ids": (
        "input_ids must have 3 elements, got 2",
        lambda: gate(input_ids=i(0, 1), tid2eid=i(0, 1).reshape(1, 2)),
    ),
    "gate: bias": ("bias must have 8 in dimension 0, got 4", lambda: gate(bias=r(4))),
    "gate: fp64": (
        "x must be torch.float32 or torch.float16 or torch.bfloat16, got torch.float64",
        lambda: f.npu_moe_gating_top_k(r(3, 8).double(), 2),
    ),
    "route: row_idx_type": ("row_idx_type 7", lambda: route(row_idx_type=7)),
    "route: counts": ("expert_tokens_num_type 9", lambda: route(expert_tokens_num_type=9)),
    "route: x_dtype": ("x_dtype is not implemented", lambda: route(x_dtype=5)),
    "route: range": (r"active_expert_range is \[2, 900\]", lambda: route(active_expert_range=[2, 900])),
    "route: range below": (r"active_expert_range is \[-2, 3\]", lambda: route(active_expert_range=[-2, 3])),
    "route: no experts": ("give active_expert_range or expert_num", lambda: route(expert_num=-1)),
    "route: capacity": ("needs expert_capacity, not -1", lambda: route(drop_pad_mode=1)),
    "route: scale": ("scale must have 2 elements, got 7", lambda: route(scale=r(7))),
    "route: smooth": ("scale must have 6 or 24 elements, got 12", lambda: route(scale=r(2, 6), quant_mode=1)),
    "route: offset": ("offset goes with quant_mode 0", lambda: route(offset=r(1))),
    "reroute: idx_type": ("idx_type 9", lambda: reroute(idx_type=9)),
    "reroute: type": ("expert_token_num_type 2", lambda: reroute(expert_token_num_type=2)),
    "reroute: scales": ("4 tokens and 2 per_token_scales", lambda: reroute(per_token_scales=r(2))),
    "map: tokens": (
        "9 tokens, but routing_map has 4 rows",
        lambda: f.npu_moe_token_permute_with_routing_map(r(9, 6), MAP.npu(), num_out_tokens=8),
    ),
    "map: no experts": (
        "the routing map has no elements",
        lambda: f.npu_moe_token_permute_with_routing_map(r(4, 6), MAP[:, :0].npu(), num_out_tokens=8),
    ),
    "map: capacity": (
        "num_out_tokens 24 are more rows of each expert than the 4 tokens",
        lambda: f.npu_moe_token_permute_with_routing_map(r(4, 6), MAP.npu(), num_out_tokens=24, drop_and_pad=True),
    ),
    "map gradient": (
        "experts_num is 0|routing_map must have 0 in dimension 1",
        lambda: f.npu_moe_token_permute_with_routing_map_grad(r(8, 6), r(8), i(*PLACES), MAP.npu(), 0, 4, True),
    ),
    "unmap: columns": (
        "permuted_tokens must have 5 in dimension 1, got 6",
        lambda: f.npu_moe_token_unpermute_with_routing_map(r(8, 6), i(*PLACES), [4, 5], routing_map=MAP.npu()),
    ),
    "unmap: tokens": (
        "routing_map must have 2 in dimension 0, got 4",
        lambda: f.npu_moe_token_unpermute_with_routing_map(r(8, 6), i(*PLACES), [2, 6], routing_map=MAP.npu()),
    ),
    "permute gradient": (
        "8 sorted_indices are not tokens_size_0",
        lambda: f.npu_moe_token_permute_grad_v2(r(8, 6), i(*PLACES), 2, torch.float32, 2),
    ),
    "permute gradient: k": (
        "tokens_size_0 is 4, num_topK 0",
        lambda: f.npu_moe_token_permute_grad_v2(r(8, 6), i(*PLACES), 4, torch.float32, 0),
    ),
    "unpermute gradient": (
        "probs need permuted_tokens",
        lambda: f.npu_moe_token_unpermute_grad_v2(r(4, 6), i(*PLACES), 8, torch.float32, probs=r(4, 2)),
    ),
    "replicas": (
        "local_rank_id is -1 of world_size -1",
        lambda: f.npu_moe_update_expert(i(1).reshape(1, 1), i(1, 0).reshape(1, 2)),
    ),
    # caches
    "pages: columns": (
        "key_cache must have 8 in dimension 3, got 4",
        lambda: f.npu_scatter_pa_kv_cache(
            r(2, 2, 8), r(2, 2, 8), r(3, 4, 2, 4), r(3, 4, 2, 8), i(0, 1), cache_mode="Norm"
        ),
    ),
    "pages: types": (
        r"the rows \(torch.float32\) and key_cache \(torch.float16\) must have one type",
        lambda: f.npu_scatter_pa_cache(r(2, 2, 8), i(0, 1), key_cache=r(3, 4, 2, 8).half()),
    ),
    "latent: short index": (
        "index must have 6 elements, got 4",
        lambda: latent("PA", 4, r(3, 2, 1, 32), r(3, 2, 1, 64)),
    ),
    "latent: parts of a view": (
        "k_cache in the mode PA_NZ .* must be contiguous",
        lambda: latent("PA_NZ", 6, r(3, 2, 1, 96)[..., :32], r(3, 2, 1, 64)),
    ),
    "latent: columns": (
        "ckv_cache must have 64 in dimension 3, got 32",
        lambda: latent("PA", 6, r(3, 2, 1, 32), r(3, 2, 1, 32)),
    ),
    "rope: short": ("indices must have 2 elements, got 1", lambda: rope(i(0))),
    "rope: pages": ("indices must have 6 elements, got 2", lambda: rope(i(0, 1), "page")),
    "rope: splits": ("size_splits gives key and value 16 and 32", lambda: rope(i(0, 5), splits=(16, 16, 32))),
    "rope: negative": ("size_splits has -32", lambda: rope(i(0, 5), splits=(80, -32, 16))),
    "rope: cache": ("k_cache has 1 sequences, x 2", lambda: rope(i(0, 5), cache=(1, 8, 1, 16))),
    "update: broadcast": (
        "dimension 1 of updates is 1, that of the tensor written 3",
        lambda: f.scatter_update_(r(2, 3, 6, 4), i(1, 4), r(2, 1, 2, 4), -2),
    ),
    "update: type": (
        r"input \(torch.float32\) and updates \(torch.int32\)",
        lambda: f.scatter_update(r(2, 3, 6, 4), i(1, 4), r(2, 3, 2, 4).int(), -2),
    ),
    "list: mask": (
        "mask must have 2 elements, got 1",
        lambda: f.npu_scatter_list_([r(2, 4, 3), r(2, 4, 3)], i(0, 0), r(2, 2, 1, 3), i(1).byte()),
    ),
    "list: batch": (
        "do not fit a tensor of",
        lambda: f.npu_scatter_list([r(2, 4, 3)], i(0), r(1, 1, 1, 3)),
    ),
    "mrope: heads": ("head_size is 0", lambda: mrope(head_size=0)),
    "mrope: head size": ("cos_sin_cache has 8 columns", lambda: mrope(head_size=5)),
    "mrope: tokens": ("query must have 2 in dimension 0, got 3", lambda: mrope(i(0, 1))),
    "mrope: sections": (
        "mrope_section adds up to 3, not to the 4",
        lambda: mrope(torch.zeros(3, 3).long().npu(), mrope_section=[1, 1, 1]),
    ),
    # attention
    "attention: heads": (
        "32 columns are not 5 heads",
        lambda: attend((2, 3, 32), (2, 3, 32), num_heads=5, input_layout="BSH"),
    ),
    "attention: batch": ("key has a batch of 3, query of 2", lambda: attend(key=(3, 4, 3, 8))),
    "attention: key heads": ("value has 2 heads, not 4", lambda: attend(value=(2, 2, 3, 8))),
    "attention: rows": ("5 rows of key and 3 of value", lambda: attend(key=(2, 4, 5, 8), value=(2, 4, 3, 8))),
    "attention: default heads": ("the query has 4 heads, not 1", lambda: attend(num_heads=1)),
    "attention: types": (
        "query is torch.float16 and key torch.float32",
        lambda: f.npu_fused_infer_attention_score(r(2, 4, 32).half(), r(2, 4, 32), r(2, 4, 32), num_heads=4),
    ),
    "attention: lengths": (
        "2 lengths of the keys for 3 sequences",
        lambda: attend((3, 4, 1, 8), (3, 4, 4, 8), actual_seq_lengths_kv=[1, 2]),
    ),
    "attention: a length": ("but there are 3 rows", lambda: attend(actual_seq_lengths_kv=[4, 2])),
    "pages: few lengths": (
        "2 lengths of the keys for 3 sequences",
        lambda: attend(
            (3, 2, 1, 8),
            (3, 2, 4, 8),
            num_heads=2,
            block_size=4,
            actual_seq_lengths_kv=[1, 2],
            block_table=torch.zeros(3, 1, dtype=torch.int32).npu(),
        ),
    ),
    "pages: negative": ("a length is not negative", lambda: pages([-5, 2])),
    "pages: rows of the table": ("block_table must have 2 in dimension 0, got 1", lambda: pages([1, 2], rows=1)),
    "pages: a table of floats": ("block_table must be .*int64, got torch.float", lambda: pages([1, 2], table=r(2, 2))),
    "parts: logarithms": (
        "lse must have 6 in dimension 0, got 5",
        lambda: f.npu_attention_update([r(6), r(5)], [r(6, 8)] * 2, 0),
    ),
    "parts: rows": (
        "local_out must have 6 in dimension 0, got 1",
        lambda: f.npu_attention_update([r(6)] * 2, [r(6, 8), r(1, 8)], 0),
    ),
    # quantization and products
    "rms quant": (r"gamma has sizes \[4\]", lambda: f.npu_rms_norm_quant(r(3, 8), r(4), r(8), r(1), q8(1))),
    "rms quant: one": (r"gamma has sizes \[1\]", lambda: f.npu_rms_norm_quant_v2(r(3, 8), r(1), r(1))),
    "rms quant: beta": (
        "beta must have 8 elements, got 5",
        lambda: f.npu_rms_norm_quant(r(3, 8), r(8), r(5), r(1), q8(1)),
    ),
    "group quant": ("scale must have 2 in dimension 0, got 3", lambda: f.npu_group_quant(r(5, 8), r(3, 8), i(2, 5))),
    "swiglu quant": ("x has 1 dimensions", lambda: f.npu_swiglu_quant(r(8))),
    "dequant swiglu quant": ("x has 1 dimensions", lambda: f.npu_dequant_swiglu_quant(r(8))),
    "quant max": ("x has no elements", lambda: f.npu_quant_max(r(0, 8), r(1))),
    "quant max: groups": (
        "scale must have 2 elements, got 1",
        lambda: f.npu_quant_max(r(5, 8), r(1), group_list=i(2, 5)),
    ),
    "grouped add": (
        "weight must have 5 in dimension 0, got 3",
        lambda: f.npu_grouped_matmul_add(r(2, 4, 6), r(5, 4).half(), r(3, 6).half(), i(2, 5)),
    ),
    "grouped add: groups": (
        "input must have 72 elements, got 48",
        lambda: f.npu_grouped_matmul_add_(r(2, 4, 6), r(5, 4).half(), r(5, 6).half(), i(2, 3, 5)),
    ),
    "grouped: scales": (
        "scale must have a tensor for each of 1 tensors of weight, it has 2",
        lambda: f.npu_grouped_matmul([r(3, 4)], [r(4, 5)], scale=[r(5), r(5)]),
    ),
    "grouped: x": (
        "group_list has 3 numbers for 2 x",
        lambda: f.npu_grouped_matmul(
            [r(3, 4)] * 2, [r(2, 4, 5)], group_list=i(1, 3, 6).long(), split_item=3, group_type=0
        ),
    ),
    "grouped: columns": (
        "group_type 2 takes one weight, there are 2",
        lambda: f.npu_grouped_matmul([r(3, 8)], [r(8, 4)] * 2, group_list=i(3, 8).long(), split_item=3, group_type=2),
    ),
    "grouped swiglu: scale": (
        r"weight_scale must have the sizes \[E, N\] = \[2, 12\], it has \[3, 12\]",
        lambda: f.npu_grouped_matmul_swiglu_quant(q8(6, 8), q8(2, 8, 12), i(2, 5).long(), r(3, 12), r(6)),
    ),
    "grouped swiglu: scales": (
        "weight_scale must have 2 in dimension 0, got 3",
        lambda: f.npu_grouped_matmul_swiglu_quant_v2(q8(6, 8), [q8(2, 8, 12)], [r(3, 12)], r(6), i(2, 5).long()),
    ),
    "experts: threshold": (
        "pruning_threshold must have the sizes",
        lambda: f.npu_moe_update_expert(
            i(0, 1, 2, 0).reshape(2, 2),
            i(1, 5, 0, 1, 3, 2, 1, 4, 0).reshape(3, 3),
            expert_scales=r(2, 2),
            pruning_threshold=r(1),
            active_mask=torch.ones(2, dtype=torch.bool).npu(),
            local_rank_id=0,
            world_size=6,
        ),
    ),
    "stride add": (
        r"other must have the sizes \[N, _, H, W, C\]",
        lambda: f.npu_stride_add(r(2, 5, 3, 1, 2), r(1, 20, 3, 1, 2), 2, 1, 2),
    ),
    "index sums: ends": (
        "the sequences end at 10, key at 9",
        lambda: npu.npu_dense_lightning_indexer_softmax_lse(
            r(6, 2, 4), r(9, 1, 4), r(6, 2), layout="TND", actual_seq_qlen=[3, 6], actual_seq_klen=[5, 10]
        ),
    ),
    "into: too many": (
        "npu_fused_infer_attention_score: out must have 2 tensors, it has 3",
        lambda: npu.npu_fused_infer_attention_score.out(*[r(1, 1, 2, 8)] * 3, input_layout="BNSD", out=[r(0)] * 3),
    ),
    "lora: layer": ("layer_idx is 5 of 1 layers", lambda: lora(layer_idx=5)),
    "lora: offset": ("y_offset -2", lambda: lora(y_offset=-2)),
    "lora: columns": ("columns 5 to 10 of 8", lambda: lora(y_offset=5)),
    "lora: slice": ("y_slice_size is 4, weight_b has 5 rows", lambda: lora(y_slice_size=4)),
    "ffn: experts": ("3 groups of tokens for 2 and 2 experts", lambda: ffn([2, 2, 1])),
    "ffn: rows": ("the groups have 3 rows, x 5", lambda: ffn([2, 1])),
    "ffn: ends": (r"expert_tokens_index is \[2, 1\], which decreases", lambda: ffn(expert_tokens_index=[2, 1])),
    "anti_quant: scale": (r"scale of \[3\] does not broadcast to \[2, 4\]", lambda: f.npu_anti_quant(q8(2, 4), r(3))),
    "anti_quant: offset": ("offset of", lambda: f.npu_anti_quant(q8(2, 4), r(4), offset=r(2, 1, 4))),
    "bce gradient: target": (
        "target of .* does not broadcast",
        lambda: npu.npu_binary_cross_entropy_with_logits_backward(r(2, 3), r(2, 3), r(2, 4), None, None, 1),
    ),
    "bce gradient: weight": (
        "weight_opt of .* does not broadcast",
        lambda: npu.npu_binary_cross_entropy_with_logits_backward(r(), r(2, 3), r(2, 3), r(2), None, 1),
    ),
    "layer norm gradient: rstd": (
        "rstd must have 2 elements, got 3",
        lambda: npu.npu_add_layer_norm_backward(r(2, 4), r(2, 4), r(2, 4), r(3, 1), r(2, 1), r(4), None),
    ),
    "layer norm gradient: gradient": (
        "dy_opt must have 2 in dimension 0, got 3",
        lambda: npu.npu_add_layer_norm_backward(r(3, 4), r(2, 4), r(2, 4), r(2, 1), r(2, 1), r(4), None),
    ),
    "kl_div target gradient": (
        "input of .* does not broadcast",
        lambda: npu.kl_div_target_backward(r(2, 8), r(8), r(), 1, log_target=False),
    ),
    "transposed: factor": (
        "batch_split_factor is 3; it divides the batch of 2",
        lambda: transposed(batch_split_factor=3),
    ),
    "transposed: no factor": ("batch_split_factor is 0", lambda: transposed(batch_split_factor=0)),
    "transposed: permutation": (r"\[0, 0, 1\] is not a permutation", lambda: transposed(perm_x1=[0, 0, 1])),
    "transposed: scale": ("exclude each other", lambda: transposed(batch_split_factor=2, scale=i(*range(10)).long())),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_at_the_call(name: str) -> None:
    message, call = CASES[name]
    with pytest.raises((RuntimeError, ValueError, NotImplementedError), match=message) as error:
        call()
    assert not isinstance(error.value, torch.AcceleratorError)
    torch.npu.synchronize()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (lambda: torch.zeros(2, 4, 32, dtype=torch.int32).npu(), "can't be cast to the desired output type Int"),
        (lambda: torch.zeros(2, 4, 32).half(), r"is on cpu and \w+ on npu:0; move out"),
        (lambda: torch.zeros(2, 4, 31).half().npu(), r"sizes \[2, 4, 31\] where \[2, 4, 32\] are expected"),
    ],
)
def test_results_that_cannot_be_given(out: Callable[[], torch.Tensor], message: str) -> None:
    q = r(2, 4, 32).half()
    with pytest.raises(RuntimeError, match=message):
        npu.npu_fused_infer_attention_score.out(q, q, q, num_heads=4, out=[out(), torch.empty(0).npu()])
    if "sizes" not in message:
        with pytest.raises(RuntimeError, match=message.replace("Half", "Float")):
            npu.npu_transpose.out(r(4, 2), [1, 0], out=out())


def test_an_empty_result_is_given_its_size() -> None:
    q, out = r(2, 4, 32).half(), torch.empty(0).half().npu()
    got = npu.npu_fused_infer_attention_score.out(q, q, q, num_heads=4, out=[out, torch.empty(0).npu()])
    expected = f.npu_fused_infer_attention_score(q, q, q, num_heads=4)[0]
    assert torch.equal(out.cpu(), expected.cpu()) and got[0].data_ptr() == out.data_ptr()


def test_no_tokens() -> None:
    rows, _, places = f.npu_moe_token_permute_with_routing_map(r(0, 6), MAP[:0].npu(), num_out_tokens=0)
    assert rows.shape == (0, 6) and places.shape == (0,)
