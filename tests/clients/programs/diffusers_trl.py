"""diffusers (a tiny UNet with moving averages, a DDIM pipeline), trl (SFT) and sentence-transformers (its trainer)."""

from __future__ import annotations

import torch

from tests.clients import harness


@harness.run
def unet(what: harness.Run) -> list[float]:
    from diffusers import DDIMPipeline, DDIMScheduler, DDPMScheduler, UNet2DModel
    from diffusers.training_utils import EMAModel

    model = UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32),
        norm_num_groups=8, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8,
    ).to(what.place)  # fmt: skip
    average = EMAModel(model.parameters())
    schedule = DDPMScheduler(num_train_timesteps=100)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3, eps=1e-5)
    pictures = torch.linspace(-1, 1, 16).repeat(4, 3, 16, 1).to(what.place)
    generator, losses = torch.Generator().manual_seed(0), []
    for _ in range(12):
        noise = torch.randn(pictures.shape, generator=generator).to(what.place)
        steps = torch.randint(0, 100, (4,), generator=generator).to(what.place)
        with what.autocast():
            found = model(schedule.add_noise(pictures, noise, steps), steps).sample
        loss = torch.nn.functional.mse_loss(found.float(), noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        average.step(model.parameters())
        losses.append(loss.item())
    pipeline = DDIMPipeline(model.eval(), DDIMScheduler(num_train_timesteps=100))
    pipeline.set_progress_bar_config(disable=True)
    seed = torch.Generator().manual_seed(0)
    images = pipeline(batch_size=2, num_inference_steps=3, output_type="np", generator=seed).images
    return [*losses, float(images.mean()), float(images.std())]


def words(folder):
    """A tokenizer of single words, as a file that transformers loads."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"[PAD]": 0, "[UNK]": 1, "[EOS]": 2} | {f"w{i}": i + 3 for i in range(40)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", eos_token="[EOS]", model_max_length=32
    )
    made.save_pretrained(str(folder))
    return made


def sentence(i: int) -> str:
    return " ".join(f"w{(i + j * (1 + i % 3)) % 40}" for j in range(8))


@harness.run
def sft(what: harness.Run) -> list[float]:
    from datasets import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM, PrinterCallback
    from trl import SFTConfig, SFTTrainer

    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, eos_token_id=2, bos_token_id=2,
    ))  # fmt: skip
    settings = SFTConfig(
        output_dir=str(what.folder), per_device_train_batch_size=4, max_steps=12, learning_rate=5e-3, logging_steps=1,
        lr_scheduler_type="constant", report_to=[], disable_tqdm=True, save_strategy="no", max_length=32, seed=0,
        use_cpu=what.device == "cpu", bf16=what.precision == "bf16", fp16=what.precision == "fp16", adam_epsilon=1e-5,
        dataloader_pin_memory=False, gradient_checkpointing=True,
    )  # fmt: skip
    data = Dataset.from_dict({"text": [sentence(i) for i in range(48)]})
    trainer = SFTTrainer(model=model, args=settings, train_dataset=data, processing_class=words(what.folder / "words"))
    trainer.remove_callback(PrinterCallback)
    assert trainer.args.device.type == what.device
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@harness.run
def sentences(what: harness.Run) -> list[float]:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
        losses,
        models,
    )
    from transformers import BertConfig, BertModel, PrinterCallback

    folder = what.folder / "bert"
    words(folder)
    BertModel(BertConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )).save_pretrained(str(folder))  # fmt: skip
    body = models.Transformer(str(folder), max_seq_length=16)
    model = SentenceTransformer(modules=[body, models.Pooling(32)], device=str(what.place))
    settings = SentenceTransformerTrainingArguments(
        output_dir=str(what.folder / "out"), per_device_train_batch_size=8, max_steps=12, learning_rate=5e-3,
        logging_steps=1, lr_scheduler_type="constant", report_to=[], disable_tqdm=True, save_strategy="no", seed=0,
        use_cpu=what.device == "cpu", bf16=what.precision == "bf16", fp16=what.precision == "fp16", adam_epsilon=1e-5,
        dataloader_pin_memory=False,
    )  # fmt: skip
    pairs = {"anchor": [sentence(i) for i in range(48)], "positive": [sentence(i + 3) for i in range(48)]}
    trainer = SentenceTransformerTrainer(
        model=model, args=settings, train_dataset=Dataset.from_dict(pairs),
        loss=losses.MultipleNegativesRankingLoss(model),
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    found = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    vectors = model.encode([sentence(1), sentence(4)], convert_to_tensor=True, normalize_embeddings=True)
    assert vectors.device.type == what.device
    return [*found, (vectors[0] @ vectors[1]).item()]


if __name__ == "__main__":
    import transformers

    transformers.logging.set_verbosity_error()
    harness.main()
