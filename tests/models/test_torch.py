"""The same model in PyTorch with autograd: the same loss, and the same gradient everywhere."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from minibert.arrays import IGNORED
from minibert.ops import Ops

from .common import gradient, make_batch, make_model

pytestmark = pytest.mark.parity


@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new", "relu"])
def test_loss_and_gradients_equal_autograds(ops: Ops, hidden_act: str) -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")

    model = make_model(ops, hidden_act=hidden_act)
    batch = make_batch(model)
    batch = batch._replace(  # their labels have one place for each token
        masked_positions=batch.masked_positions[:-1], masked_labels=batch.masked_labels[:-1]
    )
    output, _ = model.forward(batch)
    ours = gradient(model, batch)

    theirs = transformers.BertForPreTraining(transformers.BertConfig(**asdict(model.config)))
    theirs = theirs.double().eval()
    state: dict[str, Any] = {p.name: torch.from_numpy(p.value.copy()) for p in model.params}
    state["cls.predictions.decoder.weight"] = state["bert.embeddings.word_embeddings.weight"]
    state["cls.predictions.decoder.bias"] = state["cls.predictions.bias"]
    result = theirs.load_state_dict(state, strict=False)
    assert not result.unexpected_keys
    assert all(name.endswith("position_ids") for name in result.missing_keys)

    labels = np.full(batch.input_ids.size, IGNORED, np.int64)
    labels[batch.masked_positions] = batch.masked_labels
    loss = theirs(
        input_ids=torch.from_numpy(batch.input_ids).long(),
        token_type_ids=torch.from_numpy(batch.token_type_ids).long(),
        attention_mask=torch.from_numpy(batch.attention_mask).long(),
        labels=torch.from_numpy(labels.reshape(batch.input_ids.shape)),
        next_sentence_label=torch.from_numpy(batch.next_labels).long(),
    ).loss
    loss.backward()
    assert output.loss == pytest.approx(loss.item(), rel=1e-13)
    gradients = {name: p.grad.numpy() for name, p in theirs.named_parameters()}
    assert abs(ours).max() > 1e-3
    for parameter in model.params:
        if parameter.name == "bert.embeddings.word_embeddings.weight":
            pad = model.config.pad_token_id  # torch keeps the row of [PAD] at gradient 0
            decoder_only = np.delete(np.arange(len(parameter.grad)), pad)
            wanted, got = gradients[parameter.name][decoder_only], parameter.grad[decoder_only]
        else:
            wanted, got = gradients[parameter.name], parameter.grad
        scale = max(abs(wanted).max(), 1e-3)
        assert abs(got - wanted).max() < 1e-12 * scale, parameter.name
