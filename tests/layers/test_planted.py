"""Wrong backwards that people have published, or that learners write: each must be rejected.

Every entry replaces one operation of the reference by a wrong one, and names a check of the layer
that uses it.  What the checks of the other files cannot see would show here.
"""

import math
from functools import partial

import numpy as np
import pytest

from minibert.arrays import IGNORED
from minibert.config import BertConfig
from minibert.gradcheck import GradCheckError, KinkError, check_gradients, check_layer, check_pair
from minibert.keys import Key
from minibert.layers.add_norm import AddNorm
from minibert.layers.attention import (
    MultiHeadAttention,
    masked_scores,
    merge_heads,
    split_heads,
)
from minibert.layers.dropout import dropout_backward, dropout_forward
from minibert.layers.encoder_layer import EncoderLayer
from minibert.layers.feedforward import FeedForward
from minibert.layers.layernorm import LayerNorm, layernorm_backward
from minibert.layers.linear import Linear
from minibert.layers.softmax import softmax_backward
from minibert.ops import get_ops

from .common import build, normal, with_op

NUMPY = get_ops("numpy")
LABELS = np.array([3, IGNORED, 0, 3, IGNORED, 1], np.int32)
IDS = np.array([[1, 4, 4, 0], [4, 2, 1, 3]], np.int32)
TYPES = np.array([[0, 0, 1, 1], [0, 1, 1, 1]], np.int32)
MASK = np.arange(5) < np.array([5, 3, 4])[:, None, None]


# one check for each operation: it takes a backend and raises if its gradient is wrong


def check_linear(ops):
    layer, store = build(partial(Linear, in_features=4, out_features=4, ops=ops))
    check_layer(layer, store, {"x": normal(1, 2, 3, 4)})


def check_layernorm(ops):
    layer, store = build(partial(LayerNorm, width=5, eps=0.1, ops=ops))
    check_layer(layer, store, {"x": normal(1, 2, 3, 5)})


def check_add_norm(ops):
    layer, store = build(partial(AddNorm, width=5, eps=1e-12, rate=0.3, ops=ops))
    inputs = {"x": normal(1, 2, 3, 5), "residual": normal(2, 2, 3, 5), "key": Key(1)}
    check_layer(layer, store, inputs)


def check_dropout(ops):
    check_pair(
        lambda x: ops.dropout_forward(x, 0.4, 3),
        lambda dy, x: ops.dropout_backward(dy, 0.4, 3),
        {"x": normal(1, 5, 7)},
    )


def check_activation(ops, name):
    check_pair(
        getattr(ops, f"{name}_forward"),
        getattr(ops, f"{name}_backward"),
        {"x": normal(1, 5, 7, std=2.0)},
    )


CHECK_GELU = partial(check_activation, name="gelu")
CHECK_GELU_TANH = partial(check_activation, name="gelu_tanh")
CHECK_RELU = partial(check_activation, name="relu")


def check_tanh(ops):
    check_pair(
        ops.tanh_forward,
        lambda dy, x: ops.tanh_backward(dy, ops.tanh_forward(x)),
        {"x": normal(1, 5, 7)},
    )


def check_softmax(ops):
    check_pair(
        ops.softmax_forward,
        lambda dy, x: ops.softmax_backward(dy, ops.softmax_forward(x)),
        {"x": normal(1, 2, 3, 5)},
    )


def check_attention(ops):
    layer, store = build(partial(MultiHeadAttention, width=6, heads=2, rate=0.3, ops=ops))
    inputs = {"x": normal(1, 3, 4, 6), "mask": MASK, "key": Key(1), "memory": normal(2, 3, 5, 6)}
    check_layer(layer, store, inputs, absolute=["part.key.bias"])


def check_embedding(ops):
    check_pair(
        lambda *tables: ops.embedding_forward(IDS, TYPES, *tables),
        lambda dy, *tables: ops.embedding_backward(dy, IDS, TYPES, (5, 6, 2)),
        {"word": normal(1, 5, 3), "position": normal(2, 6, 3), "token_type": normal(3, 2, 3)},
    )


def check_cross_entropy(ops):
    check_pair(
        lambda logits: ops.cross_entropy_forward(logits, LABELS)[0],
        lambda dloss, logits: ops.cross_entropy_backward(
            dloss, ops.cross_entropy_forward(logits, LABELS)[1], LABELS
        ),
        {"logits": normal(1, 6, 4)},
    )


