# %% [markdown]
# # Lesson 10: many heads, and the padding mask
#
# *40 minutes.  Before it: lessons 6 and 9.*
#
# One head takes one weighted mean.  BERT has 12 heads in each layer, each with weights of its own,
# and three things around them: the cut into heads, a mask that hides padding, and dropout on the
# weights.  Here the mathematics is lesson 9's; what goes wrong is the order of axes.
#
# You will write the cut, its opposite, and then the backward of the whole attention.  To check
# what you wrote, in a terminal:
#
#     minibert lesson check 10
#
# or run the cells below one after the other.

# %%
import numpy as np

from minibert.course import check, picture
from minibert.layers.attention import (
    attention_forward,
    attention_probs,
    masked_scores,
    scores_backward,
    weighted_mean_backward,
)
from minibert.layers.dropout import dropout_backward, dropout_forward
from minibert.layers.softmax import softmax_backward

# %% [markdown]
# ## Why more than one
#
# A head's row of weights adds up to 1.  If a token needs two other tokens, one head has to hand
# over a blend of their values, half and half, and nobody above can take the blend apart.  Two
# heads hand over two vectors, side by side.
#
# More heads cost nothing.  The width C is cut into H pieces of D = C / H columns; each head does
# lesson 9 on its own piece, with 1/√**D**, and the results stand side by side, C columns again.
# BERT base: C = 768, H = 12, D = 64.
#
# ## Cut and merge
#
# Head h owns the columns h·D to (h+1)·D - 1 of q, k and v.  We want its (T, D) as the last two
# axes, because those are what `@` multiplies:
#
#     x                (B, T, C)
#     cut the columns  (B, T, H, D)        reshape: no number moves
#     exchange axes    (B, H, T, D)        transpose
#
# With a pencil: one sentence, two tokens, C = 6, two heads.
#
#     x = [[0, 1, 2,  3,  4,  5],         head 0: [[0, 1, 2], [6, 7, 8]]
#          [6, 7, 8,  9, 10, 11]]         head 1: [[3, 4, 5], [9, 10, 11]]
#
# Reshape alone can make (B, H, T, D) as well, and no error says that it is wrong:
#
#     x.reshape(1, 2, 2, 3)[0, 0]  =  [[0, 1, 2], [3, 4, 5]]
#
# That is token 0 twice.  Remember it as a rule: **reshape never changes the order of the numbers.**
# It may only cut an axis, or join two neighbours.  Everything else takes a transpose.
#
# Both functions only move numbers, so each is the other's backward.
#
# ## First and second blank


# %%
def split_heads(x, heads):  # x (B, T, C), H
    B, T, C = x.shape
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return split  # (B, H, T, D)


# %%
split_heads = check(split_heads)


# %%
def merge_heads(x):  # (B, H, T, D)
    B, H, T, D = x.shape
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return merged  # (B, T, C)


# %%
merge_heads = check(merge_heads)

# %% [markdown]
# <details><summary>It has the right shape and the wrong numbers</summary>
# Print the shape after every step and say what each axis means.  Before a reshape that joins, the
# two axes must be neighbours, in the order in which they should be read.
# </details>
#
# ## The padding mask
#
# Sentences of a batch have different lengths, so short ones are filled up with [PAD].  Nobody may
# look there.  The mask is boolean, of shape (B, 1, S), with True where there is a token.  Where it
# is False, the score becomes -∞ before softmax:
#
#     scores = np.where(mask[:, None], scores, -np.inf)       (B, 1, 1, S) fits (B, H, T, S)
#
# e^-∞ is exactly 0, so padding has weight 0 and the others still add up to 1.  Setting the weights
# to 0 *after* softmax would be wrong: then they would not.
#
# It is the **columns** that are masked: no one looks at padding.  The rows of padding itself are
# computed like any other, and nobody reads them.
#
# What if a query may look nowhere?  All its scores are -∞, and softmax divides 0 by 0.  Some
# programs, BERT's first one among them, add -10000 in place of -∞.  Then there is no NaN, but
# where *everything* is masked, the same number is added to the whole row, softmax does not see it,
# and padding gets all the weight.  minibert says what is meant: such a query has weights 0,
# context 0 and no gradient.
#
# ## What the forward keeps
#
# The weights are the largest array of the layer, (B, H, T, S).  minibert does not keep them.  It
# keeps one number for each row, the logarithm of softmax's denominator, and makes them again:
#
#     lse = log Σ_j e^s_j        (B, H, T)
#     p = e^s / Σ_j e^s_j = e^(s - lse)
#
# For a query that may look nowhere the forward sets lse = +∞, and e^(-∞ - ∞) = 0: no special case
# is left for you.
#
# ## Dropout on the weights
#
# In training, a tenth of the weights is set to 0, and the others are divided by 0.9 (lesson 6).  So
# there are **two** arrays where lesson 9 had one:
#
#     p            softmax's output
#     a            dropout(p): what multiplies the values
#
# The whole forward, and under it what you are to write.  Read it from the bottom to the top:
#
# | forward | backward | needs |
# |---|---|---|
# | split q, k, v | merge dq, dk, dv | |
# | s = q kᵀ / √D, masked | dq = ds k / √D, dk = dsᵀ q / √D | q, k |
# | p = softmax(s) | ds = p (dp - Σ dp p) | **p** |
# | a = dropout(p) | dp = da where kept, / (1 - rate) | the same seed |
# | c = a v | da = dc vᵀ, dv = aᵀ dc | **a**, v |
# | merge c | split dc | |
#
# The two bold letters are where this goes wrong most often.  The values were multiplied by a, so
# dv needs a.  Softmax knows nothing of the dropout that came after it, so ds needs p.
#
# The mask has no line of its own on the way back: where s was -∞, p is 0, and so is ds.
#
# ## Third blank: attention, backward
#
# You may call all functions that are imported above, and your first two: get those right first.
# `masked_scores(q, k, mask)` makes s, masked; `weighted_mean_backward` and `scores_backward` are
# yours from lesson 9, and take (B, H, T, D) as well; `softmax_backward(dy, y)` is lesson 3's.
# Dropout is `dropout_forward(x, rate, seed)` and `dropout_backward(dy, rate, seed)`.


