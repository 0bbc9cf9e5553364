# %% [markdown]
# # Lesson 9: one attention head
#
# *35 minutes.  Before it: lessons 3 and 5.*
#
# Until now every token was treated by itself.  Attention is the one place in BERT where tokens
# exchange anything: each asks all others a question, and takes a mean of their answers, weighted
# by how well they fit.  A head is three steps, two of which are matrix products, and the third is
# the softmax that you know.
#
# You will write the scores, then the backward of both products, and put a whole head together.
# To check what you wrote, in a terminal:
#
#     minibert lesson check 09
#
# or run the cells below one after the other.

# %%
import math

import numpy as np

from minibert.course import check, picture
from minibert.gradcheck import check_gradients
from minibert.layers.softmax import softmax_backward, softmax_forward

# %% [markdown]
# ## Three steps
#
# Each token comes with three vectors of D numbers.  Each is a linear layer of the token's vector,
# with weights of its own (lesson 2):
#
# - a **query** q: what the token asks for,
# - a **key** k: what it offers to be found by,
# - a **value** v: what it hands over when it is found.
#
# With T queries, and S keys and values:
#
# | step | equation | shape |
# |---|---|---|
# | scores | s = q kᵀ / √D | (T, S) |
# | weights | p = softmax(s), along each row | (T, S) |
# | context | c = p v | (T, D) |
#
# Row i of the weights belongs to query i.  It is positive and adds up to 1, so context i is a mean
# of the values: what token i has learned from the others.
#
# In BERT, queries and keys come from one sentence, so S = T.  This lesson keeps the letters apart,
# and the checks use T ≠ S: with T = S you could turn a matrix the wrong way and not notice.  In
# front of the two axes may stand others, such as the batch; `@` multiplies the last two.
#
# ## Why the root
#
# A score is a sum of D products, s = q_1 k_1 + … + q_D k_D.  Say that all numbers are independent,
# with mean 0 and variance 1.  Then each product has mean 0 and variance 1, and variances of
# independent terms add:
#
#     variance of q · k  =  D            deviation  =  √D
#
# BERT has D = 64, so scores would lie around ±8, and some differ by 16.  Softmax turns a
# difference of 16 into a factor of e¹⁶, about nine million: one key gets everything.  That would
# be bad twice.  The mean is no mean any more, and softmax's slope is p (1 - p), which is 0 at
# p = 0 and at p = 1: **no gradient comes back, so nothing can be learned**.  Divided by √D, the
# scores have deviation 1 for every D.
#
# It is the root of **one head's** D.  Dividing by D itself would make all scores nearly 0 and all
# weights nearly equal.
#
# ## An example by pencil
#
# One query, two keys, D = 4, so √D = 2:
#
#     q   = [2, 0, 0, 0]
#     k_1 = [0, 1, 0, 0]               v_1 = [4, 0, 1, 0]
#     k_2 = [ln 3, 0, 0, 0]            v_2 = [8, 4, 1, 0]
#
#     s = [0, 2 ln 3 / 2] = [ln 1, ln 3]
#     p = [1, 3] / 4      = [¼, ¾]
#     c = ¼ v_1 + ¾ v_2   = [7, 3, 1, 0]
#
# ## First blank: the scores


# %%
def scores_forward(q, k):  # q (..., T, D), k (..., S, D)
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return scores  # (..., T, S)


# %%
scores_forward = check(scores_forward)

# %% [markdown]
# <details><summary>matmul: Input operand 1 has a mismatch</summary>
# k has to be turned over, and only in its last two axes: k.swapaxes(-1, -2).  k.T exchanges all
# axes, the batch's too.
# </details>
#
# <details><summary>scores has dtype float64, expected float32</summary>
# np.sqrt(4) is a float64 of NumPy's, and makes everything it touches float64.  math.sqrt(4) is a
# plain number and leaves the dtype alone.
# </details>
#
# ## The way back
#
# Given is dc, the loss's gradient at the context.  We reverse the three steps, the last one first.
#
# **The mean.**  Written out, c_id = Σ_j p_ij v_jd.
#
# - A weight p_ij multiplies the whole vector v_j, so D columns add up.
# - A value v_jd is read by all T queries, so T rows add up.
#
#         dp_ij = Σ_d dc_id v_jd         =>      dp = dc vᵀ       (T, D) (D, S) → (T, S)
#         dv_jd = Σ_i p_ij dc_id         =>      dv = pᵀ dc       (S, T) (T, D) → (S, D)
#
# The first line says: a weight should grow if its value points where the loss falls.  The second:
# a value gets its gradient from those who looked at it, by how much they looked.
#
# **The softmax.**  It has no blank here; this is lesson 3, for every row:
#
#     ds = p (dp - Σ_j dp_j p_j)
#
# **The scores.**  s_ij = Σ_d q_id k_jd / √D is a product of two factors again, with a constant
# in front.  A constant factor comes back as itself.
#
#     dq_id = Σ_j ds_ij k_jd / √D     =>      dq = ds k / √D      (T, S) (S, D) → (T, D)
#     dk_jd = Σ_i ds_ij q_id / √D     =>      dk = dsᵀ q / √D     (S, T) (T, D) → (S, D)
#
# Each factor's gradient is made with the *other* one: dq with k, dk with q.
#
# The pencil again, with dc = [1, 0, 0, 0]:
#
#     dp = [4, 8]                      the first column of v
#     Σ dp p = ¼ · 4 + ¾ · 8 = 7
#     ds = [¼ (4 - 7), ¾ (8 - 7)] = [-¾, ¾]
#     dq = (-¾ k_1 + ¾ k_2) / 2 = [⅜ ln 3, -⅜, 0, 0]
#     dk_1 = -¾ q / 2 = [-¾, 0, 0, 0]      dk_2 = [¾, 0, 0, 0]
#     dv_1 = ¼ dc                          dv_2 = ¾ dc
#
# Read ds: dc asks how the context's first column, 7, can change.  v_2 has 8 there, so more weight
# for it raises the 7; v_1 has 4, so more weight for it lowers the 7.  Weight that one key gains the
# others lose, so **every row of ds adds up to 0**.
#
# ## Second blank: back through the mean


