# %% [markdown]
# # Lesson 6: residual and dropout
#
# *30 minutes.  Before it: lesson 5.*
#
# Each half of a BERT layer ends in the same line:
#
#     y = LayerNorm(residual + dropout(x))
#
# x is what attention (or the feed-forward) computed, `residual` is what it was given.  This
# lesson is about the plus sign and the word *dropout*.  Both have a backward of one line, and
# both lines are often wrong: the sum's, because a term is forgotten; dropout's, because a new mask
# is drawn.  Neither mistake stops the training.  It only gets worse, and nobody sees why.
#
# You will write dropout, its backward, and the backward of the whole line.  To check:
#
#     minibert lesson check 06
#
# or run the cells below one after the other.

# %%
import numpy as np

from minibert.course import check, picture
from minibert.keys import Key
from minibert.layers.activations import gelu_backward, gelu_forward
from minibert.layers.add_norm import add_norm_forward
from minibert.layers.dropout import keep_mask
from minibert.layers.layernorm import layernorm_backward

# %% [markdown]
# ## Dropout
#
# In training, each number is set to 0 with probability `rate`, which is 0.1 in BERT.  So no part
# of the network can rely on one other part.  What is kept is multiplied by 1 / (1 - rate).
# Element by element, with m_i = 1 where the mask keeps and 0 where it drops:
#
#     y_i = k_i x_i        k_i = m_i / (1 - rate)
#
# Why the factor?  m_i is 1 with probability 1 - rate, so on average k_i is
# (1 - rate) · 1 / (1 - rate) = 1, and y is x on average.  Then **evaluation needs no change**: it
# uses x as it is.  The first paper (2014) did it the other way round, and multiplied by
# 1 - rate at evaluation.  Articles mix the two, and then the numbers are scaled twice, or never.
#
# A second mix-up: `rate` is the share that is *dropped*.  Old programs have a `keep_prob`
# instead, which is 1 - rate.
#
# By pencil, with rate = ¼, so that what is kept is multiplied by 4/3:
#
# | | | | | |
# |---|---|---|---|---|
# | x | 3 | 6 | 9 | 12 |
# | mask | keep | drop | keep | keep |
# | y | 4 | 0 | 12 | 16 |
#
# ## A mask is a seed
#
# The backward will need the mask again.  To store it is possible: at 32 × 128 tokens, the masks
# of a BERT-base take 150 MB, one byte each.  minibert stores nothing.  Its
# `keep_mask(shape, rate, seed, like)` gives each element random bits that depend on the seed and
# on the element's place alone (`like` is any array of the kind wanted; x will do).  Call it twice
# with the same seed, and you have the same mask twice:

# %%
x = np.array([3.0, 6.0, 9.0, 12.0])
for seed in (6, 6, 7):
    print(seed, keep_mask(x.shape, 0.25, seed, x))

# %% [markdown]
# So the cache of a layer remembers one number, and not 3 million.
#
# ## First blank: dropout's forward
#
# | name | shape |
# |---|---|
# | x, y, and the mask | any, all the same |
# | rate, seed | two numbers |
#
# True counts as 1 and False as 0, if you multiply.


# %%
def dropout_forward(x, rate, seed):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return y


# %%
dropout_forward = check(dropout_forward)

# %% [markdown]
# <details><summary>x was changed in place</summary>
# x[~keep] = 0 writes into the caller's array, which is still needed: it may be the residual too.
# Compute a new one.
# </details>
#
# <details><summary>y differs from call to call</summary>
# The mask has to come from keep_mask and the seed, not from np.random.
# </details>
#
# ## Dropout's backward
#
# Given is dy, of y's shape.  The mask does not depend on x, so k_i is a constant, and y_i hangs
# on x_i alone:
#
#     dx_i = dy_i ∂y_i/∂x_i = dy_i k_i
#
# That is the forward again, applied to dy: the **same** mask, and the same factor.  For the table
# above, dy = [3, 3, 3, 3] gives dx = [4, 0, 4, 4].  A number that was dropped did not act on the
# loss, so its gradient is 0.
#
# The backward does not *undo* the forward.  Nobody divides by 4/3 here: what made the number larger
# on its way up makes its gradient larger on its way down.
#
# ## Second blank: dropout's backward


# %%
def dropout_backward(dy, rate, seed):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dx


# %%
dropout_backward = check(dropout_backward)

# %% [markdown]
# <details><summary>It looks the same as the forward.  May I call that?</summary>
# Yes.  minibert does, and so the two cannot differ.
# </details>
#
# ## A sum hands its gradient to both terms, whole
#
# Let s = residual + d, where d = dropout(x).  Move one number of `residual` by 1, and the same
# number of s moves by 1.  For d it is just the same:
#
#     ∂s_i/∂residual_i = 1        ∂s_i/∂d_i = 1
#
#     dresidual = ds              dd = ds
#
# Each gets **all** of ds.  It is not shared out: a sum copies its gradient.
#
# Now read the whole line from its end:
#
# | forward | backward | shapes |
# |---|---|---|
# | d = dropout(x) | dx = ds through dropout | (..., C) |
# | s = residual + d | dresidual = ds, dd = ds | (..., C) |
# | y = LayerNorm(s) | ds, dγ, dβ from dy (lesson 5) | (..., C), (C,), (C,) |
#
# LayerNorm stands **after** the sum, so both gradients come through it, the residual's too.  (In
# a GPT it stands before the sub-layer, and the residual goes around it.  BERT's order is called
# *post-LN*.)  Dropout stands **before** the sum, on x alone: the residual was never dropped.
#
# By pencil: x̂ = [1, 1, 1, -3] / √3, rstd = 1, γ = 1 and dy = [3, 0, 0, 1].  The level of dy is 1,
# which is taken away (lesson 5); along x̂ there is nothing.  So ds = [2, -1, -1, 0].

