# %% [markdown]
# # Lesson 13: heads and tied weights
#
# *30 minutes.  Before it: lessons 3 and 8.*
#
# The encoder gives a vector for every token.  Two heads turn vectors into answers: which word is
# hidden here, and does B follow A?  They are small, but on their way back three things happen that
# are new: gradients go to *some* rows of an array, a row may be read twice, and one table of
# weights is used in two places of the model.
#
# You will write two backwards, and put a third together from parts.  To check, in a terminal:
#
#     minibert lesson check 13
#
# or run the cells below one after the other.

# %%
import numpy as np

from minibert import BertConfig, BertForPreTraining
from minibert.course import check, picture
from minibert.data.batches import PretrainingBatch
from minibert.keys import Key
from minibert.layers.embedding import lookup_backward

# %% [markdown]
# ## What the heads are
#
# The encoder returns `hidden`, (B, T, C).  M tokens of the batch are masked.
#
#     masked language model                            next sentence
#
#     hidden at the masked places    (M, C)            hidden at [CLS], column 0    (B, C)
#       dense                        (M, C)              dense, tanh: the pooler    (B, C)
#       GELU                         (M, C)              linear                     (B, 2)
#       LayerNorm             x      (M, C)
#       x Eᵀ + b         logits      (M, V)
#
# Drawings in many articles show the left head as **one linear layer**, from C to V.  It is not.  A
# *transform* comes first: dense, GELU, LayerNorm, with weights of its own.  And the last line, the
# *decoder*, has **no weight of its own**: E is the table of token embeddings, (V, C), the same
# numbers that the model began with.  Only the bias b, (V,), is new.  A file of a BERT without the
# transform cannot be loaded into a BERT with it, and a decoder that is not tied would add 23
# million numbers to base's 110 million.
#
# Why is tying sensible?  Row v of E says what token v means, on the way in.  The logit of v is
# x · E_v: how well the answer x agrees with that meaning.
#
# ## The decoder's backward
#
# `dlogits`, (M, V), comes from the forward: softmax minus 1 at the label (lesson 3), the gradient
# of the *sum* of losses.  One loss counts for `dloss`; for a mean, that is 1 / M.  So the gradient
# that arrives at the logits is G = dloss · dlogits.  Each logit is
#
#     logits_mv  =  Σ_c x_mc E_vc  +  b_v
#
# x_mc stands in all V logits of its row m, E_vc in the logits of token v in all M rows, b_v too:
#
#     dx_mc  =  Σ_v G_mv E_vc        dE_vc  =  Σ_m G_mv x_mc        db_v  =  Σ_m G_mv
#
# Write the three sums as products of arrays.  The shapes leave one way only:
#
# | name | shape |
# |---|---|
# | dlogits | (M, V) |
# | x, dx | (M, C) |
# | table (that is E), dtable | (V, C) |
# | dbias | (V,) |
#
# By pencil, with M = 1, C = 2, V = 3 and dloss = ½:
#
#     dlogits = [.2 -.7 .5]     x = [1 2]     E = [1 0]
#                                                 [0 1]
#                                                 [1 1]
#
#     dx = ½ [.2 + .5, -.7 + .5] = [.35 -.1]     the first row of dE = ½ · .2 · [1 2] = [.1 .2]
#
# ## First blank: the decoder


# %%
def vocab_cross_entropy_backward(dloss, dlogits, x, table):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dx, dtable, dbias


# %%
vocab_cross_entropy_backward = check(vocab_cross_entropy_backward)

# %% [markdown]
# <details><summary>dlogits was changed in place</summary>
# dlogits *= dloss writes into the caller's array.  dlogits * dloss makes a new one.
# </details>
#
# <details><summary>dtable is right but for a constant</summary>
# dloss belongs to all three.  dtable without it is M times too large, and nothing looks broken.
# </details>
#
# ## Back to the rows that were read
#
# Of hidden's T columns the loss reads a few: [CLS], and the masked ones.  minibert's last layer
# computes only those.  Its `places`, (B, R), say which column each of the R wanted rows comes from.
# Column 0 stands first.  A sequence with fewer masked tokens than another fills up with 0.  Forward
# this is a look-up:
#
#     y_br  =  x_b,p        p = places_br
#
# Which y contain a given row x_bt?  All those whose place is t: none, one, or several.  So
#
#     dx_bt  =  Σ_{r: places_br = t}  dy_br
#
# A row that nobody read has gradient 0.  A row that was read twice gets the **sum**.  It is lesson
# 8's look-up again, with one difference: the sequences do not mix.  Place 3 of sequence 1 is not
# place 3 of sequence 0.
#
# | name | shape |
# |---|---|
# | dy | (B, R, C) |
# | places | (B, R) |
# | dx | (B, T, C) |
#
# By pencil, with T = 4, R = 3, C = 1.  The second sequence reads column 0 twice:
#
#     places  [0 2 3]     dy  [1  2  4]     dx  [1   0 2 4]
#             [0 1 0]         [8 16 32]         [40 16 0 0]
#
# A tool: `np.add.at(a, (i, j), values)` adds each value to a[i, j], one after the other; i and j
# are broadcast against each other.  `np.zeros_like(dy, shape=...)` keeps dy's dtype.
#
# ## Second blank: taken rows


# %%
def take_rows_backward(dy, places, T):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dx


# %%
take_rows_backward = check(take_rows_backward)