# %%
def weighted_mean_backward(dcontext, weights, v):  # (..., T, D), (..., T, S), (..., S, D)
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dweights, dv  # (..., T, S), (..., S, D)


# %%
weighted_mean_backward = check(weighted_mean_backward)

# %% [markdown]
# ## Third blank: back through the scores


# %%
def scores_backward(dscores, q, k):  # (..., T, S), (..., T, D), (..., S, D)
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dq, dk  # (..., T, D), (..., S, D)


# %%
scores_backward = check(scores_backward)

# %% [markdown]
# <details><summary>The shapes do not fit</summary>
# Write the shape under every factor.  What stands between two factors must be equal, and
# disappears: (S, T) (T, D) → (S, D).  So it is weights, or dscores, that has to be turned over.
# </details>
#
# <details><summary>dq is right and dk is not, or the other way round</summary>
# Is the root in both?  Is each made with the other factor?
# </details>
#
# <details><summary>dscores was changed in place</summary>
# dscores /= 2 writes into the caller's array.  dscores = dscores / 2 makes a new one.
# </details>
#
# ## A whole head
#
# Forward it is three lines; backward the same three, from the bottom to the top.  The check below
# moves every number of q, k and v a little and compares.


# %%
def head_forward(q, k, v):
    weights = softmax_forward(scores_forward(q, k))
    return weights @ v, weights


def head_backward(dcontext, q, k, v, weights):
    dweights, dv = weighted_mean_backward(dcontext, weights, v)
    dscores = softmax_backward(dweights, weights)
    dq, dk = scores_backward(dscores, q, k)
    return dq, dk, dv


generator = np.random.default_rng(0)
q, k, v = (generator.normal(size=shape) for shape in ((3, 4), (5, 4), (5, 4)))
dcontext = generator.normal(size=(3, 4))
context, weights = head_forward(q, k, v)
dq, dk, dv = head_backward(dcontext, q, k, v, weights)

check_gradients(
    lambda: float(np.sum(dcontext * head_forward(q, k, v)[0])),
    {"q": (q, dq), "k": (k, dk), "v": (v, dv)},
)
print("the head's dq, dk and dv agree with finite differences")

# %% [markdown]
# ## What the root saves
#
# Random queries and keys, 32 keys each, for heads of 1 to 1024 columns: how large is the largest
# weight, and how much of a gradient passes softmax?

# %%
widths = [2**n for n in range(11)]
largest, passed = {True: [], False: []}, {True: [], False: []}
for D in widths:
    q, k = generator.normal(size=(200, D)), generator.normal(size=(32, D))
    dweights = generator.normal(size=(200, 32))
    for root in (True, False):
        scores = scores_forward(q, k) * (1 if root else math.sqrt(D))
        weights = softmax_forward(scores)
        dscores = softmax_backward(dweights, weights)
        largest[root].append(weights.max(axis=-1).mean())
        passed[root].append(np.median(np.linalg.norm(dscores, axis=-1)))

with picture("09_attention_head.png", 8, 3.4) as figure:
    left, right = figure.subplots(1, 2, sharex=True)
    for axes, lines in ((left, largest), (right, passed)):
        axes.plot(widths, lines[True], "o-", color="#0072B2", markersize=4)
        axes.plot(widths, lines[False], "s--", color="#D55E00", markersize=4)
        axes.set_xscale("log", base=2)
        axes.set_xticks([1, 4, 16, 64, 256, 1024], ["1", "4", "16", "64", "256", "1024"])
        axes.set_xlabel("columns D of a head (BERT: 64)")
        axes.axvline(64, color="#999999", linewidth=1, linestyle=":")
    left.set_title("largest weight of a row")
    left.set_ylim(0, 1.1)
    left.text(1024, 0.23, "with 1/√D", color="#0072B2", ha="right")
    left.text(10, 0.75, "without", color="#D55E00", ha="right")
    right.set_title("gradient that passes softmax")
    right.set_yscale("log")
    right.set_ylim(3e-5, 1)
    right.set_ylabel("length of dscores")
    right.text(1024, 0.35, "with 1/√D", color="#0072B2", ha="right")
    right.text(50, 2e-2, "without", color="#D55E00", ha="right")

print(f"at D = 64 the largest weight is {largest[True][6]:.2f}, without the root", end=" ")
print(f"{largest[False][6]:.2f}")

# %% [markdown]
# With the root, D hardly matters.  Without it, a wide head looks at one key, and the gradient
# that could teach it to look elsewhere is gone.
#
# ## A question to end with
#
# Add the same vector a to **all** keys.  What happens to the weights, and to the gradient of a?
# What does that say about the bias of the linear layer that makes the keys?
#
# <details><summary>Answer</summary>
# Every score of query i grows by the same q_i · a / √D.  Softmax does not see a number that is
# added to a whole row, so the weights stay as they are.  The gradient of a is Σ_j dk_j =
# Σ_ij ds_ij q_i / √D, and every row of ds adds up to 0: it is 0.  The keys' bias is such a vector:
# it never has any effect and never learns anything.  BERT has it all the same.
# </details>
#
# minibert's own: `minibert lesson show 09`, or the file `minibert/layers/attention.py`.
