import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.gradcheck import check_layer, check_pair
from minibert.keys import Key
from minibert.layers.attention import (
    MultiHeadAttention,
    attention_probs,
    merge_heads,
    split_heads,
)
from minibert.params import ParamStore

from .common import (
    RATES,
    SEEDS,
    SIZES,
    assert_keeps_promises,
    assert_same,
    build,
    few,
    normal,
)

HEADS = st.sampled_from([(1, 1), (1, 2), (2, 1), (2, 3), (3, 2), (1, 5), (4, 2), (3, 1)])  # H, D
MASKS = st.sampled_from(["none", "padding", "free", "causal", "blind"])
LN3 = math.log(3)


def make_mask(kind: str, seed: int, B: int, T: int, S: int) -> np.ndarray | None:
    """A mask of the kind; "blind" leaves some queries nothing to look at."""
    if kind == "none":
        return None
    rng = np.random.default_rng(seed)
    if kind == "padding":
        return np.arange(S) < rng.integers(1, S + 1, (B, 1, 1))
    if kind == "causal":
        return np.broadcast_to(np.arange(S) <= np.arange(T)[:, None], (B, T, S)).copy()
    mask = rng.random((B, T, S)) < 0.6
    if kind == "free":
        mask[:, :, 0] = True
    return mask


def test_heads_are_columns_side_by_side():
    x = np.arange(12.0).reshape(1, 2, 6)  # token 0: 0 … 5, token 1: 6 … 11
    split = split_heads(x, 2)
    np.testing.assert_array_equal(split[0, 0], [[0, 1, 2], [6, 7, 8]])
    np.testing.assert_array_equal(split[0, 1], [[3, 4, 5], [9, 10, 11]])
    np.testing.assert_array_equal(merge_heads(split), x)


