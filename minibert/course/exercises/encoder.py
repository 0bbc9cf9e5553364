"""Lesson 11: the encoder layer and the stack."""

from __future__ import annotations

from typing import Any

import numpy as np

from minibert.arrays import Array
from minibert.config import BertConfig
from minibert.course.exercise import Case, Exercise, Slip, Term
from minibert.keys import Key
from minibert.layers.encoder_layer import EncoderLayer, EncoderLayerCache
from minibert.models.counts import parameter_counts
from minibert.ops import get_ops
from minibert.params import Parameter, ParamStore, Spec


class ShownLayer(EncoderLayer):
    """A layer that can be printed on one line."""

    def __repr__(self) -> str:
        wide, width = self.feedforward.widen.weight.shape
        return f"an EncoderLayer with C = {width}, H = {self.attention.heads}, F = {wide}"


class ShownCache(EncoderLayerCache):
    """A cache that can be printed on one line."""

    def __repr__(self) -> str:
        return f"of its forward, with the parts {', '.join(self._fields[:-1])}"


class Silent(ParamStore):
    """Parameters that take no gradient: dx is what is asked for, in float32 too."""

    def declare(self, spec: Spec) -> Parameter:
        parameter = super().declare(spec)
        parameter.accumulate = lambda dvalue: None
        return parameter


# --- a layer, back


def layer_case(
    generator: np.random.Generator, sizes: tuple[int, int, int, int, int], rate: float
) -> Case:
    """Return a layer's backward, with all parameters at random and a padded sentence."""
    B, T, C, H, F = sizes
    config = BertConfig(
        hidden_size=C,
        num_attention_heads=H,
        intermediate_size=F,
        hidden_dropout_prob=rate,
        attention_probs_dropout_prob=rate,
        layer_norm_eps=1e-3,
    )
    store = Silent(np.float64)
    layer = ShownLayer(store.scope("layer"), config, get_ops("numpy"))
    store.allocate()
    store.value[:] = generator.normal(size=store.value.size) * 0.6
    for norm in (layer.add_norm1, layer.add_norm2):
        norm.weight.value[...] = generator.uniform(0.5, 2, size=C)
    x, dy = generator.normal(size=(B, T, C)), generator.normal(size=(B, T, C))
    mask = (np.arange(T) < T - np.arange(B)[:, None] % 2)[:, None]  # every other one is padded
    key = Key(int(generator.integers(2**40))) if rate else None
    _, cache = layer.forward(x, mask, key)

    def loss() -> float:
        return float(np.sum(dy * layer.forward(x, mask, key)[0]))

    return Case({"self": layer, "dy": dy, "cache": ShownCache(*cache)}, loss, {"dx": x})


def layer_by_hand() -> Case:
    return layer_case(np.random.default_rng(4), (1, 2, 3, 1, 4), 0.0)


def draw_layer(generator: np.random.Generator) -> Case:
    B, T = (int(size) for size in generator.permutation([2, 3]))
    return layer_case(generator, (B, T, 6, 3, 7), float(generator.uniform(0.2, 0.4)))


def parts(self: Any, dy: Array, cache: Any) -> tuple[Array, Array, Array]:
    """Return what dx is the sum of: past attention, from queries, from keys and values."""
    return middle_to_parts(self, middle(self, dy, cache), cache)


def middle(self: Any, dy: Array, cache: Any, residual: float = 1, feedforward: float = 1) -> Array:
    dwide, dmiddle = self.add_norm2.backward(dy, cache.add_norm2)
    return residual * dmiddle + feedforward * self.feedforward.backward(dwide, cache.feedforward)


def middle_to_parts(self: Any, dmiddle: Array, cache: Any) -> tuple[Array, Array, Array]:
    dprojected, dasked = self.add_norm1.backward(dmiddle, cache.add_norm1)
    dcontext = self.projection.backward(dprojected, cache.projection)
    return dasked, *self.attention.backward(dcontext, cache.attention)


def with_middle(change: Any) -> Any:
    """The backward with another gradient at the middle; ``change`` is called as ``middle``."""

    def backward(self: Any, dy: Array, cache: Any) -> Array:
        return sum(middle_to_parts(self, change(self, dy, cache), cache), np.zeros_like(dy))

    return backward


def undropped_feedforward(self: Any, dy: Array, cache: Any) -> Array:
    _, dmiddle = self.add_norm2.backward(dy, cache.add_norm2)
    return dmiddle + self.feedforward.backward(dmiddle, cache.feedforward)


def around_norm2(self: Any, dy: Array, cache: Any) -> Array:
    dwide, _ = self.add_norm2.backward(dy, cache.add_norm2)
    return dy + self.feedforward.backward(dwide, cache.feedforward)


def around_norm1(self: Any, dy: Array, cache: Any) -> Array:
    dmiddle = middle(self, dy, cache)
    _, dquery, dmemory = middle_to_parts(self, dmiddle, cache)
    return dmiddle + dquery + dmemory


