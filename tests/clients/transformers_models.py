"""GPT-2 and BERT, tiny, under transformers' own tests of models (ModelTesterMixin), on the device that it is told.

Not a test of this room by itself: test_transformers_own.py puts it among transformers' tests and has the client's
environment run it. transformers' source distribution has the common tests and not the files of each model, which say
little more than the sizes that are here.
"""

from __future__ import annotations

import unittest
from unittest import mock

import torch
import transformers
from transformers.testing_utils import torch_device

from .test_modeling_common import ModelTesterMixin, ids_tensor, random_attention_mask


class Sizes:
    """What the common tests ask of a model's tester."""

    is_training = True
    batch_size, seq_length, hidden_size, num_hidden_layers, num_attention_heads, num_choices = 4, 7, 32, 2, 4, 4
    config: transformers.PretrainedConfig

    def get_config(self) -> transformers.PretrainedConfig:
        return type(self.config)(**self.config.to_diff_dict())

    def prepare_config_and_inputs_for_common(self) -> tuple[transformers.PretrainedConfig, dict[str, torch.Tensor]]:
        shape = [self.batch_size, self.seq_length]
        inputs = {
            "input_ids": ids_tensor(shape, self.config.vocab_size),
            "attention_mask": random_attention_mask(shape),
        }
        return self.get_config(), inputs | {"token_type_ids": ids_tensor(shape, 2)}


class SizesOfGpt2(Sizes):
    config = transformers.GPT2Config(
        vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=98, eos_token_id=98, pad_token_id=98
    )


class SizesOfBert(Sizes):
    config = transformers.BertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37,
        max_position_embeddings=64, type_vocab_size=16,
    )  # fmt: skip


# What the tests allow in 16 bits on the CPU and CUDA, rtol and atol. Their table has no other device: of those they ask
# single precision's in every type (test_eager_matches_sdpa_inference: 1e-4 and 1e-7), which is less than a bit of 16.
HALVES = {torch.float16: 5e-3, torch.bfloat16: 1e-2}


class ModelTest(ModelTesterMixin):
    test_generation_tester_mixin_inheritance = None  # that a file of tests has generation's, too, which are not here

    def setUp(self) -> None:
        exact = torch.allclose

        def alike(a: torch.Tensor, b: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-8, **named) -> bool:
            least = HALVES.get(a.dtype, 0.0)
            return exact(a, b, rtol=max(rtol, least), atol=max(atol, least), **named)

        patch = mock.patch.object(torch, "allclose", alike)
        patch.start()
        self.addCleanup(patch.stop)


class Gpt2Test(ModelTest, unittest.TestCase):
    all_model_classes = (
        transformers.GPT2Model, transformers.GPT2LMHeadModel, transformers.GPT2ForSequenceClassification,
        transformers.GPT2ForTokenClassification,
    )  # fmt: skip
    all_parallelizable_model_classes = ()
    fx_compatible = False
    test_missing_keys = False

    def setUp(self) -> None:
        super().setUp()
        self.model_tester = SizesOfGpt2()

    def test_device(self) -> None:
        model = transformers.GPT2Model(self.model_tester.get_config()).to(torch_device)
        self.assertEqual(next(model.parameters()).device.type, torch_device)


class BertTest(ModelTest, unittest.TestCase):
    all_model_classes = (
        transformers.BertModel, transformers.BertForMaskedLM, transformers.BertForMultipleChoice,
        transformers.BertForNextSentencePrediction, transformers.BertForQuestionAnswering,
        transformers.BertForSequenceClassification, transformers.BertForTokenClassification,
    )  # fmt: skip
    fx_compatible = False

    def setUp(self) -> None:
        super().setUp()
        self.model_tester = SizesOfBert()
