"""Hostile arguments: a call gives what the reference gives, or raises ValueError or TypeError.

Compiled kernels check no bounds, so what reaches them unchecked reads foreign memory.  Here every
public function that takes arrays gets them with ids out of range, of wrong dtypes, shapes and
ranks, empty, strided, byte-swapped, read-only; and numbers that make no sense.  An IndexError, a
crash, or a result where the reference has none or another one, is a mistake.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.arrays import IGNORED, Array
from minibert.config import BertConfig
from minibert.data import BatchSource
from minibert.gradcheck import GradCheckError, check_gradients
from minibert.inference import attention_maps, embed, fill_mask, next_sentence
from minibert.keys import Key
from minibert.layers.add_norm import AddNorm
from minibert.layers.attention import MultiHeadAttention
from minibert.layers.combinators import Checkpoint, Repeat
from minibert.layers.encoder_layer import EncoderLayer
from minibert.layers.feedforward import FeedForward
from minibert.layers.layernorm import LayerNorm
from minibert.layers.linear import Linear
from minibert.layers.pooling import mean_pool_forward
from minibert.models.embeddings import Embeddings
from minibert.models.pretraining import BertForPreTraining
from minibert.ops import get_ops
from minibert.tokenizer import SPECIAL_TOKENS, Tokenizer, Vocabulary

from .data.conftest import mixed, numbered  # noqa: F401, fixtures
from .layers.common import build
from .models.common import make_batch, make_model
from .ops.test_parity import close
from .ops.test_protocol import NAMES

REFERENCE = get_ops("numpy")
B, T, C, F, V, HEADS, LONGEST = 2, 3, 4, 5, 7, 2, 6
IDS = np.array([[0, 6, 6], [3, 0, 1]], np.int32)
TYPES = np.array([[0, 0, 1], [1, 0, 1]], np.int32)
LABELS = np.array([2, IGNORED, 6], np.int32)
MASK = np.array([[[True, True, False]], [[True, False, True]]])
WORDS = [*"abcdefg.!", "the", "dog", "runs", "##s", "##ing", "##e"]


class Refused:
    """What stands for a result where a call raised ValueError or TypeError."""


class Subclass(np.ndarray):
    pass


def unaligned(x: Array) -> Array:
    raw = np.zeros(x.nbytes + 1, np.uint8)[1:]
    y = np.ndarray(x.shape, x.dtype, raw.data)
    y[...] = x
    return y


def read_only(x: Array) -> Array:
    y = x.copy()
    y.setflags(write=False)
    return y


def with_one(x: Array, value: Any, dtype: Any = None) -> Array:
    y = x.astype(dtype or x.dtype)
    y.reshape(-1)[-1:] = value
    return y


ANY_ARRAY: dict[str, Callable[[Array], Any]] = {
    "list": lambda x: x.tolist(),
    "none": lambda x: None,
    "number": lambda x: 1,
    "word": lambda x: "abc",
    "single": lambda x: np.array(x.reshape(-1)[0]),
    "rank - 1": lambda x: x[0],
    "rank + 1": lambda x: x[None],
    "rank + 1 behind": lambda x: x[..., None],
    "one column more": lambda x: np.concatenate([x, x[..., :1]], axis=-1),
    "one row more": lambda x: np.concatenate([x, x[:1]]),
    "one column less": lambda x: x[..., 1:],
    "one row less": lambda x: x[1:],
    "one column": lambda x: x[..., :1],
    "one row": lambda x: x[:1],
    "no row": lambda x: x[:0],
    "no column": lambda x: x[..., :0],
    "transposed": lambda x: x.T,
    "flat": lambda x: x.reshape(-1),
    "reversed": lambda x: x[..., ::-1],
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "columns first": lambda x: np.asfortranarray(x),
    "read-only": read_only,
    "unaligned": unaligned,
    "stretched": lambda x: np.broadcast_to(x[..., :1], x.shape),
    "byte-swapped": lambda x: x.astype(x.dtype.newbyteorder()),
    "subclass": lambda x: x.view(Subclass),
    **{
        kind: lambda x, kind=kind: x.astype(kind)
        for kind in ("f2", "f4", "f8", "g", "c8", "i1", "u1", "i8", "u8", "?", "O", "U")
    },
}
VALUES: dict[str, dict[str, Callable[[Array], Any]]] = {
    "f": {
        "nan": lambda x: with_one(x, np.nan),
        "inf": lambda x: with_one(x, np.inf),
        "-inf": lambda x: with_one(x, -np.inf),
        "zeros": lambda x: 0 * x,
    },
    "i": {
        "-1": lambda x: with_one(x, -1),
        "ignored": lambda x: with_one(x, IGNORED),
        "-100 as a byte": lambda x: with_one(x, 256 - 100, np.uint8),
        "V": lambda x: with_one(x, V),
        "255 as a byte": lambda x: with_one(x, 255, np.uint8),
        "2**31": lambda x: with_one(x, 2**31, np.int64),
        "2**32": lambda x: with_one(x, 2**32, np.int64),
        "-2**31": lambda x: with_one(x, -(2**31)),
        "2**63": lambda x: with_one(x, 2**63, np.uint64),
    },
    "b": {"nothing": lambda x: x & False, "everything": lambda x: x | True},
}
NUMBERS: list[Any] = [0, -1, 1, 3, 2.0, 0.5, -0.5, np.nan, True, None, "2", [1], 2**64]
TUPLES: list[Any] = [
    (0, 0, 0), (6, LONGEST, 2), (V, 2, 2), (V, LONGEST, 1), (-V, LONGEST, 2),
    (V, LONGEST, 2.0), (float(V), LONGEST, 2), (V, LONGEST), (None, None, None), None, V,
]  # fmt: skip


def hostile_forms(value: Any) -> Iterator[tuple[str, Any]]:
    """Every hostile stand-in for one argument, by name."""
    if isinstance(value, np.ndarray):
        for name, change in (ANY_ARRAY | VALUES[value.dtype.kind]).items():
            yield name, change(value)
    else:
        for other in TUPLES if isinstance(value, tuple) else NUMBERS:
            if not (isinstance(value, float) and other == 2**64):  # just a large number
                yield repr(other), other


def attempt(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a function; what it raises must be ValueError or TypeError, and then it is Refused."""
    try:
        with np.errstate(all="ignore"):
            return function(*arguments, **named)
    except (ValueError, TypeError, np.exceptions.ComplexWarning):
        return Refused


