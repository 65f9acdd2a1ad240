"""The prolog of latent attention in the form that the wheel calls; the third is judged in tests/npu_ops/test_mla.py."""

from __future__ import annotations

import torch

TOKENS, HIDDEN, LOW, HEADS, PLAIN, LATENT, TURNED = 3, 64, 32, 2, 8, 64, 32
EPSILON = {"rmsnormEpsilonCq": 1e-3, "rmsnormEpsilonCkv": 1e-2}


def test_the_second_form_is_the_third_without_its_modes(npu):
    torch.manual_seed(3)

    def numbers(*sizes: int, scale: float = 0.3) -> torch.Tensor:
        return (torch.randn(sizes) * scale).bfloat16()

    given = {
        "tokenX": numbers(TOKENS, HIDDEN),
        "weightDq": numbers(HIDDEN, LOW),
        "weightUqQr": numbers(LOW, HEADS * (PLAIN + TURNED)),
        "weightUk": numbers(HEADS, PLAIN, LATENT),
        "weightDkvKr": numbers(HIDDEN, LATENT + TURNED),
        "rmsnormGammaCq": torch.rand(LOW).bfloat16(),
        "rmsnormGammaCkv": torch.rand(LATENT).bfloat16(),
        "ropeSin": numbers(TOKENS, TURNED),
        "ropeCos": numbers(TOKENS, TURNED),
        "kvCacheRef": torch.zeros(2, 4, 1, LATENT).bfloat16(),
        "krCacheRef": torch.zeros(2, 4, 1, TURNED).bfloat16(),
        "cacheModeOptional": "PA_BSND",
        "queryOut": torch.zeros(TOKENS, HEADS, LATENT).bfloat16(),
        "queryRopeOut": torch.zeros(TOKENS, HEADS, TURNED).bfloat16(),
        **EPSILON,
    }
    places = torch.tensor([5, 0, 2])
    modes = dict.fromkeys(("weightQuantMode", "kvCacheQuantMode", "queryQuantMode", "ckvkrRepoMode"), 0)
    third = {"quantScaleRepoMode": 0, "tileSize": 128, "qcQrScale": 1.0, "kcScale": 1.0, **modes}

    def called(op: str, **more: object) -> dict[str, torch.Tensor]:
        return npu.call(op, **{parameter.name: None for parameter in npu.signatures[op]} | given | more)

    found = called("aclnnMlaPrologV2WeightNz", cacheIndex=places)
    expected = called("aclnnMlaPrologV3WeightNz", cacheIndexOptional=places, **third)
    for name in ("queryOut", "queryRopeOut", "kvCacheRef", "krCacheRef"):
        assert torch.equal(found[name], expected[name]) and found[name].any()
    # The compressed key, normalized, lies in the token's place of the cache.
    key = given["tokenX"].float() @ given["weightDkvKr"].float()[:, :LATENT]
    key = key * (key.square().mean(-1, keepdim=True) + 1e-2).rsqrt() * given["rmsnormGammaCkv"].float()
    torch.testing.assert_close(found["kvCacheRef"].view(8, LATENT)[places].float(), key, rtol=2e-2, atol=2e-2)
