# %% [markdown]
# # Lesson 11: the encoder layer and the stack
#
# *30 minutes.  Before it: lessons 4, 6 and 10.*
#
# You have all parts of an encoder layer.  This lesson puts them together, and that has mistakes of
# its own: between parts that are all right, a gradient can get lost, doubled or sent to the wrong
# place.  The loss goes down all the same, only more slowly, so nobody notices.
#
# You will write the backward of a whole layer, and count the parameters of a BERT to the last one.
# To check what you wrote, in a terminal:
#
#     minibert lesson check 11
#
# or run the cells below one after the other.

# %%
import numpy as np

from minibert.config import BertConfig, initial_std
from minibert.course import check, picture
from minibert.keys import Key
from minibert.layers.encoder_layer import EncoderLayer
from minibert.ops import get_ops
from minibert.params import ParamStore

# %% [markdown]
# ## The forward
#
# A layer takes x (B, T, C) and returns y of the same shape, so layers can be stacked.  It has two
# halves.  In the first, tokens exchange something (lesson 10); in the second, each token by itself
# works on what it has got (lesson 4).  Each half ends with **add & norm** (lesson 6):
# LayerNorm(input + dropout(output)).
#
# | line | reads | returns | shape |
# |---|---|---|---|
# | `self.attention` | x, three times: as q, k and v | context | (B, T, C) |
# | `self.projection` | context | projected | (B, T, C) |
# | `self.add_norm1` | projected, **x** | middle | (B, T, C) |
# | `self.feedforward` | middle | wide | (B, T, C) |
# | `self.add_norm2` | wide, **middle** | y | (B, T, C) |
#
# - The projection is a linear layer.  It mixes the heads, which only stood side by side so far.
# - Inside, the feed-forward is F = 4C wide, with GELU.  It gets C columns and gives C back.
# - BERT normalises *after* the addition ("post-LN"), as the first Transformer did.  Most later
#   models normalise before a half ("pre-LN"); then the residual goes around the LayerNorm.  With
#   post-LN it goes **through** it.
#
# ## The rule for the way back
#
# Go through the lines from the last to the first, and call each one's backward.  One rule is all
# that is new:
#
#     a variable that is read n times gets n gradients, and they are added
#
# Count in the table.  `middle` is read twice: by the feed-forward and by add_norm2.  `x` is read by
# add_norm1 and by attention.  Attention reads it as queries, and as keys and values.
#
# Each part has a method `backward(dy, its cache)`.  It adds the gradients of its own parameters
# where they belong, and returns those of its inputs:
#
# | call | returns |
# |---|---|
# | `self.add_norm2.backward(…, cache.add_norm2)` | dwide, dmiddle |
# | `self.feedforward.backward(…, cache.feedforward)` | dmiddle, another one |
# | `self.add_norm1.backward(…, cache.add_norm1)` | dprojected, dx |
# | `self.projection.backward(…, cache.projection)` | dcontext |
# | `self.attention.backward(…, cache.attention)` | dx from q, dx from k and v |
#
# add_norm returns two gradients, first that of the sub-layer's output, then that of the residual.
# They differ by dropout, so they must not be exchanged.
#
# As **gradients add to what is there**, call every backward exactly once.  Calling attention's
# twice, for its two results, would double the gradients of its weights.
#
# A pencil, and numbers in place of vectors: no LayerNorm, no dropout, a half that multiplies by 3,
# then one that multiplies by 5:
#
#     middle = x + 3 x = 4 x          y = middle + 5 middle = 6 middle = 24 x
#
#     dy = 1
#     dmiddle = 1 + 5 · 1 = 6         directly, and through the second half
#     dx = 6 + 3 · 6 = 24             directly, and through the first half
#
# Without the residuals' share it would be 5 · 3 = 15.
#
# ## First blank: a layer, backward
#
# In minibert this is a method of the class `EncoderLayer`; here it is a function, and `self` is the
# layer.


# %%
def encoder_layer_backward(self, dy, cache):  # dy (B, T, C)
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dx  # (B, T, C)


# %%
encoder_layer_backward = check(encoder_layer_backward)

# %% [markdown]
# <details><summary>dx is wrong, and I have called everything</summary>
# Which line's result did you not use?  Every one of the eight gradients in the table has to end
# in a sum or in another call.
# </details>
#
# <details><summary>It is right without dropout</summary>
# What goes into the feed-forward's and the projection's backward is the first of add_norm's two
# results.
# </details>
#
# <details><summary>tuple has no attribute …, or cannot be multiplied</summary>
# Three of the five calls return two gradients: a, b = self.part.backward(…).
# </details>
#
# ## What the residual does
#
# A stack of 12 fresh layers.  On the left, a gradient comes in at the top: how much is left of it
# further down, if the backward forgets the residuals?  On the right, the *forward* is done with and
# without them: how different are a sentence's tokens from each other?

# %%
L, C = 12, 64
config = BertConfig(
    hidden_size=C, num_hidden_layers=L, num_attention_heads=4, intermediate_size=4 * C
)
store = ParamStore(np.float64)
layers = [EncoderLayer(store.scope("layer", n), config, get_ops("numpy")) for n in range(L)]
store.allocate()
store.initialize(Key(0), std=initial_std(C))


def forward_without_residuals(layer, x):
    zero = np.zeros_like(x)
    projected, _ = layer.projection.forward(layer.attention.forward(x, None, None)[0])
    middle, _ = layer.add_norm1.forward(projected, zero, None)
    return layer.add_norm2.forward(layer.feedforward.forward(middle)[0], zero, None)[0]


