"""Frozen parameters: the others' gradients stay the same, and what lies below costs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minibert.keys import Key
from minibert.layers.encoder_layer import EncoderLayer
from minibert.models.bert import Bert
from minibert.models.embeddings import Embeddings
from minibert.ops import Ops, get_ops
from minibert.params import ParamStore

from .common import make_batch, make_model, small_config
from .tasks import KINDS

L = 3
EMBEDDINGS = "bert.embeddings."


def pretraining(ops: str | Ops, dtype: Any = np.float64, **changes: Any) -> tuple[Any, Any]:
    model = make_model(ops, dtype, **changes)
    return model, make_batch(model)


EVERY: dict[str, Callable[..., tuple[Any, Any]]] = {**KINDS, "pretraining": pretraining}


def gradient(kind: str, model: Any, batch: Any) -> np.ndarray:
    model.params.zero_grad()
    _, cache = model.forward(batch, Key(3))
    model.backward(*(() if kind == "pretraining" else (0.5,)), cache)
    return model.params.grad.copy()


def up_to(k: int) -> tuple[str, ...]:
    """The embeddings and the first k layers."""
    return (EMBEDDINGS, *(f"bert.encoder.layer.{number}." for number in range(k)))


def freeze(model: Any, prefixes: tuple[str, ...]) -> None:
    model.params.unfreeze()
    model.params.freeze(lambda name: name.startswith(prefixes))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the backwards of layers and of embeddings were called, the layers by prefix."""
    counts: Counter[str] = Counter()

    def counted(owner: type, name: Callable[[Any], str]) -> None:
        original = owner.backward  # pyright: ignore

        def backward(self: Any, *arguments: Any) -> Any:
            counts[name(self)] += 1
            return original(self, *arguments)

        monkeypatch.setattr(owner, "backward", backward)

    counted(Embeddings, lambda part: part.word.name.removesuffix("word_embeddings.weight"))
    counted(EncoderLayer, lambda part: part.projection.weight.name.split("attention.")[0])
    return counts


@pytest.mark.parametrize("k", range(L + 1))
@pytest.mark.parametrize("kind", EVERY)
def test_frozen_from_below(
    ops: Ops, dtype: np.dtype, kind: str, k: int, calls: Counter[str]
) -> None:
    model, batch = EVERY[kind](ops, dtype, num_hidden_layers=L)
    wanted = gradient(kind, model, batch)
    assert calls == dict.fromkeys(up_to(L), 1)
    calls.clear()
    freeze(model, up_to(k))
    assert model.bert.lowest_trained() == k
    got = gradient(kind, model, batch)
    assert calls == dict.fromkeys(set(up_to(L)) - set(up_to(k)), 1)
    for start, stop, parameter in model.params.layout:
        assert parameter.frozen == parameter.name.startswith(up_to(k))
        if parameter.frozen:
            assert not got[start:stop].any(), parameter.name
        else:
            assert got[start:stop].tobytes() == wanted[start:stop].tobytes(), parameter.name
            assert got[start:stop].any(), parameter.name


@pytest.mark.parametrize(
    "prefix",
    [
        "bert.encoder.layer.1.",
        "bert.encoder.layer.0.",
        "bert.encoder.layer.2.",
        "bert.encoder.layer.0.attention.",
        "bert.embeddings.word_embeddings",
        "bert.embeddings.LayerNorm",
    ],
)
@pytest.mark.parametrize("kind", ["tagging", "pretraining"])
def test_frozen_in_between_hands_gradients_down(
    ops: Ops, kind: str, prefix: str, calls: Counter[str]
) -> None:
    model, batch = EVERY[kind](ops, num_hidden_layers=L)
    wanted = gradient(kind, model, batch)
    calls.clear()
    freeze(model, (prefix,))
    assert model.bert.lowest_trained() == -1
    got = gradient(kind, model, batch)
    assert calls == dict.fromkeys(up_to(L), 1)
    for start, stop, parameter in model.params.layout:
        right = np.zeros(stop - start) if parameter.frozen else wanted[start:stop]
        assert got[start:stop].tobytes() == right.tobytes(), parameter.name