def check_vocab(ops):
    def backward(dloss, x, table, bias):
        dlogits = ops.vocab_cross_entropy_forward(x, table, bias, LABELS)[2]
        return ops.vocab_cross_entropy_backward(dloss, dlogits, x, table)

    check_pair(
        lambda x, table, bias: ops.vocab_cross_entropy_forward(x, table, bias, LABELS)[0],
        backward,
        {"x": normal(1, 6, 3), "table": normal(2, 5, 3), "bias": normal(3, 5)},
    )


# the mistakes: each takes what the right backward takes


def linear_with(dx=None, dweight=None, dbias=None):
    def backward(dy, x, weight):
        right = NUMPY.linear_backward(dy, x, weight)
        rows_dy, rows_x = dy.reshape(-1, dy.shape[-1]), x.reshape(-1, x.shape[-1])
        wrong = [
            change and change(dy, x, weight, rows_dy, rows_x) for change in (dx, dweight, dbias)
        ]
        return tuple(r if w is None else w for r, w in zip(right, wrong, strict=True))

    return backward


def layernorm_with(formula):
    def backward(dy, x_hat, rstd, weight):
        _, dweight, dbias = layernorm_backward(dy, x_hat, rstd, weight)
        return formula(dy, x_hat, rstd, weight), dweight, dbias

    return backward


def mean(x):
    return x.mean(axis=-1, keepdims=True)


def gain_outside(dy, x_hat, rstd, weight):
    return rstd * weight * (dy - mean(dy) - x_hat * mean(dy * x_hat))


def no_mean_term(dy, x_hat, rstd, weight):
    return rstd * (dy * weight - x_hat * mean(dy * weight * x_hat))


def no_variance_term(dy, x_hat, rstd, weight):
    return rstd * (dy * weight - mean(dy * weight))


def neither_term(dy, x_hat, rstd, weight):
    return rstd * dy * weight


def sums_by_n_minus_1(dy, x_hat, rstd, weight):
    C, g = dy.shape[-1], dy * weight
    return rstd * (g - mean(g) - x_hat * mean(g * x_hat) * C / (C - 1))


def no_gain(dy, x_hat, rstd, weight):
    return rstd * (dy - mean(dy) - x_hat * mean(dy * x_hat))


def no_rstd(dy, x_hat, rstd, weight):
    g = dy * weight
    return g - mean(g) - x_hat * mean(g * x_hat)


def means_over_rows(dy, x_hat, rstd, weight):
    g = dy * weight
    return rstd * (g - g.mean(axis=0) - x_hat * (g * x_hat).mean(axis=0))