def parts_of(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def is_empty(result: Any) -> bool:
    """Is there no number in it, or only the loss 0 of no rows?"""
    return all(np.size(part) == 0 or not np.any(part) for part in parts_of(result))


def assert_sound(result: Any, expected: Any) -> None:
    """A refusal is sound, so is the reference's result, and emptiness where that has no answer.

    Where the reference is infinite or NaN, the result must not be finite.
    """
    if result is Refused:
        return
    if expected is Refused:
        assert is_empty(result), result
        return
    lost = any(np.isnan(part).any() for part in parts_of(expected))
    for part, wanted in zip(parts_of(result), parts_of(expected), strict=True):
        if isinstance(wanted, int) and lost:
            continue  # how many NaNs are the largest number of their row?
        finite = np.isfinite(wanted)
        np.testing.assert_array_equal(np.isfinite(part), finite)
        if isinstance(wanted, np.ndarray):
            assert part.dtype == wanted.dtype
        part, wanted = (np.where(finite, values, 0) for values in (part, wanted))
        close(part, wanted, np.dtype("f4"), floor=1.0)


# --- operations


def arguments_of(name: str, dtype: Any) -> dict[str, Any]:
    """Return good arguments for an operation."""
    generator = np.random.default_rng(3)

    def normal(*shape: int) -> Array:
        return generator.standard_normal(shape).astype(dtype)

    x, dy, residual, gain, bias = normal(B, T, C), normal(B, T, C), normal(B, T, C), normal(C), 0
    q, k, v, weight, bias = (
        normal(B, T, C),
        normal(B, T, C),
        normal(B, T, C),
        normal(F, C),
        normal(F),
    )
    word, position, token_type = normal(V, C), normal(LONGEST, C), normal(2, C)
    rows = {"rate": 0.3, "seed": 12345678901}
    heads = {"mask": MASK, "heads": HEADS, **rows}
    match name:
        case "linear_forward":
            return {"x": x, "weight": weight, "bias": bias}
        case "linear_backward":
            return {"dy": normal(B, T, F), "x": x, "weight": weight}
        case "feedforward_forward" | "feedforward_backward":
            weights = {"weight1": weight, "weight2": normal(C, F)}
            if name == "feedforward_forward":
                return {"x": x, **weights, "bias1": bias, "bias2": gain, "hidden_act": "gelu"}
            saved = {"wide": normal(B, T, F), "bent": normal(B, T, F)}
            return {"dy": dy, "x": x, **saved, **weights, "hidden_act": "gelu"}
        case "embedding_forward":
            tables = {"word": word, "position": position, "token_type": token_type}
            return {"input_ids": IDS, "token_type_ids": TYPES, **tables}
        case "embedding_backward":
            rows = (V, LONGEST, 2)
            return {"dy": dy, "input_ids": IDS, "token_type_ids": TYPES, "rows": rows}
        case "layernorm_forward":
            return {"x": x, "weight": gain, "bias": normal(C), "eps": 0.1}
        case "add_norm_forward":
            plain = {"x": x, "residual": residual, "weight": gain, "bias": normal(C), "eps": 0.1}
            return {**plain, **rows}
        case "layernorm_backward" | "add_norm_backward":
            _, x_hat, rstd = REFERENCE.layernorm_forward(x, gain, gain, 0.1)
            plain = {"dy": dy, "x_hat": x_hat, "rstd": rstd, "weight": gain}
            return {**plain, **rows} if name == "add_norm_backward" else plain
        case "dropout_forward":
            return {"x": x, **rows}
        case "dropout_backward":
            return {"dy": dy, **rows}
        case "softmax_forward":
            return {"x": x}
        case "softmax_backward" | "tanh_backward":
            return {"dy": dy, "y": REFERENCE.softmax_forward(x)}
        case "attention_forward":
            return {"q": q, "k": k, "v": v, **heads}
        case "attention_backward":
            context, lse = REFERENCE.attention_forward(q, k, v, **heads)
            del heads["mask"]
            return {"dcontext": dy, "q": q, "k": k, "v": v, "mask": MASK, "lse": lse, **heads}
        case "cross_entropy_forward":
            return {"logits": normal(3, V), "labels": LABELS}
        case "cross_entropy_backward":
            probs = REFERENCE.softmax_forward(normal(3, V))
            return {"dloss": 0.3, "probs": probs, "labels": LABELS}
        case "vocab_cross_entropy_forward":
            return {"x": normal(3, C), "table": word, "bias": normal(V), "labels": LABELS}
        case "vocab_cross_entropy_backward":
            return {"dloss": 0.3, "dlogits": normal(3, V), "x": normal(3, C), "table": word}
        case "orthogonalize":
            return {"matrices": normal(2, 3, 4), "iterations": 3}
        case "global_norm":
            return {"grad": normal(9)}
        case "adamw":
            buffers = {"value": normal(9), "grad": normal(9), "moment1": normal(9)}
            options = {"lr": 0.1, "beta1": 0.9, "beta2": 0.98, "eps": 1e-3, "decay": 0.01}
            more = {"decayed": 5, "correction1": 0.19, "correction2": 0.04, "grad_scale": 0.7}
            return {**buffers, "moment2": normal(9) ** 2, **options, **more}
    return {"dy": dy, "x": x} if name.endswith("_backward") else {"x": x}


def call(ops: Any, name: str, arguments: dict[str, Any]) -> Any:
    """Call an operation; of ``adamw`` return the buffers that it changes."""
    if name != "adamw":
        return getattr(ops, name)(**arguments)
    ops.adamw(**arguments)
    return tuple(arguments[buffer] for buffer in ("value", "moment1", "moment2"))


def copied(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        n: np.array(a, subok=True) if isinstance(a, np.ndarray) else a for n, a in arguments.items()
    }


def reference_result(name: str, arguments: dict[str, Any], good: dict[str, Any]) -> Any:
    """Return the reference's result.

    It checks less, since NumPy does; told to calculate with no array at all, or with one number,
    NumPy has no attribute or axis for it, and for others it only warns.
    """
    try:
        return attempt(call, REFERENCE, name, copied(arguments))
    except (AttributeError, IndexError):
        arrays = [arguments[n] for n, a in good.items() if isinstance(a, np.ndarray)]
        if all(np.ndim(a) > 0 and isinstance(a, np.ndarray) for a in arrays):
            raise
    except RuntimeWarning:
        pass
    return Refused


@pytest.mark.parametrize("name", NAMES)
def test_operations(ops: Any, dtype: np.dtype, name: str) -> None:
    """Each argument in each hostile form."""
    good = arguments_of(name, dtype)
    assert_sound(call(ops, name, copied(good)), call(REFERENCE, name, copied(good)))
    failures = []
    for argument in good:
        for form, hostile in hostile_forms(good[argument]):
            arguments = copied(good) | {argument: hostile}
            try:
                expected = reference_result(name, arguments, good)
                if ops is not REFERENCE:
                    assert_sound(attempt(call, ops, name, arguments), expected)
            except (Exception, Warning) as error:
                failures.append(f"{argument} {form}: {type(error).__name__} {error}")
    assert not failures, "\n".join(failures)


@given(st.data(), st.sampled_from(NAMES), st.sampled_from(["f4", "f8"]))
@settings(max_examples=400)
def test_operations_with_several_hostile_arguments(ops, data, name, dtype) -> None:
    good = arguments_of(name, dtype)
    chosen = data.draw(st.lists(st.sampled_from(sorted(good)), min_size=1, max_size=3, unique=True))
    arguments = copied(good)
    for argument in chosen:
        forms = dict(hostile_forms(good[argument]))
        arguments[argument] = forms[data.draw(st.sampled_from(sorted(forms)), label=argument)]
    expected = reference_result(name, arguments, good)
    if ops is not REFERENCE:
        assert_sound(attempt(call, ops, name, arguments), expected)


# --- layers

CONFIG = BertConfig(
    vocab_size=V,
    hidden_size=C,
    num_hidden_layers=1,
    num_attention_heads=HEADS,
    intermediate_size=F,
    max_position_embeddings=LONGEST,
    hidden_dropout_prob=0.3,
    attention_probs_dropout_prob=0.3,
)


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


X, PLACES = normal(1, B, T, C), np.array([[0, 2], [0, 1]], np.int32)
RANDOM = {"mask": MASK, "key": Key(1)}
LAYERS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "linear": (lambda scope, ops: Linear(scope, C, F, ops), {"x": X}),
    "layernorm": (lambda scope, ops: LayerNorm(scope, C, 0.1, ops), {"x": X}),
    "add_norm": (
        lambda scope, ops: AddNorm(scope, C, 0.1, 0.3, ops),
        {"x": X, "residual": normal(2, B, T, C), "key": Key(1)},
    ),
    "feedforward": (
        lambda scope, ops: FeedForward(scope.child("a"), scope.child("b"), C, F, "gelu", ops),
        {"x": X},
    ),
    "attention": (
        lambda scope, ops: MultiHeadAttention(scope, C, HEADS, 0.3, ops),
        {"x": X, **RANDOM, "memory": normal(3, B, T, C)},
    ),
    "encoder_layer": (
        lambda scope, ops: EncoderLayer(scope, CONFIG, ops),
        {"x": X, **RANDOM, "places": PLACES},
    ),
    "embeddings": (
        lambda scope, ops: Embeddings(scope, CONFIG, ops),
        {"input_ids": IDS, "token_type_ids": TYPES, "key": Key(1)},
    ),
    "repeat": (
        lambda scope, ops: Repeat(EncoderLayer(scope, CONFIG, ops), 2),
        {"x": X, **RANDOM, "places": PLACES},
    ),
    "checkpoint": (
        lambda scope, ops: Checkpoint(EncoderLayer(scope, CONFIG, ops)),
        {"x": X, **RANDOM, "places": PLACES},
    ),
}


