"""transformers' Trainer: a tiny random GPT-2, accumulated gradients, evaluation, a checkpoint resumed for an epoch."""

from __future__ import annotations

import torch
import transformers

from tests.clients import harness


class Sequences(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = (torch.arange(16) * (1 + index % 3) + index) % 64
        return {"input_ids": tokens, "labels": tokens.clone()}


def model():
    transformers.set_seed(0)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    ))  # fmt: skip


def trainer(what: harness.Run, epochs: int) -> transformers.Trainer:
    settings = transformers.TrainingArguments(
        output_dir=str(what.folder), per_device_train_batch_size=8, gradient_accumulation_steps=2,
        num_train_epochs=epochs, learning_rate=5e-3, lr_scheduler_type="constant", logging_steps=1, save_steps=4,
        save_total_limit=2, report_to=[], disable_tqdm=True, max_grad_norm=1.0, seed=0,
        use_cpu=what.device == "cpu", bf16=what.precision == "bf16", fp16=what.precision == "fp16",
        dataloader_pin_memory=False,
    )  # fmt: skip
    made = transformers.Trainer(model=model(), args=settings, train_dataset=Sequences(), eval_dataset=Sequences())
    assert made.args.device.type == what.device, made.args.device
    made.remove_callback(transformers.PrinterCallback)
    return made


@harness.run
def gpt2(what: harness.Run) -> list[float]:
    first = trainer(what, epochs=3)
    first.train()
    evaluated = first.evaluate()["eval_loss"]
    resumed = trainer(what, epochs=4)
    # On the CPU with ranks transformers 4 loads the checkpoint to "cpu:0", which PyTorch does not know: from the start.
    resumed.train(resume_from_checkpoint=what.device == "npu" or what.world == 1)
    # The log is part of the checkpoint: the resumed run's has the steps before it, too.
    losses = [entry["loss"] for entry in resumed.state.log_history if "loss" in entry]
    again = [entry["loss"] for entry in first.state.log_history if "loss" in entry]
    assert losses[: len(again)] == again, (losses, again)
    assert len(losses) * 3 == len(again) * 4, (losses, again)
    return [*losses, evaluated]


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    harness.main()
