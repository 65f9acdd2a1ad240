"""accelerate (accumulation, clipping, metrics, saved state) and peft (LoRA on a tiny LLaMA, merged, reloaded)."""

from __future__ import annotations

import torch
from torch import nn

from tests.clients import harness


@harness.run
def accelerated(what: harness.Run) -> list[float]:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=False)  # another precision in the same process
    kind = "no" if what.precision == "fp32" else what.precision
    accelerator = Accelerator(cpu=what.device == "cpu", mixed_precision=kind, gradient_accumulation_steps=2)
    assert accelerator.device.type == what.device, accelerator.device
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(128, 16, generator=generator)
    targets = (inputs[:, :4].sum(1) > 0).long()
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, targets), batch_size=8)
    model = nn.Sequential(nn.Linear(16, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 8, 0.5)
    model, optimizer, data, schedule = accelerator.prepare(model, optimizer, data, schedule)
    losses = []
    for _ in range(2):
        for x, y in data:
            with accelerator.accumulate(model):
                with accelerator.autocast():
                    loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(accelerator.reduce(loss.detach(), "mean").item())
    accelerator.save_state(str(what.folder))
    accelerator.wait_for_everyone()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    accelerator.load_state(str(what.folder))
    torch.testing.assert_close([parameter.detach() for parameter in model.parameters()], before, rtol=0, atol=0)
    answers = [accelerator.gather_for_metrics((model(x).argmax(1), y)) for x, y in data]
    count = sum(len(y) for _, y in answers)
    assert count == 128, count
    return [*losses, sum((a == y).sum().item() for a, y in answers) / count]


@harness.run
def lora(what: harness.Run) -> list[float]:
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    settings = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    base = LlamaForCausalLM(settings)
    start = {name: value.clone() for name, value in base.state_dict().items()}
    modules = ["q_proj", "v_proj", "up_proj", "down_proj"]
    model = get_peft_model(base, LoraConfig(r=8, lora_alpha=16, target_modules=modules, task_type="CAUSAL_LM"))
    model = model.to(what.place)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 2e-2)
    tokens = torch.stack([(torch.arange(16) * (1 + i % 2) + i) % 64 for i in range(8)]).to(what.place)
    losses = []
    for _ in range(20):
        with what.autocast():
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    model.eval().save_pretrained(str(what.folder))
    other = LlamaForCausalLM(settings)
    other.load_state_dict(start)
    loaded = PeftModel.from_pretrained(other, str(what.folder)).to(what.place).eval()
    with torch.no_grad():
        expected = model(input_ids=tokens).logits
        torch.testing.assert_close(loaded(input_ids=tokens).logits, expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(loaded.merge_and_unload()(input_ids=tokens).logits, expected, rtol=1e-3, atol=1e-3)
    return losses


if __name__ == "__main__":
    harness.main()