# %%
x_hat = np.array([[1.0, 1, 1, -3]]) / np.sqrt(3)
ds, _, _ = layernorm_backward(np.array([[3.0, 0, 0, 1]]), x_hat, np.ones((1, 1)), np.ones(4))
print(ds.round(6) + 0)

# %% [markdown]
# Let the rate be ½, and the mask keep, drop, keep, keep.  Then
#
#     dresidual = [2, -1, -1, 0]        dx = [4, 0, -2, 0]
#
# The two are returned one beside the other.  They are not to be added yet: dx has to go back
# through the sub-layer first.
#
# ## Third blank: the backward of add & norm
#
# `layernorm_backward(dy, x_hat, rstd, weight)` is lesson 5's.  It returns three gradients.


# %%
def add_norm_backward(dy, x_hat, rstd, weight, rate, seed):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dx, dresidual, dweight, dbias


# %%
add_norm_backward = check(add_norm_backward)

# %% [markdown]
# <details><summary>dx is right in some places, and wrong in others</summary>
# Where it is wrong, the mask is another one.  Has dropout_backward got this very rate and seed?
# </details>
#
# <details><summary>dx is wrong and dresidual is right</summary>
# Then ds is right as well.  dx is ds after dropout_backward, and nothing else.
# </details>
#
# <details><summary>dweight and dbias are wrong too</summary>
# They come out of layernorm_backward.  Has it got dy as it came, before any dropout?
# </details>
#
# ## What a forgotten residual costs
#
# One sub-layer f, its input x, and s = x + f(x).  Below the sub-layer the two gradients of x meet.
# With J for the derivative of f:
#
#     dx = ds + Jᵀ ds = (1 + Jᵀ) ds
#
# Twelve layers have 24 such factors.  A fresh network has small weights, so J is small.  A product
# of 24 times "1 + small" is about 1; without the 1 it is a product of 24 small numbers.  Let us
# watch a gradient go down through 24 feed-forwards with BERT's first weights (deviation 0.02), and
# twice more with the two mistakes that people make at the plus sign.

# %%
generator = np.random.default_rng(0)
L, N, C = 24, 32, 64  # sub-layers, tokens, width
ones, zeros = np.ones(C), np.zeros(C)
wide = [0.02 * generator.normal(size=(C, 4 * C)) for _ in range(L)]
narrow = [0.02 * generator.normal(size=(4 * C, C)) for _ in range(L)]

x, saved = generator.normal(size=(N, C)), []
for layer in range(L):
    seed = Key(0).child("layer", layer).seed
    before = x @ wide[layer]
    out = gelu_forward(before) @ narrow[layer]
    x, x_hat, rstd = add_norm_forward(out, x, ones, zeros, 1e-12, 0.1, seed)
    saved.append((before, x_hat, rstd, seed))
start = generator.normal(size=x.shape)


def sizes_on_the_way_down(share_of_sublayer, share_of_residual):
    gradient, sizes = start, [1.0]
    for layer in reversed(range(L)):
        before, x_hat, rstd, seed = saved[layer]
        dout, dresidual, _, _ = add_norm_backward(gradient, x_hat, rstd, ones, 0.1, seed)
        through = gelu_backward(dout @ narrow[layer].T, before) @ wide[layer].T
        gradient = share_of_sublayer * through + share_of_residual * dresidual
        sizes.append(np.linalg.norm(gradient) / np.linalg.norm(start))
    return sizes


with picture("06_residual.png", 7, 3.4) as figure:
    axes = figure.subplots()
    depth = np.arange(L, -1, -1)
    for shares, label, style in (
        ((1, 1), "both terms get all of ds", "o-"),
        ((0.5, 0.5), "each term gets half", "s--"),
        ((1, 0), "the residual gets nothing", "^:"),
    ):
        sizes = sizes_on_the_way_down(*shares)
        axes.semilogy(depth, sizes, style, color="#0072B2", markersize=4)
        axes.annotate(
            f"{label}:\n{sizes[-1]:.2g} arrives", (0, sizes[-1]), xytext=(8, 0),
            textcoords="offset points", va="center",
        )  # fmt: skip
        print(f"{label}: {sizes[-1]:.2g} of the gradient arrives")
    axes.set_xlim(L + 0.5, -10)
    axes.spines["bottom"].set_bounds(L + 0.5, 0)
    axes.grid(False)
    axes.set_xticks([24, 18, 12, 6, 0])
    axes.set_xlabel("sub-layers still below: 24 at the top, 0 at the embeddings", loc="left")
    axes.set_ylabel("size of the gradient")
    axes.set_title("What arrives below, of a gradient of size 1")

# %% [markdown]
# All three networks are the same; only the backwards differ.  Where the residual gets nothing, only
# the uppermost layers learn.  Adam divides by the gradient's size, but adds 1e-6 to it first, and
# next to that 1e-38 is nothing.  The loss still falls, as the upper layers do what they can.
#
# ## A question to end with
#
# Your dropout backward draws a new mask, at BERT's rate of 0.1.  You train, and the loss falls.
# Why does it fall at all?  And how would you have found the mistake?
#
# <details><summary>Answer</summary>
# With rate 0.1 a number is kept by both masks in 81 of 100 cases, so most gradients are right but
# for a factor.  On average the new mask's k is 1, so the gradient points the right way on average,
# with noise on it.  A falling loss is no proof of a right backward.  A comparison with finite
# differences is: the forward with a fixed seed is a plain function, and its slope is known to nine
# digits.  That is one more reason to have seeds.
# </details>
#
# minibert's own: `minibert lesson show 06`, or the files `minibert/layers/dropout.py` and
# `minibert/layers/add_norm.py`.