def backward_without_residuals(layer, dy, cache):
    dwide, _ = layer.add_norm2.backward(dy, cache.add_norm2)
    dmiddle = layer.feedforward.backward(dwide, cache.feedforward)
    dprojected, _ = layer.add_norm1.backward(dmiddle, cache.add_norm1)
    dcontext = layer.projection.backward(dprojected, cache.projection)
    return sum(layer.attention.backward(dcontext, cache.attention))


def spread(x):  # the share of the vectors that is not common to all tokens of a sentence
    return np.linalg.norm(x - x.mean(axis=1, keepdims=True)) / np.linalg.norm(x)


generator = np.random.default_rng(0)
x = generator.normal(size=(2, 16, C))
same, caches, spreads = x, [], {True: [spread(x)], False: [spread(x)]}
for layer in layers:
    x, cache = layer.forward(x, None, None)
    same = forward_without_residuals(layer, same)
    caches.append(cache)
    spreads[True].append(spread(x))
    spreads[False].append(spread(same))

dy = generator.normal(size=x.shape)
lengths = {True: [1.0], False: [1.0]}
for with_residuals, backward in (
    (True, encoder_layer_backward),
    (False, backward_without_residuals),
):
    gradient = dy
    for layer, cache in zip(reversed(layers), reversed(caches), strict=True):
        gradient = backward(layer, gradient, cache)
        lengths[with_residuals].append(np.linalg.norm(gradient) / np.linalg.norm(dy))

with picture("11_encoder.png", 8.5, 3.6) as figure:
    left, right = figure.subplots(1, 2)
    depth = np.arange(L + 1)
    for axes, lines, title, label in (
        (left, lengths, "what is left of a gradient", "layers that it has come down"),
        (right, spreads, "how much tokens differ", "layers that they have gone up"),
    ):
        axes.plot(depth, lines[True], "o-", color="#0072B2", markersize=4)
        axes.plot(depth, lines[False], "s--", color="#D55E00", markersize=4)
        axes.set_yscale("log")
        axes.set_ylim(1e-18, 1e3)
        axes.set_title(title)
        axes.set_xlabel(label)
        axes.set_xticks(depth[::2])
    left.text(12, 30, "right", color="#0072B2", ha="right")
    left.text(5.5, 1e-11, "residuals\nforgotten\non the way back", color="#D55E00", ha="right")
    right.text(12, 30, "with residuals", color="#0072B2", ha="right")
    right.text(12, 1e-14, "without residuals", color="#D55E00", ha="right")

print(f"residuals forgotten: {lengths[False][-1]:.0e} of the gradient is left")

# %% [markdown]
# On the left: nearly all of the gradient comes down by way of the residuals.  Without their share
# the lower layers learn nothing.
#
# On the right is a surprise for those who have read that residuals are there against vanishing
# gradients.  In a stack without any, LayerNorm brings all sizes back, and the true gradient does
# not vanish.  What is lost are the *differences*: attention takes means, means of means are all
# alike, and after four layers a sentence is 16 times the same vector (what remains is rounding).
#
# ## How many parameters?
#
# A linear layer from A to B columns has A · B weights and B biases.  A LayerNorm has 2C numbers, γ
# and β.  GELU, softmax and dropout have none.  For base (C = 768) a linear layer from C to C is
# 768² + 768 = 590,592.
#
# - **embeddings**: three tables of C columns, with `vocab_size`, `max_position_embeddings` and
#   `type_vocab_size` rows; one LayerNorm.
# - **each layer**: the table above.  Attention has three linear layers from C to C, whatever the
#   number of heads: the heads share out the columns.
# - **pooler**: one linear layer from C to C, on [CLS].
# - **heads** of pretraining (lesson 13).  For the masked tokens: a linear layer from C to C, GELU,
#   a LayerNorm, and a decoder whose table *is* the token embedding, counted already; it adds one
#   bias for each word.  For the next sentence: a linear layer from C to 2.
#
# ## Second blank: count
#
# `config` has `vocab_size`, `hidden_size` (C), `intermediate_size` (F), `num_hidden_layers`,
# `max_position_embeddings` and `type_vocab_size`.


# %%
def parameter_counts(config):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return embeddings, layers, pooler, heads  # layers: all of them together


# %%
parameter_counts = check(parameter_counts)

for name in ("tiny", "base", "large"):
    embeddings, stack, pooler, heads = parameter_counts(BertConfig.preset(name))
    encoder = embeddings + stack + pooler
    print(f"{name:6} {encoder:12,}, with the heads of pretraining {encoder + heads:12,}")

# %% [markdown]
# <details><summary>One of the four is off by a small number</summary>
# Are the biases there?  A LayerNorm is 2C.  Is F taken from config.intermediate_size?
# </details>
#
# The paper says 110 and 340 million.  For base, 109,482,240 is the encoder and 110,106,428 is the
# model in pretraining, with the decoder's table counted once.  Counted twice, as some tables have
# it, it would be 133.5 million.  Of each layer, two thirds are the feed-forward.
#
# ## A question to end with
#
# A backward forgets the residual around the *feed-forward*, in the last layer only.  Which
# parameters still get the right gradient?
#
# <details><summary>Answer</summary>
# Those of that layer's feed-forward and add_norm2, and all above it: the head.  They are reached
# before the two paths meet.  Everything below gets one part of its gradient, so the loss still
# falls.  Only a comparison with finite differences shows it.
# </details>
#
# minibert's own: `minibert lesson show 11`, or the files `minibert/layers/encoder_layer.py` and
# `minibert/models/counts.py`.