# %% [markdown]
# <details><summary>shape mismatch: indexing arrays could not be broadcast together</summary>
# The row numbers need the shape (B, 1) beside places' (B, R): np.arange(B)[:, None].
# </details>
#
# <details><summary>My column 0 is too small</summary>
# dx[rows, places] += dy writes once for each place, whatever the number of readers.
# </details>
#
# ## One table, two gradients
#
# E is read twice: at the very bottom, where input_ids look up their rows, and at the very top, in
# the decoder.  Suppose for a moment that these were two tables, E₁ below and E₂ above, with
# gradients dE₁ and dE₂.  Move one number of E by a little h.  It moves in **both**, so the loss
# moves by h dE₁ + h dE₂:
#
#     dE  =  dE₁ + dE₂
#
# The smallest case: L = e · e with e = 3.  The left e has the gradient 3, the right one too; the
# sum is 6, and indeed (e²)' = 2e.
#
# So no backward may *write* a gradient into a parameter: each **adds**.  In minibert that is
# `Parameter.accumulate`, and the only way in.  Programs that write `table.grad = ...` are right
# until the first weight is used twice.
#
# Given are dlogits, x and dloss as above, and `dembedded`, (B, T, C): what has come down through
# the whole model to the looked-up vectors.  dloss is in it already.  By pencil, C = 1, dloss = 1:
#
#     dlogits = [.25 -.75 .5]   x = [4]            decoder:     [ 1  -3   2]
#     input_ids = [2 0 2]   dembedded = [10 20 40]   embedding:   [20   0  50]
#                                                    dE:          [21  -3  52]
#
# Try it on paper before you read on.  In code there is nothing new: your first blank gives the
# decoder's part, lesson 8's backward the embedding's, and the two are added.

# %%
dlogits, x = np.array([[0.25, -0.75, 0.5]]), np.array([[4.0]])
input_ids, dembedded = np.array([[2, 0, 2]]), np.array([[[10.0], [20.0], [40.0]]])
_, decoder, _ = vocab_cross_entropy_backward(1.0, dlogits, x, np.zeros((3, 1)))
embedding = lookup_backward(dembedded, input_ids, 3)
print("dE:", (decoder + embedding)[:, 0])

# %% [markdown]
# ## What the two gradients look like
#
# A real, if tiny, BERT, and one step back.  The whole gradient of E comes from the model; the
# decoder's part from your first blank.  What is left is the embedding's.

# %%
V, C, B, T = 60, 16, 3, 14
config = BertConfig.preset("tiny", vocab_size=V, hidden_size=C, initializer_range=0.1)
model = BertForPreTraining(config, ops="numpy", dtype=np.float64)
model.initialize(Key(1))
generator = np.random.default_rng(2)
ids = (5 + (V - 5) * generator.random((B, T)) ** 2).astype(np.int32)  # small ids are frequent
ids[:, 0], ids[:, -1] = 2, 3  # [CLS], [SEP]
positions = np.array([3, 8, T + 5, 2 * T + 2, 2 * T + 10], np.int32)
labels = ids.reshape(-1)[positions]
np.put(ids, positions, 4)  # [MASK]
batch = PretrainingBatch(
    ids, np.zeros_like(ids), np.ones((B, T), bool), positions, labels, np.array([0, 1, 0])
)
_, cache = model.forward(batch)
model.backward(cache)
table = model.bert.embeddings.word
_, decoder, _ = vocab_cross_entropy_backward(
    cache.weights.masked, cache.masked.dlogits, cache.masked.x, table.value
)
embedding = table.grad - decoder

with picture("13_heads.png", 7.5, 4) as figure:
    upper, lower = figure.subplots(2, 1, sharex=True, sharey=True)
    for axes, part in ((upper, decoder), (lower, embedding)):
        size = np.sqrt((part * part).sum(axis=1))
        axes.bar(np.arange(V), np.where(size > 1e-12, size, 0), color="#0072B2")
        axes.set_yscale("log")
        axes.set_ylim(1e-3, 40)
        axes.set_ylabel("length of row")
        for row in labels if part is decoder else (4, 2):
            text = "label" if part is decoder else {2: "[CLS]", 4: "[MASK]"}[row]
            axes.text(row, 1.3 * size[row], text, rotation=90, ha="center", size=8)
    upper.set_title("from the decoder: every row has some, the labels have most")
    lower.set_title("from the look-up: only tokens of the text have any")
    lower.set_xlabel("row of the table, one for each token")

untouched = np.abs(embedding).max(axis=1) < 1e-12
print(f"rows without a gradient from the look-up: {untouched.sum()} of {V}")
print(f"tokens that are not in the text:          {V - len(np.unique(ids))} of {V}")

# %% [markdown]
# The decoder pulls the rows of right answers towards x, and pushes **all** others away a little.
# The look-up's part is 0 for every token that was not read.  This is why the table's gradient is
# never sparse in BERT's pretraining, though its embedding's part is.
#
# ## A question to end with
#
# [MASK] is never a label.  Does its row of E learn, and from what?
#
# <details><summary>Answer</summary>
# From both.  It is looked up at most masked places, so the embedding's part is large.  And the
# decoder gives it a logit as it does to every token, with the gradient G = dloss · p, always
# positive: the row is pushed away from every answer, until the model never proposes [MASK].
# </details>
#
# minibert's own: `minibert lesson show 13`, or the files `minibert/layers/cross_entropy.py`,
# `minibert/layers/encoder_layer.py` and `minibert/models/heads.py`.
