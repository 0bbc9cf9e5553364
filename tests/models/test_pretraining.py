"""The model for pretraining; what holds for every model and batch stands in tests/invariants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minibert.arrays import IGNORED
from minibert.config import PRESETS, BertConfig
from minibert.gradcheck import check_model
from minibert.keys import Key
from minibert.models.bert import Bert
from minibert.models.pretraining import (
    BertForPreTraining,
    Head,
    LossWeights,
    places_looked_at,
)
from minibert.ops import Ops, get_ops
from minibert.params import ParamStore

from .common import gradient, make_batch, make_model, small_config

TOLERANCE = {"float32": 1e-5, "float64": 1e-12}

# (encoder with pooler, with both heads); base and large are the published 110 M and 340 M
COUNTS = {
    "tiny": (4_385_920, 4_433_468),
    "mini": (11_170_560, 11_267_900),
    "small": (28_763_648, 29_058_876),
    "medium": (41_373_184, 41_668_412),
    "base": (109_482_240, 110_106_428),
    "large": (335_141_888, 336_226_108),
}


@pytest.mark.parametrize("name", PRESETS)
def test_parameter_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ParamStore, "allocate", lambda self: None)  # 336 million need no memory
    config = BertConfig.preset(name)
    store = ParamStore()
    Bert(store.scope("bert"), config, get_ops("numpy"))
    model = BertForPreTraining(config, "numpy")
    counts = tuple(sum(int(np.prod(p.shape)) for p in s) for s in (store, model.params))
    assert counts == COUNTS[name]


@pytest.mark.parametrize(
    ("heads", "architecture"),
    [
        ((), "BertModel"),
        (("pooler",), "BertModel"),
        (("masked",), "BertForMaskedLM"),
        (("pooler", "masked"), "BertForMaskedLM"),
        (("pooler", "next"), "BertForNextSentencePrediction"),
        (("pooler", "masked", "next"), "BertForPreTraining"),
    ],
)
def test_a_model_may_lack_heads(heads: tuple[Head, ...], architecture: str) -> None:
    whole, model = make_model("numpy"), BertForPreTraining(small_config(), "numpy", heads=heads)
    prefixes = {"pooler": "bert.pooler", "masked": "cls.pred", "next": "cls.seq"}
    lacking = tuple(prefix for head, prefix in prefixes.items() if head not in heads)
    kept = [name for name in whole.params.parameters if not name.startswith(lacking)]
    assert list(model.params.parameters) == kept
    assert model.heads == set(heads)
    parts = (model.bert.pooler, model.masked_head, model.next_head)
    assert [part is not None for part in parts] == [head in heads for head in prefixes]
    assert model.to_json() == {**whole.to_json(), "architectures": [architecture]}
    if len(heads) < 3:
        which = "masked-language" if "masked" not in heads else "next-sentence"
        with pytest.raises(ValueError, match=f"no {which} head, so it has no pretraining loss"):
            model.forward(make_batch(whole))


def test_heads_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="heads has 'nsp', expected some of pooler, masked, next"):
        BertForPreTraining(small_config(), "numpy", heads=["pooler", "nsp"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="heads has 'next' but not 'pooler', whose vector it"):
        BertForPreTraining(small_config(), "numpy", heads=["masked", "next"])


def test_weights_decay_and_biases_and_layernorms_do_not() -> None:
    model = make_model("numpy")
    kept = {p.name for p in model.params if not p.spec.decay}
    assert kept == {n for n in model.params.parameters if n.endswith(".bias") or "LayerNorm" in n}
    assert model.params.decayed == sum(p.value.size for p in model.params if p.spec.decay)


def test_loss_at_the_start_of_a_fresh_model_without_weights(ops: Ops) -> None:
    model = BertForPreTraining(BertConfig.preset("tiny", vocab_size=50), ops, np.float64)
    output, _ = model.forward(make_batch(model))  # all zeros: guessing exactly
    assert output.loss == pytest.approx(np.log(50) + np.log(2), rel=1e-12)


def test_only_masked_positions_reach_the_head(ops: Ops, dtype: np.dtype) -> None:
    """The loss of the picked rows is that of the full logits, read at those rows."""
    model = make_model(ops, dtype)
    batch = make_batch(model)
    output, _ = model.forward(batch)
    hidden, pooled, _ = model.bert.forward(*batch[:3])
    logits = model.masked_head.logits(hidden.reshape(-1, 12)).astype(np.float64)
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    counted = batch.masked_labels != IGNORED
    positions, labels = batch.masked_positions[counted], batch.masked_labels[counted]
    relative = 1e-5 if dtype == np.float32 else 1e-12
    assert output.masked_loss == pytest.approx(-logs[positions, labels].sum(), rel=relative)
    assert output.masked_count == counted.sum() == len(batch.masked_labels) - 1
    assert output.masked_right == (logits[positions].argmax(-1) == labels).sum()
    assert output.next_count == 4
    means = output.masked_loss / output.masked_count + output.next_loss / output.next_count
    assert output.loss == pytest.approx(means, rel=1e-6)


def test_places_looked_at_by_hand() -> None:
    # rows of 4 tokens: columns 1 and 3 of the first, none of the second, 2, 2 and 0 of the third
    places, moved = places_looked_at(np.array([1, 3, 10, 10, 8], np.int32), B=3, T=4)
    np.testing.assert_array_equal(places, [[0, 1, 3, 0], [0, 0, 0, 0], [0, 2, 2, 0]])
    np.testing.assert_array_equal(moved, [1, 2, 9, 10, 11])
    places, moved = places_looked_at(np.array([10, 1, 8, 3], np.int32), B=3, T=4)  # any order
    np.testing.assert_array_equal(places, [[0, 1, 3], [0, 0, 0], [0, 2, 0]])
    np.testing.assert_array_equal(moved, [7, 1, 8, 2])
    places, moved = places_looked_at(np.zeros(0, np.int32), B=2, T=4)
    np.testing.assert_array_equal(places, [[0], [0]])
    assert moved.shape == (0,)


def test_computing_every_place_changes_neither_loss_nor_gradient(ops: Ops, dtype: np.dtype) -> None:
    model, every = (make_model(ops, dtype) for _ in range(2))
    every.every_place = True
    batch = make_batch(model)
    assert model.forward(batch)[1].bert.layers[-1].places is not None
    assert every.forward(batch)[1].bert.layers[-1].places is None
    tolerance = TOLERANCE[str(dtype)]
    assert model.forward(batch)[0].loss == pytest.approx(
        every.forward(batch)[0].loss, rel=tolerance
    )
    wanted = gradient(every, batch)
    np.testing.assert_allclose(gradient(model, batch), wanted, atol=tolerance, rtol=tolerance)


def test_weights_scale_the_two_losses(ops: Ops) -> None:
    model = make_model(ops)
    batch = make_batch(model)
    output, _ = model.forward(batch, weights=LossWeights(0.25, 3.0))
    assert output.loss == pytest.approx(0.25 * output.masked_loss + 3 * output.next_loss)
    masked = gradient(model, batch, weights=LossWeights(1.0, 0.0))
    next_ = gradient(model, batch, weights=LossWeights(0.0, 1.0))
    both = gradient(model, batch, weights=LossWeights(0.25, 3.0))
    np.testing.assert_allclose(both, 0.25 * masked + 3 * next_, atol=1e-12)


def test_two_backwards_add(ops: Ops) -> None:
    model = make_model(ops)
    once = gradient(model, make_batch(model))
    _, cache = model.forward(make_batch(model))
    model.backward(cache)  # gradient() left one in place
    np.testing.assert_allclose(model.params.grad, 2 * once, rtol=1e-12, atol=1e-15)


def test_same_key_same_bytes_another_key_another_loss(ops: Ops, dtype: np.dtype) -> None:
    model = make_model(ops, dtype)
    batch = make_batch(model)
    first = gradient(model, batch, key=Key(1))
    assert gradient(model, batch, key=Key(1)).tobytes() == first.tobytes()
    losses = {model.forward(batch, key)[0].loss for key in (None, Key(1), Key(2))}
    assert len(losses) == 3


def test_embedding_gradient_is_that_of_both_uses(ops: Ops) -> None:
    """Taking away the decoder's part leaves the look-up's: nothing for tokens not in the batch.

    Nor for padding, which no one looks at.  Finite differences below check the sum.
    """
    model = make_model(ops)
    batch = make_batch(model)
    table = model.bert.embeddings.word
    gradient(model, batch)
    _, cache = model.forward(batch)
    decoder = (cache.weights.masked * cache.masked.dlogits.T) @ cache.masked.x
    lookup = abs(table.grad - decoder).max(axis=1)
    used = np.unique(batch.input_ids[batch.attention_mask])
    unused = np.setdiff1d(np.arange(29), used)
    assert 0 in unused
    np.testing.assert_allclose(lookup[unused], 0, atol=1e-15)
    assert (lookup[used] > 1e-6).all()
    assert (abs(decoder).max(axis=1) > 1e-9).all()  # every token is a candidate at every blank


def test_backends_agree(ops: Ops, dtype: np.dtype) -> None:
    reference, model = make_model("numpy", dtype), make_model(ops, dtype)
    batch = make_batch(model)
    wanted, got = reference.forward(batch, Key(4))[0], model.forward(batch, Key(4))[0]
    tolerance = TOLERANCE[str(dtype)]
    assert got.loss == pytest.approx(wanted.loss, rel=tolerance)
    assert got[2:4] == wanted[2:4]
    gradients = gradient(reference, batch, key=Key(4)), gradient(model, batch, key=Key(4))
    np.testing.assert_allclose(gradients[1], gradients[0], atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    ("field", "change", "error", "message"),
    [
        ("input_ids", lambda x: x + 24, ValueError, "input_ids holds"),
        ("token_type_ids", lambda x: x - 1, ValueError, "token_type_ids holds -1"),
        ("masked_positions", lambda x: x + 35, ValueError, "masked_positions .* 0 to 34"),
        ("masked_positions", lambda x: x - 35, ValueError, "masked_positions holds -"),
        ("masked_positions", lambda x: x[:-1], ValueError, "masked_labels has shape"),
        ("masked_positions", lambda x: x[None], ValueError, "masked_positions has shape"),
        ("masked_positions", lambda x: x * 1.0, TypeError, "masked_positions has dtype float64"),
        ("masked_labels", lambda x: x * 0 + 29, ValueError, "masked_labels holds 29, .* or -100"),
        ("masked_labels", lambda x: x * 0 - 1, ValueError, "masked_labels holds -1"),
        ("next_labels", lambda x: x * 0 + 2, ValueError, "next_labels holds 2"),
        ("next_labels", lambda x: x[1:], ValueError, r"next_labels has shape \(4,\)"),
    ],
)
def test_wrong_batch_is_refused(ops: Ops, field: str, change, error: type, message: str) -> None:
    model = make_model(ops)
    batch = make_batch(model)
    batch = batch._replace(**{field: change(getattr(batch, field))})
    with pytest.raises(error, match=message):
        model.forward(batch)


def check_every_gradient(ops: Ops, **changes: Any) -> None:
    """With dropout, padding, repeated ids, a position asked for twice and ignored labels."""
    model = make_model(ops, **changes)
    results = check_model(model, make_batch(model), Key(6))
    assert {result.name for result in results} == set(model.params.parameters)


@pytest.mark.slow  # the gradient suite has a smaller one
def test_every_gradient_against_finite_differences(ops: Ops) -> None:
    check_every_gradient(
        ops,
        vocab_size=13,
        hidden_size=4,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=5,
    )


@pytest.mark.slow
def test_every_gradient_of_two_layers(ops: Ops) -> None:
    check_every_gradient(ops, hidden_act="gelu_new")