def test_by_hand(ops):
    # D = 4, q = [2, 0, 0, 0], k_0 = 0, k_1 = [ln 3, 0, 0, 0]:
    # scores = [0, 2 ln 3 / √4] = [ln 1, ln 3]
    q = np.array([[[2.0, 0.0, 0.0, 0.0]]])
    k = np.array([[[0.0, 0.0, 0.0, 0.0], [LN3, 0.0, 0.0, 0.0]]])
    v = np.array([[[4.0, 0.0, 1.0, 0.0], [8.0, 4.0, 1.0, 0.0]]])
    context, lse = ops.attention_forward(q, k, v, None, 1, 0.0, 0)
    # p = [¼, ¾]: context = ¼ · 4 + ¾ · 8 = 7, ¾ · 4 = 3, 1, 0;  lse = ln (1 + 3)
    np.testing.assert_allclose(context, [[[7.0, 3.0, 1.0, 0.0]]], rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(lse, [[[math.log(4)]]], rtol=1e-15)
    np.testing.assert_allclose(attention_probs(q, k, None, 1, lse), [[[[0.25, 0.75]]]], rtol=1e-14)

    dq, dk, dv = ops.attention_backward(
        np.array([[[1.0, 0.0, 0.0, 0.0]]]), q, k, v, None, lse, 1, 0.0, 0
    )
    # dp = [4, 8], Σ dp p = 7, dscores = [¼ (4 - 7), ¾ (8 - 7)] = [-¾, ¾], and half of that, by √4:
    # dq = ⅜ k_1 - ⅜ k_0 = [⅜ ln 3, …],  dk = [-⅜ q, ⅜ q] = [-¾, ¾] first,  dv = [¼, ¾]
    np.testing.assert_allclose(dq, [[[0.375 * LN3, 0, 0, 0]]], rtol=1e-14)
    np.testing.assert_allclose(dk, [[[-0.75, 0, 0, 0], [0.75, 0, 0, 0]]], rtol=1e-14)
    np.testing.assert_allclose(dv, [[[0.25, 0, 0, 0], [0.75, 0, 0, 0]]], rtol=1e-14)


def test_each_head_is_an_attention_of_its_own(ops):
    q, k, v = normal(1, 2, 3, 6), normal(2, 2, 5, 6), normal(3, 2, 5, 6)
    both, lse = ops.attention_forward(q, k, v, None, 2, 0.0, 0)
    for head in range(2):
        columns = slice(3 * head, 3 * head + 3)
        parts = [np.ascontiguousarray(x[..., columns]) for x in (q, k, v)]
        alone, lse_alone = ops.attention_forward(*parts, None, 1, 0.0, 0)
        np.testing.assert_allclose(both[..., columns], alone, rtol=1e-13)
        np.testing.assert_allclose(lse[:, head], lse_alone[:, 0], rtol=1e-13)


@few
@given(seed=SEEDS, B=st.integers(1, 3), T=SIZES, S=SIZES, heads=HEADS, kind=MASKS, rate=RATES)
def test_pair_gradients(ops, seed, B, T, S, heads, kind, rate):
    H, D = heads
    mask = make_mask(kind, seed, B, T, S)

    def backward(dcontext, q, k, v):
        _, lse = ops.attention_forward(q, k, v, mask, H, rate, seed)
        return ops.attention_backward(dcontext, q, k, v, mask, lse, H, rate, seed)

    # who sees one key alone gives it weight 1 whatever the score
    alone = S == 1 or (mask is not None and bool((mask.sum(axis=-1) <= 1).all()))
    q, k, v = three(seed, B, T, S, H * D)
    check_pair(
        lambda q, k, v: ops.attention_forward(q, k, v, mask, H, rate, seed)[0],
        backward,
        {"q": q, "k": k, "v": v},
        absolute=["q", "k"] if alone else [],
    )


def three(seed, B, T, S, C):
    return normal(seed, B, T, C), normal(seed + 1, B, S, C), normal(seed + 2, B, S, C)


class SelfAttention:
    """As in an encoder layer: the sequence asks itself, and both gradients of it add."""

    def __init__(self, inner: MultiHeadAttention) -> None:
        self.inner = inner
        self.forward = inner.forward

    def backward(self, dcontext, cache):
        dx, dmemory = self.inner.backward(dcontext, cache)
        return dx + dmemory


@few
@given(
    seed=SEEDS,
    B=st.integers(1, 2),
    T=SIZES.filter(lambda T: T > 1),
    heads=HEADS,
    kind=st.sampled_from(["none", "padding", "free"]),
    rate=st.sampled_from([0.0, 0.1]),
)
def test_layer_gradients(ops, seed, B, T, heads, kind, rate):
    H, D = heads
    mask = make_mask(kind, seed, B, T, T)
    if mask is not None:
        mask[..., :2] = True  # two keys at least for everyone
    make = partial(MultiHeadAttention, width=H * D, heads=H, rate=rate, ops=ops)
    layer, store = build(make, seed)
    check_layer(
        SelfAttention(layer),
        store,
        {"x": normal(seed, B, T, H * D), "mask": mask, "key": Key(seed)},
        # b_k adds q · b_k to every score of a query, and softmax takes no notice
        absolute=["part.key.bias"],
    )


def test_cross_attention_gradients(ops):
    layer, store = build(partial(MultiHeadAttention, width=6, heads=2, rate=0.1, ops=ops))
    check_layer(
        layer,
        store,
        {
            "x": normal(1, 3, 5, 6),
            "mask": make_mask("padding", 2, 3, 5, 7),
            "key": Key(1),
            "memory": normal(2, 3, 7, 6),
        },
        absolute=["part.key.bias"],
    )


def test_blind_queries_give_and_get_nothing(ops, dtype):
    # -inf for all keys gives NaN, and -1e4 the result without a mask; what is right is 0.
    q, k, v = (x.astype(dtype) for x in three(1, 2, 3, 4, 6))
    mask = np.ones((2, 3, 4), bool)
    mask[0, 1] = False
    mask[1] = False
    context, lse = ops.attention_forward(q, k, v, mask, 2, 0.0, 0)
    assert np.isfinite(context).all()
    np.testing.assert_array_equal(context[0, 1], 0)
    np.testing.assert_array_equal(context[1], 0)
    dcontext = normal(4, 2, 3, 6).astype(dtype)
    dq, dk, dv = ops.attention_backward(dcontext, q, k, v, mask, lse, 2, 0.0, 0)
    assert all(np.isfinite(gradient).all() for gradient in (dq, dk, dv))
    np.testing.assert_array_equal(dq[0, 1], 0)
    for gradient in (dq, dk, dv):
        np.testing.assert_array_equal(gradient[1], 0)
    # the rows that see something come out as if there were no others
    seeing = [0, 2]
    alone, _ = ops.attention_forward(
        np.ascontiguousarray(q[:1, seeing]), k[:1], v[:1], None, 2, 0.0, 0
    )
    np.testing.assert_allclose(
        context[:1, seeing], alone, rtol=1e-5 if dtype == np.float32 else 1e-13
    )


def test_padding_is_never_read(ops, dtype):
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    q, k, v = (x.astype(dtype) for x in three(1, 2, 5, 5, 6))
    dcontext = normal(4, 2, 5, 6).astype(dtype)
    mask = np.broadcast_to(np.arange(7) < 5, (2, 1, 7)).copy()
    rubbish = np.full((2, 2, 6), 1e4, dtype)
    long_k, long_v = (np.concatenate([x, rubbish], axis=1) for x in (k, v))
    context, lse = ops.attention_forward(q, k, v, None, 2, 0.0, 0)
    padded, padded_lse = ops.attention_forward(q, long_k, long_v, mask, 2, 0.0, 0)
    np.testing.assert_allclose(padded, context, rtol=0, atol=tolerance)
    gradients = ops.attention_backward(dcontext, q, k, v, None, lse, 2, 0.0, 0)
    dq, dk, dv = ops.attention_backward(dcontext, q, long_k, long_v, mask, padded_lse, 2, 0.0, 0)
    np.testing.assert_array_equal(dk[:, 5:], 0)
    np.testing.assert_array_equal(dv[:, 5:], 0)
    for a, b in zip((dq, dk[:, :5], dv[:, :5]), gradients, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


def test_a_full_mask_changes_nothing(ops):
    q, k, v = three(1, 2, 3, 5, 4)
    plain, plain_lse = ops.attention_forward(q, k, v, None, 2, 0.5, 9)
    for shape in [(2, 1, 5), (2, 3, 5)]:
        masked, lse = ops.attention_forward(q, k, v, np.ones(shape, bool), 2, 0.5, 9)
        np.testing.assert_allclose(masked, plain, rtol=1e-13)
        np.testing.assert_allclose(lse, plain_lse, rtol=1e-13)


def test_far_scores_do_not_overflow(ops, dtype):
    q, k, v = (x.astype(dtype) for x in three(1, 1, 3, 3, 4))
    context, lse = ops.attention_forward(200 * q, 200 * k, v, None, 1, 0.0, 0)
    assert np.isfinite(context).all()
    assert np.isfinite(lse).all()
    gradients = ops.attention_backward(v, 200 * q, 200 * k, v, None, lse, 1, 0.0, 0)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_key_decides_the_mask_and_none_switches_it_off(ops):
    layer, _ = build(partial(MultiHeadAttention, width=6, heads=2, rate=0.5, ops=ops))
    plain, _ = build(partial(MultiHeadAttention, width=6, heads=2, rate=0.0, ops=ops))
    x = normal(1, 2, 5, 6)
    first, _ = layer.forward(x, None, Key(1))
    assert_same(layer.forward(x, None, Key(1))[0], first)
    assert np.abs(layer.forward(x, None, Key(2))[0] - first).max() > 1e-2
    assert_same(layer.forward(x, None, None)[0], plain.forward(x, None, Key(1))[0])


def test_promises(ops):
    make = partial(MultiHeadAttention, width=6, heads=2, rate=0.3, ops=ops)
    mask = make_mask("padding", 1, 2, 7, 7)
    assert_keeps_promises(
        make,
        {"x": normal(1, 2, 7, 6), "mask": mask, "key": Key(1)},
        {"x": normal(2, 3, 4, 6), "mask": None, "key": Key(2), "memory": normal(3, 3, 5, 6)},
    )


def test_names_and_decay(ops):
    store = ParamStore()
    MultiHeadAttention(store.scope("self"), 6, 2, 0.1, ops)
    assert [(p.name, p.shape, p.spec.decay) for p in store] == [
        (f"self.{part}.{kind}", shape, kind == "weight")
        for part in ("query", "key", "value")
        for kind, shape in (("weight", (6, 6)), ("bias", (6,)))
    ]


def test_wrong_masks_are_named(ops):
    q, k, v = three(1, 2, 3, 5, 4)
    for dtype in (np.int64, np.float32):  # a mask of 0 and -1e9, or of 0 and 1
        with pytest.raises(TypeError, match=f"mask has dtype {np.dtype(dtype)}, expected bool"):
            ops.attention_forward(q, k, v, np.ones((2, 1, 5), dtype), 2, 0.0, 0)
    for shape in [(2, 5), (2, 1, 3), (1, 1, 5), (2, 2, 5), (2, 1, 1, 5), (2, 3, 1)]:
        with pytest.raises(ValueError, match=r"mask has shape .*, expected \(2, "):
            ops.attention_forward(q, k, v, np.ones(shape, bool), 2, 0.0, 0)


def test_wrong_shapes_are_named(ops):
    q, k, v = three(1, 2, 3, 5, 4)
    with pytest.raises(ValueError, match="the width 4 does not divide into 3 heads"):
        ops.attention_forward(q, k, v, None, 3, 0.0, 0)
    with pytest.raises(ValueError, match="the width 4 does not divide into 0 heads"):
        ops.attention_forward(q, k, v, None, 0, 0.0, 0)
    with pytest.raises(ValueError, match=r"q has shape \(3, 4\), expected"):
        ops.attention_forward(q[0], k, v, None, 2, 0.0, 0)
    with pytest.raises(ValueError, match=r"k has shape \(1, 5, 4\), expected \(2, any, 4\)"):
        ops.attention_forward(q, k[:1], v, None, 2, 0.0, 0)
    with pytest.raises(ValueError, match=r"k has shape \(2, 5, 2\), expected \(2, any, 4\)"):
        ops.attention_forward(q, k[..., :2], v, None, 2, 0.0, 0)
    with pytest.raises(ValueError, match=r"v has shape \(2, 1, 4\), expected \(2, 5, 4\)"):
        ops.attention_forward(q, k, v[:, :1], None, 2, 0.0, 0)
    _, lse = ops.attention_forward(q, k, v, None, 2, 0.0, 0)
    for shape in [(2, 1, 4), (1, 3, 4), (2, 3, 2)]:
        with pytest.raises(ValueError, match=r"dcontext has shape .*, expected \(2, 3, 4\)"):
            ops.attention_backward(np.zeros(shape), q, k, v, None, lse, 2, 0.0, 0)


def test_backward_refuses_too(ops):
    q, k, v = three(1, 2, 3, 5, 4)
    _, lse = ops.attention_forward(q, k, v, None, 2, 0.0, 0)
    with pytest.raises(TypeError, match="mask has dtype int64, expected bool"):
        ops.attention_backward(q, q, k, v, np.ones((2, 1, 5), np.int64), lse, 2, 0.0, 0)
    with pytest.raises(ValueError, match=r"mask has shape \(1, 1, 5\), expected"):
        ops.attention_backward(q, q, k, v, np.ones((1, 1, 5), bool), lse, 2, 0.0, 0)
    with pytest.raises(ValueError, match=r"v has shape \(2, 1, 4\), expected \(2, 5, 4\)"):
        ops.attention_backward(q, q, k, v[:, :1], None, lse, 2, 0.0, 0)
    with pytest.raises(ValueError, match="the width 4 does not divide into 3 heads"):
        ops.attention_backward(q, q, k, v, None, lse, 3, 0.0, 0)


@pytest.mark.parametrize("rate", [-0.5, 1.0])
def test_wrong_rate_is_named(ops, rate):
    with pytest.raises(ValueError, match=r"dropout rate is .*, expected 0 <= rate < 1"):
        ops.attention_forward(*three(1, 2, 3, 5, 4), None, 2, rate, 0)
