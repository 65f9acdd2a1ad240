"""torch.library.opcheck: the schema is true, FakeTensor agrees, and traced results equal eager ones."""

from __future__ import annotations

import pytest
import torch

import torch_npu

CHECKS = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")

WINDOW = ([2, 2], [1] * 4, [0] * 4)


def leaf(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes).npu().requires_grad_()


def plain(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes).npu()


def routing() -> torch.Tensor:
    """One expert a token, so that as many rows as tokens come out."""
    return torch.eye(4)[:, :3].npu() + torch.tensor([[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]]).npu() > 0


def angles() -> torch.Tensor:
    return leaf(1, 1, 4, 8)


def powers(*sizes: int) -> torch.Tensor:
    """Scales of MX blocks, all 1."""
    return torch.full(sizes, 127, dtype=torch.uint8).npu()


def codes(*sizes: int) -> torch.Tensor:
    return torch.randint(0, 256, sizes).to(torch.uint8).npu()


CASES = {
    "npu_swiglu": lambda: (leaf(3, 8),),
    "npu_geglu": lambda: (leaf(3, 8),),
    "npu_gelu": lambda: (leaf(3, 8),),
    "npu_fast_gelu": lambda: (leaf(3, 8),),
    "npu_rms_norm": lambda: (leaf(3, 8), leaf(8)),
    "npu_add_rms_norm": lambda: (leaf(3, 8), leaf(3, 8), leaf(8)),
    "npu_add_layer_norm": lambda: (leaf(3, 8), leaf(3, 8), leaf(8), leaf(8)),
    "npu_deep_norm": lambda: (leaf(3, 8), leaf(3, 8), leaf(8), leaf(8)),
    "npu_group_norm_swish": lambda: (leaf(2, 6, 5), 3, leaf(6), leaf(6)),
    "npu_rotary_mul": lambda: (leaf(2, 3, 4, 8), angles(), angles()),
    "npu_interleave_rope": lambda: (leaf(2, 3, 4, 8), angles(), angles()),
    "npu_fusion_attention": lambda: (leaf(2, 2, 4, 8), leaf(2, 2, 4, 8), leaf(2, 2, 4, 8), 2, "BNSD"),
    "npu_scaled_masked_softmax": lambda: (leaf(2, 3, 4, 4), torch.zeros(2, 1, 4, 4).bool().npu()),
    "npu_cross_entropy_loss": lambda: (leaf(4, 6), torch.tensor([0, 5, 2, 1]).npu()),
    "npu_moe_token_permute": lambda: (leaf(4, 6), torch.tensor([[0, 1], [1, 2], [2, 0], [0, 2]]).npu()),
    "npu_moe_gating_top_k": lambda: (leaf(4, 6), 2),
    "npu_moe_token_permute_with_routing_map": lambda: (leaf(4, 6), routing()),
    "npu_fused_infer_attention_score": lambda: tuple(plain(2, 4, 8) for _ in range(3)),
    "npu_swiglu_quant": lambda: (plain(3, 8),),
    "npu_mhc_post": lambda: (leaf(3, 4, 6), leaf(3, 4, 4), leaf(3, 6), leaf(3, 4)),
    "npu_fused_linear_online_max_sum": lambda: (leaf(4, 6), leaf(8, 6), torch.tensor([0, 5, 2, 9]).npu(), 0, 7, True),
    "npu_masked_causal_conv1d": lambda: (leaf(5, 2, 4), leaf(3, 4)),
    "npu_fused_causal_conv1d": lambda: (plain(2, 3, 4), plain(3, 4), plain(2, 4, 4)),
    "npu_block_sparse_attention": lambda: (
        *(leaf(1, 2, 4, 3) for _ in range(3)),
        torch.tensor([[[[1, 0], [1, 1]], [[0, 1], [1, 0]]]]).char().npu(),
        [2, 2],
    ),
    "npu_chunk_gated_delta_rule": lambda: (leaf(3, 1, 2), leaf(3, 1, 2), leaf(3, 2, 4)),
    "npu_recurrent_gated_delta_rule": lambda: (plain(3, 1, 2), plain(3, 1, 2), plain(3, 2, 4), plain(4, 2, 4, 2)),
    "npu_top_k_top_p_sample": lambda: (plain(2, 5), torch.tensor([2, 0]).npu(), torch.tensor([0.5, 1.0]).npu()),
    "npu_deformable_conv2d": lambda: (leaf(1, 2, 5, 5), leaf(4, 2, 2, 2), leaf(1, 12, 4, 4), None, *WINDOW),
    "npu_lstm_cell": lambda: (leaf(2, 3), leaf(3, 8), leaf(2, 8), leaf(2, 2), leaf(2, 2)),
    "_gru_npu": lambda: (leaf(2, 3, 4), leaf(1, 3, 2), [leaf(6, 4), leaf(6, 2)], False, 1, 0.0, True, False),
    "npu_ps_roi_pooling": lambda: (leaf(1, 4, 5, 5), plain(1, 5, 3) * 0, 1.0, 2, 1),
    "npu_rotated_iou": lambda: (plain(1, 3, 5), plain(1, 2, 5)),
    "npu_normalize_batch": lambda: (leaf(2, 3, 6), torch.tensor([4, 6]).npu()),
    "npu_add_rms_norm_dynamic_quant": lambda: (plain(3, 8), plain(3, 8), plain(8)),
    "npu_mrope": lambda: (torch.arange(3).npu(), plain(3, 16), plain(3, 16), plain(5, 8), 8),
    "npu_giou": lambda: (leaf(4, 3), leaf(4, 3)),
    "npu_ffn": lambda: (plain(3, 4), plain(4, 6), plain(6, 4), "silu"),
    "npu_mhc_pre": lambda: (leaf(3, 4, 6), leaf(24, 24), leaf(3), leaf(24)),
    "npu_mhc_sinkhorn": lambda: (leaf(3, 4, 4),),
    "npu_lightning_indexer": lambda: (plain(2, 3, 4, 6), plain(2, 5, 1, 6), plain(2, 3, 4)),
    "npu_sparse_flash_attention": lambda: (
        leaf(2, 3, 4, 6),
        leaf(2, 5, 1, 6),
        leaf(2, 5, 1, 6),
        torch.tensor([[[0, 1]], [[2, -1]], [[4, 3]]]).int().repeat(2, 1, 1, 1).npu(),
        0.5,
    ),
    "npu_fused_floyd_attention": lambda: (
        *(leaf(1, 2, 2, n, 4) for n in (3, 5, 5)),
        *(leaf(1, 2, 5, 3, 4) for _ in range(2)),
    ),
    "npu_nsa_compress": lambda: (leaf(9, 2, 3), leaf(4, 2), 4, 2),
    "npu_nsa_select_attention": lambda: (
        leaf(3, 2, 4),
        leaf(5, 1, 4),
        leaf(5, 1, 4),
        torch.tensor([[[0, 1]], [[2, -1]], [[1, 0]]]).int().npu(),
        0.5,
        2,
        2,
        2,
    ),
    "npu_dynamic_mx_quant": lambda: (plain(3, 64),),
    "npu_dynamic_mx_quant_with_dual_axis": lambda: (plain(3, 64).half(),),
    "npu_quant_matmul": lambda: (codes(3, 32), codes(5, 32).t(), powers(1, 5, 2)),
    "npu_swiglu_mx_quant_with_dual_axis": lambda: (plain(3, 128).half(),),
    "npu_rotate_quant": lambda: (plain(3, 32).half(), plain(16, 16).half()),
    "npu_quant_conv2d": lambda: (plain(1, 2, 5, 5).to(torch.int8), plain(3, 2, 2, 2).to(torch.int8), plain(3)),
    "npu_gelu_quant": lambda: (plain(3, 7),),
    "npu_roi_align": lambda: (leaf(2, 3, 5, 7), torch.tensor([[1, 0.0, 2.0, 9.0, 8.0]]).npu(), 0.5, 2, 3, 2, 0),
    "npu_moe_token_unpermute": lambda: (leaf(4, 6), torch.tensor([2, 0, 3, 1]).int().npu(), leaf(2, 2)),
}
LISTS = {
    "npu_nsa_compress": {"actual_seq_len": [5, 9]},
    "npu_nsa_select_attention": {"actual_seq_qlen": [2, 3], "actual_seq_kvlen": [3, 5]},
    "npu_sparse_flash_attention": {"sparse_mode": 0},
    "npu_block_sparse_attention": {
        "q_input_layout": "BNSD",
        "kv_input_layout": "BNSD",
        "num_key_value_heads": 2,
        "scale_value": 0.5,
    },
    "npu_lightning_indexer": {"sparse_count": 3, "return_value": True},
    "npu_quant_conv2d": {"output_dtype": torch.float32},
    "npu_swiglu_mx_quant_with_dual_axis": {"dst_type": 296, "scale_alg": 0},
    "npu_quant_matmul": {
        "output_dtype": 6,
        "x1_dtype": 296,
        "x2_dtype": 296,
        "scale_dtype": 293,
        "pertoken_scale_dtype": 293,
    },
}
LENGTHS = {"actual_seq_lengths": torch.tensor([2, 1])}
KEYWORDS = {
    "npu_chunk_gated_delta_rule": lambda: {
        **LENGTHS,
        "initial_state": torch.randn(2, 2, 4, 2),
        "beta": torch.rand(3, 2),
    },
    "npu_quant_matmul": lambda: {"pertoken_scale": powers(3, 1, 2)},
    "npu_recurrent_gated_delta_rule": lambda: {**LENGTHS, "ssm_state_indices": torch.tensor([3, 0, 1])},
}


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_opcheck(name: str) -> None:
    named = {k: v.npu() for k, v in KEYWORDS.get(name, dict)().items()} | LISTS.get(name, {})
    torch.library.opcheck(getattr(torch.ops.npu, name).default, CASES[name](), named, test_utils=CHECKS)


def test_an_operator_that_writes_its_operand_says_so() -> None:
    x1, x2, gamma = torch.randn(3, 8).npu(), torch.randn(3, 8).npu(), torch.ones(8).npu()
    version = x1._version
    torch_npu.npu_add_rms_norm_v2(x1, x2, gamma)
    assert x1._version > version
    torch.library.opcheck(torch.ops.npu.npu_add_rms_norm_v2.default, (x1, x2, gamma), test_utils="test_schema")