def around_both(self: Any, dy: Array, cache: Any) -> Array:
    dmiddle = around_norm2(self, dy, cache)
    _, dquery, dmemory = middle_to_parts(self, dmiddle, cache)
    return dmiddle + dquery + dmemory


def undropped_attention(self: Any, dy: Array, cache: Any) -> Array:
    _, dasked = self.add_norm1.backward(middle(self, dy, cache), cache.add_norm1)
    dcontext = self.projection.backward(dasked, cache.projection)
    dquery, dmemory = self.attention.backward(dcontext, cache.attention)
    return dasked + dquery + dmemory


def without_projection(self: Any, dy: Array, cache: Any) -> Array:
    dprojected, dasked = self.add_norm1.backward(middle(self, dy, cache), cache.add_norm1)
    dquery, dmemory = self.attention.backward(dprojected, cache.attention)
    return dasked + dquery + dmemory


PRE_LN = (
    "the residual's gradient goes around the LayerNorm",
    "BERT normalises after the addition (post-LN), so the residual is inside the LayerNorm: its "
    "gradient is what add_norm's backward returns as the second result.",
)

LAYER = Exercise(
    lesson=11,
    answer=EncoderLayer.backward,
    called="encoder_layer_backward",
    outputs=("dx",),
    by_hand=layer_by_hand,
    draw=draw_layer,
    hints=(
        "Which lines of the forward read middle, and which read x?  As many gradients have to be "
        "added for each.",
        "From the bottom: add_norm2 gives two gradients, of wide and of middle.  wide's goes "
        "through the feed-forward and is added to middle's.  Then the same for add_norm1, with "
        "projection and attention, which gives two more gradients for x.",
        "dwide, dmiddle = self.add_norm2.backward(dy, cache.add_norm2);  dmiddle = dmiddle + "
        "self.feedforward.backward(dwide, cache.feedforward);  dprojected, dresidual = "
        "self.add_norm1.backward(dmiddle, cache.add_norm1);  dcontext = "
        "self.projection.backward(dprojected, cache.projection);  dquery, dmemory = "
        "self.attention.backward(dcontext, cache.attention);  dx is the sum of three.",
    ),
    slips=(
        Slip(
            "the residual around the feed-forward is forgotten",
            "middle is read twice, by the feed-forward and by add_norm2, and both send a gradient.",
            with_middle(lambda self, dy, cache: middle(self, dy, cache, residual=0)),
        ),
        Slip(
            "nothing comes back through the feed-forward",
            "its backward also returns the gradient of its input, which is added to dmiddle.",
            with_middle(lambda self, dy, cache: middle(self, dy, cache, feedforward=0)),
        ),
        Slip(
            "the residual around the feed-forward is added twice",
            "add_norm2's backward gives one gradient for wide and one for middle; each goes one "
            "way.",
            with_middle(lambda self, dy, cache: middle(self, dy, cache, residual=2)),
        ),
        Slip(
            "the feed-forward gets the residual's gradient",
            "add_norm's first result has passed dropout's backward and belongs to the sub-layer; "
            "the second belongs to the residual.",
            with_middle(undropped_feedforward),
        ),
        Slip(
            "the projection gets the residual's gradient",
            "add_norm's first result has passed dropout's backward and belongs to the sub-layer; "
            "the second belongs to the residual.",
            undropped_attention,
        ),
        Slip(*PRE_LN, with_middle(around_norm2)),
        Slip(*PRE_LN, around_norm1),
        Slip(*PRE_LN, around_both),
        Slip(
            "the projection is skipped",
            "between attention and add_norm1 there is a linear layer, C to C: its backward gives "
            "dcontext.",
            without_projection,
        ),
        Slip(
            "the lower half starts from dy",
            "add_norm1's output is middle, so its backward takes dmiddle.",
            with_middle(lambda self, dy, cache: dy),
        ),
    ),
    terms={
        "dx": (
            Term(
                "residual around attention",
                "add_norm1 reads x itself, so its second result is a part of dx.",
                lambda self, dy, cache: parts(self, dy, cache)[0],
            ),
            Term(
                "part of the queries",
                "x asks: attention's backward gives it back as its first result.",
                lambda self, dy, cache: parts(self, dy, cache)[1],
            ),
            Term(
                "part of the keys and values",
                "x answers as well: attention's backward gives it back as its second result.",
                lambda self, dy, cache: parts(self, dy, cache)[2],
            ),
        )
    },
)


# --- counting


def draw_config(generator: np.random.Generator) -> Case:
    H, D, layers, types = (int(size) for size in generator.permutation([2, 3, 5, 7]))
    config = BertConfig(
        vocab_size=int(generator.integers(200, 300)),
        hidden_size=H * D,
        num_hidden_layers=layers,
        num_attention_heads=H,
        intermediate_size=int(generator.integers(40, 99)),
        max_position_embeddings=int(generator.integers(100, 150)),
        type_vocab_size=types,
    )
    return Case({"config": config})


def config_by_hand() -> Case:
    return Case(
        {
            "config": BertConfig(
                vocab_size=10,
                hidden_size=4,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=8,
                max_position_embeddings=6,
                type_vocab_size=2,
            )
        }
    )