def arrays_in(result: Any) -> tuple[Array, ...]:
    return tuple(part for part in parts_of(result) if isinstance(part, np.ndarray))


@pytest.mark.parametrize("name", LAYERS)
def test_layers(ops: Any, name: str) -> None:
    """Forward with each input, and backward with the gradient, in each hostile form."""
    make, good = LAYERS[name]
    (layer, store), (plain, plain_store) = (
        build(partial(make, ops=backend), dtype=np.float32) for backend in (ops, REFERENCE)
    )
    for argument, value in good.items():
        for form, hostile in hostile_forms(value) if isinstance(value, np.ndarray) else ():
            inputs = good | {argument: hostile}
            result = attempt(lambda of, inputs: of.forward(**inputs)[0], layer, inputs)
            expected = attempt(lambda of, inputs: of.forward(**inputs)[0], plain, inputs)
            try:
                assert_sound(result, expected)
            except AssertionError as error:
                raise AssertionError(f"{argument} {form}") from error
    (y, cache), (_, plain_cache) = layer.forward(**good), plain.forward(**good)
    for form, hostile in hostile_forms(normal(5, *y.shape)):
        store.zero_grad()
        plain_store.zero_grad()
        result = attempt(layer.backward, hostile, cache)
        expected = attempt(plain.backward, hostile, plain_cache)
        try:
            if result is not Refused and expected is not Refused:
                assert_sound(
                    (*arrays_in(result), store.grad), (*arrays_in(expected), plain_store.grad)
                )
            else:
                assert result is Refused, "the reference refused, and this did not"
        except AssertionError as error:
            raise AssertionError(f"dy {form}") from error