def attention_with(change):
    """Attention's backward written out, with one line to be changed."""

    def backward(dcontext, q, k, v, mask, lse, heads, rate, seed):
        lines = {
            "mask": mask,
            "scale": 1 / math.sqrt(q.shape[-1] // heads),
            "softmax": softmax_backward,
            "dropped": lambda probs: dropout_forward(probs, rate, seed),
            "dprobs": lambda da: dropout_backward(da, rate, seed),
            "merge": merge_heads,
            "dk": lambda dscores, qh: dscores.swapaxes(-1, -2) @ qh,
            "dq": lambda dscores, kh: dscores @ kh,
        }
        lines |= change(q, k, v, mask, heads, rate, seed)
        qh, kh, vh, dctx = (split_heads(x, heads) for x in (q, k, v, dcontext))
        probs = np.exp(masked_scores(qh, kh, lines["mask"]) - lse[..., None])
        dv = lines["dropped"](probs).swapaxes(-1, -2) @ dctx
        dprobs = lines["dprobs"](dctx @ vh.swapaxes(-1, -2))
        dscores = lines["softmax"](dprobs, probs) * lines["scale"]
        dq, dk = lines["dq"](dscores, kh), lines["dk"](dscores, qh)
        return tuple(lines["merge"](x) for x in (dq, dk, dv))

    return backward


def heads_interleaved(x):  # (B, H, T, D) → (B, T, C) with the wrong axis last
    B, H, T, D = x.shape
    return x.transpose(0, 2, 3, 1).reshape(B, T, H * D)


def heads_not_moved(x):
    B, H, T, D = x.shape
    return x.reshape(B, T, H * D)


def embedding_with(change):
    def backward(dy, input_ids, token_type_ids, rows):
        gradients = list(NUMPY.embedding_backward(dy, input_ids, token_type_ids, rows))
        change(gradients, dy, input_ids, token_type_ids)
        return tuple(gradients)

    return backward


def plain_plus_equals(gradients, dy, input_ids, token_type_ids):
    gradients[0][:] = 0
    gradients[0][input_ids] += dy


def plain_plus_equals_types(gradients, dy, input_ids, token_type_ids):
    gradients[2][:] = 0
    gradients[2][token_type_ids] += dy


def positions_of_the_first_row(gradients, dy, input_ids, token_type_ids):
    gradients[1][: dy.shape[1]] = dy[0]


def positions_averaged(gradients, dy, input_ids, token_type_ids):
    gradients[1] /= len(dy)


def padding_row_left_out(gradients, dy, input_ids, token_type_ids):
    gradients[0][0] = 0


def counts_divided_out(gradients, dy, input_ids, token_type_ids):
    gradients[0] /= np.maximum(np.bincount(input_ids.ravel(), minlength=5), 1)[:, None]


def cross_entropy_with(formula):
    def backward(dloss, probs, labels):
        counted = labels != IGNORED
        one_hot = np.zeros_like(probs)
        one_hot[np.flatnonzero(counted), labels[counted]] = 1
        return formula(dloss, probs, one_hot, counted[:, None])

    return backward


def vocab_with(change):
    def backward(dloss, dlogits, x, table):
        gradients = list(NUMPY.vocab_cross_entropy_backward(dloss, dlogits, x, table))
        change(gradients, dloss, dlogits)
        return tuple(gradients)

    return backward


def scaled(number, factor):
    def change(gradients, *_):
        gradients[number] = gradients[number] * factor

    return change


def add_norm_with(formula):
    def backward(dy, x_hat, rstd, weight, rate, seed):
        right = NUMPY.add_norm_backward(dy, x_hat, rstd, weight, rate, seed)
        return (*formula(*right[:2], rate, seed), *right[2:])

    return backward


def gelu_forms(x):
    """Φ(x), φ(x)."""
    cdf = np.vectorize(lambda t: 0.5 * math.erfc(-t / math.sqrt(2)))(x)
    return cdf, np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


C_TANH = math.sqrt(2 / math.pi)


def gelu_tanh_slope(x, cubic=3 * 0.044715, square=1.0):
    h = np.tanh(C_TANH * (x + 0.044715 * x**3))
    return 0.5 * (1 + h) + 0.5 * x * (1 - h**2) * C_TANH * (square + cubic * x * x)


MISTAKES = {
    # linear
    "linear: weight not transposed back": (
        check_linear, "linear_backward", linear_with(dx=lambda dy, x, w, rdy, rx: dy @ w.T)),
    "linear: dweight transposed": (
        check_linear, "linear_backward", linear_with(dweight=lambda dy, x, w, rdy, rx: rx.T @ rdy)),
    "linear: dweight averaged over rows": (
        check_linear, "linear_backward",
        linear_with(dweight=lambda dy, x, w, rdy, rx: rdy.T @ rx / len(rx))),
    "linear: dweight of the first sequence only": (
        check_linear, "linear_backward",
        linear_with(dweight=lambda dy, x, w, rdy, rx: dy[0].T @ x[0])),
    "linear: bias of one row only": (
        check_linear, "linear_backward",
        linear_with(dbias=lambda dy, x, w, rdy, rx: rdy[0].copy())),
    "linear: bias averaged": (
        check_linear, "linear_backward",
        linear_with(dbias=lambda dy, x, w, rdy, rx: rdy.mean(axis=0))),
    "linear: dx from x": (
        check_linear, "linear_backward", linear_with(dx=lambda dy, x, w, rdy, rx: x @ w)),
    # LayerNorm
    **{
        f"layernorm: {formula.__name__}": (
            check_layernorm, "layernorm_backward", layernorm_with(formula))
        for formula in (gain_outside, no_mean_term, no_variance_term, neither_term,
                        sums_by_n_minus_1, no_gain, no_rstd, means_over_rows)
    },
    "layernorm: dweight without x_hat": (
        check_layernorm, "layernorm_backward",
        lambda dy, x_hat, rstd, w: (
            layernorm_backward(dy, x_hat, rstd, w)[0], dy.sum(axis=(0, 1)), dy.sum(axis=(0, 1)))),
    "layernorm: dweight with the gain": (
        check_layernorm, "layernorm_backward",
        lambda dy, x_hat, rstd, w: (
            layernorm_backward(dy, x_hat, rstd, w)[0],
            w * (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1)))),
    # add & norm
    "add_norm: residual forgotten": (
        check_add_norm, "add_norm_backward", add_norm_with(lambda dx, dr, rate, s: (dx, 0 * dr))),
    "add_norm: dropout on the residual too": (
        check_add_norm, "add_norm_backward", add_norm_with(lambda dx, dr, rate, s: (dx, dx))),
    "add_norm: no dropout in backward": (
        check_add_norm, "add_norm_backward", add_norm_with(lambda dx, dr, rate, s: (dr, dr))),
    "add_norm: halved between the two": (
        check_add_norm, "add_norm_backward",
        add_norm_with(lambda dx, dr, rate, s: (dx / 2, dr / 2))),
    # dropout
    "dropout: mask drawn anew": (
        check_dropout, "dropout_backward",
        lambda dy, rate, seed: dropout_backward(dy, rate, seed + 1)),
    "dropout: not scaled": (
        check_dropout, "dropout_backward",
        lambda dy, rate, seed: dropout_backward(dy, rate, seed) * (1 - rate)),
    "dropout: scaled by the rate": (
        check_dropout, "dropout_backward",
        lambda dy, rate, seed: dropout_backward(dy, rate, seed) * (1 - rate) / rate),
    "dropout: passed through": (check_dropout, "dropout_backward", lambda dy, rate, seed: dy),
    # activations
    "gelu: the tanh form's slope": (
        CHECK_GELU, "gelu_backward", NUMPY.gelu_tanh_backward),
    "gelu: without x φ(x)": (
        CHECK_GELU, "gelu_backward",
        lambda dy, x: dy * gelu_forms(x)[0]),
    "gelu: φ without x": (
        CHECK_GELU, "gelu_backward",
        lambda dy, x: dy * sum(gelu_forms(x))),
    "gelu: x Φ + φ": (
        CHECK_GELU, "gelu_backward",
        lambda dy, x: dy * (x * gelu_forms(x)[0] + gelu_forms(x)[1])),
    "gelu_tanh: the exact form's slope": (
        CHECK_GELU_TANH, "gelu_tanh_backward", NUMPY.gelu_backward),
    "gelu_tanh: cubic's 3 forgotten": (
        CHECK_GELU_TANH, "gelu_tanh_backward",
        lambda dy, x: dy * gelu_tanh_slope(x, cubic=0.044715)),
    "gelu_tanh: 0.134 for 0.134145": (
        CHECK_GELU_TANH, "gelu_tanh_backward",
        lambda dy, x: dy * gelu_tanh_slope(x, cubic=0.134)),
    "relu: slope of the output's size": (
        CHECK_RELU, "relu_backward",
        lambda dy, x: dy * np.maximum(x, 0)),
    "relu: always open": (
        CHECK_RELU, "relu_backward", lambda dy, x: dy),
    "relu: by the sign of dy": (
        CHECK_RELU, "relu_backward", lambda dy, x: dy * (dy > 0)),
    "tanh: 1 - y": (check_tanh, "tanh_backward", lambda dy, y: dy * (1 - y)),
    "tanh: y (1 - y), the logistic's": (
        check_tanh, "tanh_backward", lambda dy, y: dy * y * (1 - y)),
    "tanh: taken of y again": (
        check_tanh, "tanh_backward", lambda dy, y: dy * (1 - np.tanh(y) ** 2)),
    # softmax
    "softmax: without its sum": (check_softmax, "softmax_backward", lambda dy, y: dy * y),
    "softmax: as if element by element": (
        check_softmax, "softmax_backward", lambda dy, y: dy * y * (1 - y)),
    "softmax: sum not weighted": (
        check_softmax, "softmax_backward", lambda dy, y: y * (dy - dy.sum(axis=-1, keepdims=True))),
    "softmax: sum over the other axis": (
        check_softmax, "softmax_backward",
        lambda dy, y: y * (dy - (dy * y).sum(axis=-2, keepdims=True))),
    "softmax: mean for sum": (
        check_softmax, "softmax_backward", lambda dy, y: y * (dy - mean(dy * y))),
    # attention
    **{
        f"attention: {name}": (check_attention, "attention_backward", attention_with(change))
        for name, change in {
            "no 1/√D": lambda *_: {"scale": 1.0},
            "1/√C for 1/√D": lambda q, *_: {"scale": 1 / math.sqrt(q.shape[-1])},
            "1/D": lambda q, k, v, mask, heads, *_: {"scale": heads / q.shape[-1]},
            "no padding mask": lambda *_: {"mask": None},
            "softmax without its sum": lambda *_: {"softmax": lambda dy, y: dy * y},
            "no dropout on dprobs": lambda *_: {"dprobs": lambda da: da},
            "no dropout for dv": lambda *_: {"dropped": lambda probs: probs},
            "another mask in backward": lambda q, k, v, mask, heads, rate, seed: {
                "dprobs": lambda da: dropout_backward(da, rate, seed + 1)},
            "heads interleaved": lambda *_: {"merge": heads_interleaved},
            "dk not transposed": lambda q, k, *_: {
                "dk": lambda ds, qh: (ds @ split_heads(k, 2))[:, :, [0, 1, 2, 3, 3]]},
            "dq from q": lambda *_: {"dq": lambda ds, kh: ds @ ds.swapaxes(-1, -2) @ (ds @ kh)},
        }.items()
    },
    # embedding
    **{
        f"embedding: {change.__name__}": (
            check_embedding, "embedding_backward", embedding_with(change))
        for change in (plain_plus_equals, plain_plus_equals_types, positions_of_the_first_row,
                       positions_averaged, padding_row_left_out, counts_divided_out)
    },
    "embedding: only the first columns": (
        check_embedding, "embedding_backward",
        embedding_with(lambda gradients, *_: gradients[0].__setitem__((slice(None), 2), 0.0))),
    # losses
    **{
        f"cross_entropy: {name}": (
            check_cross_entropy, "cross_entropy_backward", cross_entropy_with(f))
        for name, f in {
            "ignored rows counted": lambda d, p, hot, counted: d * (p - hot),
            "ignored rows taken as label 0": lambda d, p, hot, counted: d * (
                p - hot - ~counted * np.eye(4)[0]),
            "label 0 taken as ignored": lambda d, p, hot, counted: d * (
                (p - hot) * counted * (1 - hot[:, :1])),
            "dloss forgotten": lambda d, p, hot, counted: (p - hot) * counted,
            "divided by all rows": lambda d, p, hot, counted: d * (p - hot) * counted / len(p),
            "divided by the counted rows": lambda d, p, hot, counted: (
                d * (p - hot) * counted / counted.sum()),
            "label not taken off": lambda d, p, hot, counted: d * p * counted,
            "only at the label": lambda d, p, hot, counted: d * (p - 1) * hot,
            "sign turned": lambda d, p, hot, counted: d * (hot - p) * counted,
            "softmax applied twice": lambda d, p, hot, counted: d * counted * (
                softmax_backward(p - hot, p)),
        }.items()
    },
    "vocab: table without dloss": (
        check_vocab, "vocab_cross_entropy_backward",
        vocab_with(lambda g, dloss, dlogits: g.__setitem__(1, g[1] / dloss))),
    "vocab: bias averaged": (
        check_vocab, "vocab_cross_entropy_backward",
        vocab_with(lambda g, dloss, dlogits: g.__setitem__(2, dloss * dlogits.mean(axis=0)))),
    "vocab: dloss squared in dx": (
        check_vocab, "vocab_cross_entropy_backward",
        vocab_with(lambda g, dloss, dlogits: g.__setitem__(0, g[0] * dloss))),
    "vocab: table 1 % too large": (
        check_vocab, "vocab_cross_entropy_backward", vocab_with(scaled(1, 1.01))),
    "vocab: table's last row missing": (
        check_vocab, "vocab_cross_entropy_backward",
        vocab_with(lambda g, dloss, dlogits: g[1].__setitem__(-1, 0.0))),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_rejected(name):
    check, op, wrong = MISTAKES[name]
    with pytest.raises(GradCheckError, match=r"the gradient of .* is wrong") as caught:
        check(with_op(NUMPY, op, wrong))
    assert not isinstance(caught.value, KinkError)


@pytest.mark.parametrize("check", dict.fromkeys(check for check, _, _ in MISTAKES.values()))
def test_without_a_mistake_the_same_check_passes(ops, check):
    check(ops)


def test_attention_written_out_is_right():
    # so that what is rejected above is the one changed line
    check_attention(with_op(NUMPY, "attention_backward", attention_with(lambda *_: {})))


# mistakes of the classes: in how gradients are added and handed on


def config() -> BertConfig:
    return BertConfig(
        hidden_size=4,
        num_attention_heads=2,
        intermediate_size=5,
        hidden_dropout_prob=0.3,
        attention_probs_dropout_prob=0.3,
    )


def encoder():
    layer, store = build(lambda scope: EncoderLayer(scope, config(), NUMPY))
    inputs = {"x": normal(1, 3, 5, 4), "mask": MASK, "key": Key(1)}
    return layer, store, inputs


def check_encoder(layer, store, inputs):
    check_layer(
        layer,
        store,
        inputs,
        absolute=["part.attention.self.key.bias"],
        max_elements=0,
        directions=2,
    )


def without(layer, part, number):
    """Make ``layer.part.backward`` return 0 in place of one of its gradients."""
    inner = getattr(layer, part)
    right = inner.backward

    def backward(dy, cache):
        gradients = right(dy, cache)
        if number is None:
            return 0 * gradients
        return tuple(0 * g if i == number else g for i, g in enumerate(gradients))

    inner.backward = backward


@pytest.mark.parametrize(
    ("part", "number"),
    [
        ("attention", 0),  # dquery
        ("attention", 1),  # dmemory
        ("add_norm1", 1),  # the residual around attention
        ("add_norm2", 1),  # the residual around the feed-forward
        ("feedforward", None),
        ("projection", None),
    ],
)
def test_forgotten_path_through_an_encoder_layer(part, number):
    layer, store, inputs = encoder()
    without(layer, part, number)
    with pytest.raises(GradCheckError, match=r"the gradient of x is wrong|Also wrong: x"):
        check_encoder(layer, store, inputs)


@pytest.mark.parametrize("factor", [0.0, 1.01])
def test_gradient_of_a_parameter_lost_or_scaled(factor):
    layer, store, inputs = encoder()
    y, cache = layer.forward(**inputs)
    dy = normal(1, *y.shape)
    layer.backward(dy, cache)
    names = [p.name for p in store if p.name != "part.attention.self.key.bias"]
    assert len(names) == 15
    for name in names:
        tensor = {name: (store[name].value, factor * store[name].grad)}
        with pytest.raises(GradCheckError, match=f"the gradient of {name} is wrong"):
            check_gradients(
                lambda: float(np.sum(dy * layer.forward(**inputs)[0])),
                tensor,
                max_elements=2,
                directions=2,
            )


def test_key_bias_with_a_gradient():
    layer, store, inputs = encoder()
    key_bias = store["part.attention.self.key.bias"]
    right = key_bias.accumulate
    key_bias.accumulate = lambda dvalue: right(dvalue + 1e-6)
    with pytest.raises(GradCheckError, match=f"the gradient of {key_bias.name} is wrong"):
        check_encoder(layer, store, inputs)


def test_activation_of_the_wrong_form_in_backward():
    def make(scope):
        return FeedForward(scope.child("a"), scope.child("b"), 3, 5, "gelu", NUMPY)

    layer, store = build(make)
    layer.act_backward = NUMPY.gelu_tanh_backward
    with pytest.raises(GradCheckError, match="is wrong"):
        check_layer(layer, store, {"x": normal(1, 4, 3)})


def test_key_drawn_anew_in_each_forward_is_not_deterministic():
    layer, store, inputs = encoder()
    count = iter(range(1000))
    right = layer.forward
    layer.forward = lambda x, mask, key: right(x, mask, key.child(next(count)))
    with pytest.raises(GradCheckError, match="the loss is not deterministic"):
        check_encoder(layer, store, inputs)