def count_with(**parts: Any) -> Any:
    """Some parts counted in another way: name → a function of the right count and the config."""

    def count(config: BertConfig) -> tuple[int, ...]:
        right = parameter_counts(config)
        wrong = {name: change(getattr(right, name), config) for name, change in parts.items()}
        return tuple(right._replace(**wrong))

    return count


def square(c: BertConfig) -> int:
    return c.hidden_size * c.hidden_size


COUNTS = Exercise(
    lesson=11,
    answer=parameter_counts,
    outputs=("embeddings", "layers", "pooler", "heads"),
    by_hand=config_by_hand,
    draw=draw_config,
    hints=(
        "What does a linear layer from A to B columns hold, and what a LayerNorm?",
        "dense = C·C + C and norm = 2·C are in nearly everything.  A layer has four dense, two "
        "norm and two linear layers between C and F.  The decoder's table is counted once.",
        "embeddings: (V + positions + types)·C + norm.  One layer: 4·dense + norm + (C·F + F) + "
        "(F·C + C) + norm.  pooler: dense.  heads: dense + norm + V, and 2·C + 2.",
    ),
    slips=(
        Slip(
            "only one layer is counted",
            "every layer has weights of its own: times num_hidden_layers.  (ALBERT shares one.)",
            count_with(layers=lambda n, c: n // c.num_hidden_layers),
        ),
        Slip(
            "the projections are counted once for each head",
            "the heads share out the C columns; all of them together have one C × C matrix for q, "
            "and one each for k and v.",
            count_with(
                layers=lambda n, c: (
                    n + c.num_hidden_layers * 3 * (c.num_attention_heads - 1)
                    * (square(c) + c.hidden_size)
                )
            ),
        ),
        Slip(
            "the projections have the size of one head",
            "a projection makes all heads' columns: C × C, not C × D.",
            count_with(
                layers=lambda n, c: (
                    n - c.num_hidden_layers * 3 * (square(c) + c.hidden_size)
                    + c.num_hidden_layers * 3 * (square(c) + c.hidden_size) // c.num_attention_heads
                )
            ),
        ),
        Slip(
            "the feed-forward is taken as four times the width",
            "it is so in the published sizes; the configuration says it: intermediate_size.",
            count_with(
                layers=lambda n, c: (
                    n + c.num_hidden_layers * (4 * c.hidden_size - c.intermediate_size)
                    * (2 * c.hidden_size + 1)
                )
            ),
        ),
        Slip(
            "the decoder has a table of its own",
            "it is tied to the token embedding: the same numbers, counted there.  Its own is a "
            "bias for each word.",
            count_with(heads=lambda n, c: n + c.vocab_size * c.hidden_size),
        ),
        Slip(
            "the next-sentence head is forgotten",
            "it is a linear layer from C to 2.",
            count_with(heads=lambda n, c: n - 2 * c.hidden_size - 2),
        ),
        Slip(
            "the dense layer of the masked head is forgotten",
            "before the decoder stand a linear layer from C to C, GELU and a LayerNorm.",
            count_with(heads=lambda n, c: n - square(c) - c.hidden_size),
        ),
        Slip(
            "the pooler has no bias",
            "it is a linear layer like the others: C · C + C.",
            count_with(pooler=lambda n, c: square(c)),
        ),
    ),
    terms={
        "embeddings": (
            Term("LayerNorm", "it follows the sum of the three tables.",
                 lambda config: 2 * config.hidden_size),
            Term("table of positions", "learned positions are a table of max_position_embeddings "
                 "rows.", lambda config: config.max_position_embeddings * config.hidden_size),
            Term("table of segments", "a table of type_vocab_size rows.",
                 lambda config: config.type_vocab_size * config.hidden_size),
        ),
        "layers": (
            Term("output projection", "after the heads are merged there is one more linear layer, "
                 "C to C.", lambda config: config.num_hidden_layers
                 * (square(config) + config.hidden_size)),
            Term("second matrix of the feed-forward", "it widens from C to F, and narrows from F "
                 "to C again.", lambda config: config.num_hidden_layers
                 * config.hidden_size * config.intermediate_size),
            Term("pair of LayerNorms", "each half of a layer ends with one, of 2 C numbers.  "
                 "(Attention's four biases are as many: is it those?)",
                 lambda config: 4 * config.num_hidden_layers * config.hidden_size),
            Term("pair of biases of the feed-forward", "its two linear layers have F and C.",
                 lambda config: config.num_hidden_layers
                 * (config.hidden_size + config.intermediate_size)),
            Term("set of biases", "every linear layer has one for each output: 4 C, F and C in a "
                 "layer.", lambda config: config.num_hidden_layers
                 * (5 * config.hidden_size + config.intermediate_size)),
        ),
        "heads": (
            Term("bias of the decoder", "one number for each word of the vocabulary.",
                 lambda config: config.vocab_size),
            Term("LayerNorm", "it stands between GELU and the decoder.",
                 lambda config: 2 * config.hidden_size),
        ),
    },
)  # fmt: skip

EXERCISES = (LAYER, COUNTS)