def test_layers_above_a_trained_one_are_computed_though_frozen(
    ops: Ops, calls: Counter[str]
) -> None:
    """Embeddings and layer 0 frozen, 1 trained, 2 frozen: the way down ends at 1."""
    model, batch = EVERY["tagging"](ops, num_hidden_layers=L)
    wanted = gradient("tagging", model, batch)
    calls.clear()
    freeze(model, (*up_to(1), "bert.encoder.layer.2."))
    assert model.bert.lowest_trained() == 1
    got = gradient("tagging", model, batch)
    assert calls == {"bert.encoder.layer.1.": 1, "bert.encoder.layer.2.": 1}
    for start, stop, parameter in model.params.layout:
        right = np.zeros(stop - start) if parameter.frozen else wanted[start:stop]
        assert got[start:stop].tobytes() == right.tobytes(), parameter.name


@pytest.mark.parametrize("kind", ["classification", "regression", "tagging", "answering"])
def test_only_the_head_is_trained(ops: Ops, kind: str, calls: Counter[str]) -> None:
    model, batch = EVERY[kind](ops, num_hidden_layers=L)
    wanted = gradient(kind, model, batch)
    calls.clear()
    freeze(model, ("bert.",))
    assert model.bert.lowest_trained() == L
    got = gradient(kind, model, batch)
    assert not calls
    trained = [p.name for p in model.params if not p.frozen]
    assert len(trained) == 2
    for start, stop, parameter in model.params.layout:
        right = np.zeros(stop - start) if parameter.frozen else wanted[start:stop]
        assert got[start:stop].tobytes() == right.tobytes(), parameter.name


def test_one_free_bias_is_enough(ops: Ops, calls: Counter[str]) -> None:
    """A layer with a single trained parameter is not frozen."""
    model, batch = EVERY["tagging"](ops, num_hidden_layers=L)
    freeze(model, up_to(L))
    model.params.unfreeze("bert.encoder.layer.1.output.LayerNorm.bias")
    assert model.bert.lowest_trained() == 1
    gradient("tagging", model, batch)
    assert calls == {"bert.encoder.layer.1.": 1, "bert.encoder.layer.2.": 1}
    model.params.unfreeze("bert.embeddings.token_type_embeddings.weight")
    assert model.bert.lowest_trained() == -1


def test_unfrozen_everything_is_computed_again(ops: Ops) -> None:
    model, batch = EVERY["classification"](ops, num_hidden_layers=L)
    wanted = gradient("classification", model, batch)
    freeze(model, up_to(L))
    model.params.unfreeze()
    assert model.bert.lowest_trained() == -1
    assert gradient("classification", model, batch).tobytes() == wanted.tobytes()


def test_parts_are_embeddings_and_layers_each_once() -> None:
    """Twelve layers: 1 is not taken for 10 and 11 too."""
    config = small_config(num_hidden_layers=12)
    store = ParamStore()
    bert = Bert(store.scope("bert"), config, get_ops("numpy"))
    store.allocate()
    assert [len(part) for part in bert.parts] == [5] + 12 * [16]
    names = [parameter.name for part in bert.parts for parameter in part]
    assert sorted(names) == sorted(name for name in store.parameters if "pooler" not in name)
    for number in range(12):
        store.freeze(lambda name: name.startswith(up_to(number)))  # noqa: B023
        assert bert.lowest_trained() == number


def test_nothing_fed_back_adds_nothing(ops: Ops, calls: Counter[str]) -> None:
    for kind in ("classification", "tagging"):
        model, batch = EVERY[kind](ops)
        model.params.zero_grad()
        model.bert.backward(None, None, model.forward(batch)[1].bert)
        assert not model.params.grad.any()
    assert not calls


def test_both_gradients_of_hidden_add(ops: Ops) -> None:
    """That of hidden and that of pooled, given together or one at a time."""
    model, batch = EVERY["pretraining"](ops)
    hidden, pooled, cache = model.bert.forward(*batch[:3])
    generator = np.random.default_rng(1)
    dhidden = generator.standard_normal(hidden.shape)
    dpooled = generator.standard_normal(pooled.shape)
    found = []
    for given in ((dhidden, dpooled), (dhidden, None), (None, dpooled)):
        model.params.zero_grad()
        model.bert.backward(*given, cache)
        found.append(model.params.grad.copy())
    np.testing.assert_allclose(found[1] + found[2], found[0], rtol=1e-10, atol=1e-12)
    assert found[1].any()
    assert found[2].any()