# --- models


def model_result(model: BertForPreTraining, batch: Any) -> Any:
    output, cache = model.forward(batch, Key(1))
    model.params.zero_grad()
    model.backward(cache)
    return output.masked_loss, output.masked_right, output.next_loss, model.params.grad.copy()


FIELDS = (
    "input_ids", "token_type_ids", "attention_mask",
    "masked_positions", "masked_labels", "next_labels",
)  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("every_place", [False, True])
def test_pretraining_model(ops: Any, field: str, every_place: bool) -> None:
    model, plain = make_model(ops, np.float32), make_model("numpy", np.float32)
    model.every_place = plain.every_place = every_place
    batch = make_batch(model)
    for form, hostile in hostile_forms(getattr(batch, field)):
        changed = batch._replace(**{field: hostile})
        try:
            expected = attempt(model_result, plain, changed)
            assert_sound(attempt(model_result, model, changed), expected)
        except Exception as error:
            raise AssertionError(f"{field} {form}: {error!r}") from error


def test_rows_beyond_what_a_byte_counts(ops: Any) -> None:
    """Positions as bytes, in a batch with more places than 255: places times rows wraps round."""
    model = make_model(ops)
    batch = make_batch(model, (11,) * 60)
    positions = np.arange(240, 256, dtype=np.int32)  # a whole row among them, so 12 to each row
    batch = batch._replace(masked_positions=positions, masked_labels=positions % 29)
    bytes_ = batch._replace(masked_positions=batch.masked_positions.astype(np.uint8))
    assert_sound(model_result(model, bytes_), model_result(model, batch))


