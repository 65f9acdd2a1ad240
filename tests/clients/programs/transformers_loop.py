"""transformers with a loop of one's own: tiny random models of eight kinds, twenty steps; what can generate, does.

Without dropout, so that the losses of two devices can be compared.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
import transformers

from tests.clients import harness

SEEN = 16  # tokens
WORDS = 64


def tokens(count: int = 8) -> torch.Tensor:
    """Sequences that a small model can learn."""
    return torch.stack([(torch.arange(SEEN) * (1 + i % 3) + i) % WORDS for i in range(count)])


def language(device: torch.device) -> dict[str, torch.Tensor]:
    x = tokens().to(device)
    return {"input_ids": x, "attention_mask": torch.ones_like(x), "labels": x.clone()}


def masked(device: torch.device) -> dict[str, torch.Tensor]:
    x = tokens().to(device)
    hidden = x.masked_fill(torch.arange(SEEN, device=device) % 4 == 0, WORDS - 1)
    return {"input_ids": hidden, "attention_mask": torch.ones_like(x), "labels": x}


def pictures(device: torch.device) -> dict[str, torch.Tensor]:
    labels = torch.arange(8) % 4
    noise = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    return {"pixel_values": (noise * 0.1 + labels[:, None, None, None] / 4).to(device), "labels": labels.to(device)}


def sound(device: torch.device) -> dict[str, torch.Tensor]:
    noise = torch.randn(4, 16, 64, generator=torch.Generator().manual_seed(1))
    return {"input_features": noise.to(device), "labels": tokens(4)[:, :8].to(device)}


def translation(device: torch.device) -> dict[str, torch.Tensor]:
    x = tokens().to(device)
    return {"input_ids": x, "labels": x.flip(1)[:, :8].contiguous()}


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=WORDS, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    ))  # fmt: skip


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=WORDS, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, bos_token_id=0, eos_token_id=0,
    ))  # fmt: skip


def bert():
    return transformers.BertForMaskedLM(transformers.BertConfig(
        vocab_size=WORDS, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    ))  # fmt: skip


def vit():
    return transformers.ViTForImageClassification(transformers.ViTConfig(
        image_size=32, patch_size=8, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_labels=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    ))  # fmt: skip


def t5():
    return transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=WORDS, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, dropout_rate=0.0,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
    ))  # fmt: skip


def whisper():
    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(
        vocab_size=WORDS, num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=32,
        max_target_positions=32, dropout=0.0, decoder_start_token_id=0, pad_token_id=0, bos_token_id=0, eos_token_id=1,
        suppress_tokens=None, begin_suppress_tokens=None,
    ))  # fmt: skip


def mamba():
    return transformers.MambaForCausalLM(transformers.MambaConfig(
        vocab_size=WORDS, hidden_size=32, state_size=8, num_hidden_layers=2, bos_token_id=0, eos_token_id=0,
        pad_token_id=0,
    ))  # fmt: skip


def mixtral():
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(
        vocab_size=WORDS, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, num_local_experts=4, num_experts_per_tok=2,
        bos_token_id=0, eos_token_id=0,
    ))  # fmt: skip


def generate(model, batch: dict[str, torch.Tensor]) -> None:
    """Greedy tokens equal those of the same weights on the CPU; sampling and beams run."""
    start = {k: v[:2] for k, v in batch.items() if k in ("input_features", "input_ids", "attention_mask")}
    if not model.config.is_encoder_decoder:
        start = {k: v[:, :6] for k, v in start.items()}
    settings = {"max_new_tokens": 6, "pad_token_id": 0}
    found = model.generate(**start, **settings, do_sample=False).cpu()
    host = copy.deepcopy(model).cpu()
    expected = host.generate(**{k: v.cpu() for k, v in start.items()}, **settings, do_sample=False)
    assert torch.equal(found, expected), f"greedy tokens {found.tolist()}, the CPU's {expected.tolist()}"
    model.generate(**start, **settings, do_sample=True, top_k=5, top_p=0.9)
    if not isinstance(model, transformers.MambaForCausalLM):
        model.generate(**start, **settings, do_sample=False, num_beams=3)


def train(what: harness.Run, make: Callable, data: Callable) -> list[float]:
    model = make().train()
    start = copy.deepcopy(model.state_dict())
    model = model.to(what.place)
    model.load_state_dict(start)
    # Adam's first steps on gradients that are nearly zero are as large as others, and their signs are rounding.
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3, eps=1e-5)
    scaler = torch.amp.GradScaler(what.device, init_scale=256.0, enabled=what.precision == "fp16")
    batch, losses = data(what.place), []
    for _ in range(20):
        with what.autocast():
            loss = model(**batch).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())
    if model.can_generate() and what.precision == "fp32":
        generate(model.eval(), batch)
    return losses


def register(make: Callable, data: Callable) -> None:
    harness.named(make.__name__)(lambda what: train(what, make, data))


for model_and_data in (
    (gpt2, language), (llama, language), (bert, masked), (vit, pictures), (t5, translation), (whisper, sound),
    (mamba, language), (mixtral, language),
):  # fmt: skip
    register(*model_and_data)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    harness.main()