# %%
def attention_backward(dcontext, q, k, v, mask, lse, heads, rate, seed):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dq, dk, dv  # like q, k and v: (B, T, C), (B, S, C), (B, S, C)


# %%
attention_backward = check(attention_backward)

# %% [markdown]
# <details><summary>operands could not be broadcast together</summary>
# lse is (B, H, T), the scores are (B, H, T, S): lse[..., None] fits.
# </details>
#
# <details><summary>NaN, or "invalid value" in a warning</summary>
# Did you call softmax?  It cannot do a row of -∞.  np.exp(scores - lse) can.
# </details>
#
# <details><summary>dv is right, dq and dk are not</summary>
# Between dv and dq lie dropout's and softmax's backward.  Which weights did you give to which?
# </details>
#
# <details><summary>The results have shape (B, H, T, D)</summary>
# What was split at the beginning is merged at the end, all three.
# </details>
#
# ## What two heads can do
#
# A sentence of five tokens and a [PAD].  Queries and keys are built by hand: head 0 asks for the
# token before, head 1 for [SEP].  On the right the same numbers as a *single* head with twice the
# columns: scores add up, and its weights are a blend.

# %%
tokens = ["[CLS]", "the", "cat", "sat", "[SEP]", "[PAD]"]
T = D = len(tokens)
place = np.eye(T)
k = np.concatenate([place, place], axis=1)[None]
before = np.eye(T, k=-1)  # nothing stands before [CLS]
q = 5 * D**0.5 * np.concatenate([before, place[[4] * T]], axis=1)[None]
mask = np.array([[[True, True, True, True, True, False]]])


def weights_of(heads):
    _, lse = attention_forward(q, k, k, mask, heads, 0.0, 0)
    return attention_probs(q, k, mask, heads, lse)[0]


maps = [*weights_of(2), *weights_of(1)]
with picture("10_many_heads.png", 9.5, 3.6) as figure:
    titles = ("head 0: the token before", "head 1: [SEP]", "one head for both")
    for axes, weights, title in zip(figure.subplots(1, 3, sharey=True), maps, titles, strict=True):
        axes.imshow(weights, cmap="Blues", vmin=0, vmax=1.4)
        axes.grid(False)
        axes.set_title(title)
        axes.set_xticks(range(T), tokens, rotation=60)
        axes.set_yticks(range(T), tokens)
        axes.set_xlabel("looks at")
        for i in range(T):
            for j in range(T):
                text = f"{weights[i, j]:.2f}" if mask[0, 0, j] else "×"
                axes.text(j, i, text, ha="center", va="center", fontsize=8)
    figure.axes[0].set_ylabel("token that asks")

print("largest weight of [PAD]:", max(weights[:, 5].max() for weights in maps))

# %% [markdown]
# × is the mask.  "sat" gets "cat" from head 0 and [SEP] from head 1; the single head gives it half
# of each.
#
# ## A question to end with
#
# Take a sentence of which all tokens but one are masked, without dropout.  What are dq and dk?
# And dv?
#
# <details><summary>Answer</summary>
# dq and dk are 0: with a single key left, its weight is 1 whatever the score, so moving q or k
# changes nothing.  Softmax's backward says the same: p (dp - Σ dp p) = 1 (dp - dp) = 0.  dv is not
# 0: the one value gets the sum of dcontext over all queries, and the masked values get 0.
# </details>
#
# minibert's own: `minibert lesson show 10`, or the file `minibert/layers/attention.py`.