@pytest.mark.parametrize("argument", ["input_ids", "token_type_ids", "attention_mask", "places"])
def test_encoder(ops: Any, argument: str) -> None:
    model, plain = make_model(ops, np.float32), make_model("numpy", np.float32)
    batch = make_batch(model)
    good = {name: getattr(batch, name) for name in FIELDS[:3]} | {"places": np.zeros((5, 2), int)}
    for form, hostile in hostile_forms(good[argument]):
        inputs = good | {argument: hostile}
        try:
            results = [
                attempt(lambda m, inputs: m.bert.forward(**inputs)[:2], m, inputs)
                for m in (model, plain)
            ]
            assert_sound(*results)
        except Exception as error:
            raise AssertionError(f"{argument} {form}: {error!r}") from error


# --- what is built on them

TEXTS: list[Any] = [
    "", " ", "[MASK]", "the dog " * 40, "\ud800", "\x00", b"bytes", None, 3, ["a"], np.zeros(2),
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS]))


@pytest.fixture(scope="module")
def model(ops: Any) -> BertForPreTraining:
    return make_model(ops, np.float32, vocab_size=len(SPECIAL_TOKENS) + len(WORDS) + 2)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text)[:12])
def test_inference_of_odd_texts(model, tokenizer, text) -> None:
    for function, arguments in (
        (fill_mask, (text,)), (fill_mask, ("the [MASK]", text)), (next_sentence, (text, "a")),
        (next_sentence, ("a", text)), (embed, ([text],)), (embed, (text,)),
        (attention_maps, (text,)), (attention_maps, ("a", text)),
    ):  # fmt: skip
        try:
            result = attempt(function, model, tokenizer, *arguments)
        except UserWarning:  # a text that was cut
            continue
        if isinstance(result, np.ndarray):
            assert np.isfinite(result).all()


@pytest.mark.parametrize("number", [*NUMBERS, -(2**70), 10**6], ids=repr)
def test_inference_with_odd_numbers(model, tokenizer, number) -> None:
    result = attempt(fill_mask, model, tokenizer, "the [MASK]", number)
    if result is not Refused:
        assert 1 <= len(result[0]) <= len(WORDS)
    for name in ("batch_size", "max_length"):
        result = attempt(embed, model, tokenizer, ["the dog", "a"], **{name: number})
        if result is not Refused:
            assert result.shape == (2, 12)
            assert np.isfinite(result).all()


def test_pooling(model) -> None:
    good = {"hidden": normal(1, 2, 3, 4), "attention_mask": MASK[:, 0]}
    for argument, value in good.items():
        for _, hostile in hostile_forms(value):
            inputs = good | {argument: hostile}
            if all(isinstance(array, np.ndarray) for array in inputs.values()):
                attempt(mean_pool_forward, **inputs)


@pytest.mark.parametrize(
    "ids",
    [
        [-1], [22], [2**31], [2**64], [1.0], [None], ["a"], [[1]], [np.nan], 3, None, "12", b"12",
        np.array([255], np.uint8), np.array([1.0]), np.array([[1, 2]]), np.array(3),
        np.array([2**63], np.uint64), np.array([None]),
    ],
    ids=repr,
)  # fmt: skip
def test_decode(tokenizer, ids) -> None:
    assert attempt(tokenizer.decode, ids) is Refused


def test_decode_takes_any_integers(tokenizer) -> None:
    wanted = tokenizer.decode([14, 15, 17])
    for kind in ("i1", "u1", ">i4", "u8"):
        assert tokenizer.decode(np.array([14, 15, 17], kind)) == wanted


def test_gradient_checks() -> None:
    value = np.array([[0.3, -0.7], [1.1, 0.2]])

    def check(value: Any, gradient: Any) -> Any:
        return check_gradients(lambda: float((value**2).sum()), {"value": (value, gradient)})

    assert check(value.copy(), 2 * value)
    for pair in ((0, lambda h: (h, 2 * value)), (1, lambda h: (value.copy(), h))):
        for form, hostile in hostile_forms(2 * value if pair[0] else value):
            try:
                attempt(check, *pair[1](hostile))
            except GradCheckError:
                pass  # it found the gradient wrong, as it is
            except AttributeError as error:
                if isinstance(hostile, np.ndarray):
                    raise AssertionError(form) from error


@pytest.mark.parametrize("number", NUMBERS[:-1], ids=repr)
def test_batches(mixed, number) -> None:  # noqa: F811
    corpus, vocab = mixed
    good = {"batch_size": 2, "max_length": 16}
    for name in (*good, "short_probability", "mask_probability"):
        options = {**good, "key": Key(1), name: number}

        def first(options: dict[str, Any]) -> Any:
            return BatchSource(corpus.all_documents(), vocab, **options).batch(0)

        batch = attempt(first, options)
        if batch is not Refused:
            assert (batch.input_ids >= 0).all()
            assert (batch.input_ids < len(vocab)).all()
    source = BatchSource(corpus.all_documents(), vocab, **good, key=Key(1))
    attempt(source.batch, number)


# --- all of it with bounds checked


@pytest.mark.slow
def test_no_kernel_leaves_its_arrays(tmp_path: Path) -> None:
    """Again with NUMBA_BOUNDSCHECK: an index out of range is an IndexError, which fails above.

    In a folder of its own: machine code with checks is several times slower.
    """
    environment = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    assert result.returncode == 0, result.stdout[-5000:]
