# %% [markdown]
# # Lesson 3: softmax and cross-entropy
#
# *35 minutes.  Before it: lesson 2.*
#
# For a masked word BERT returns one score for each of the 30,522 pieces of its vocabulary.
# Softmax makes probabilities of them, and cross-entropy says how wrong they are.  Softmax stands
# in the attention as well.  Each is a few lines of code, and three things go wrong in them: large
# numbers, labels that do not count, and the question who divides by N.
#
# You will write softmax's backward, the loss, and the backward of both together.  To check:
#
#     minibert lesson check 03

# %%
import numpy as np

from minibert.arrays import IGNORED  # -100
from minibert.course import check, picture
from minibert.layers.softmax import softmax_forward

# %% [markdown]
# ## Softmax
#
# A row x of T scores becomes a row y of T probabilities:
#
#     y_i  =  e^{x_i} / s        s  =  Σ_j e^{x_j}        x, y: (..., T)      s: (..., 1)
#
# Every y is above 0, and a row adds up to 1.
#
# **Shift by the maximum.**  In float32, e^89 is inf already, and inf / inf is no number.  But
# adding a constant c to all scores of a row changes nothing: e^c stands above and below the
# fraction bar and cancels.  So take the row's largest score off first.  Then the largest power
# is e^0 = 1, the sum is at least 1, and what is far below rounds to 0 without harm:
#
#     e = np.exp(x - x.max(axis=-1, keepdims=True))
#     y = e / e.sum(axis=-1, keepdims=True)
#
# It has to be *each row's own* maximum.  With one for all rows, a row far below it would be 0/0.
#
# The small case to follow with a pencil: x = [log 2, 0, 0].  The powers are 2, 1, 1, the sum is
# 4, and y = [½, ¼, ¼].
#
# ## Softmax's backward
#
# Move one score x_j.  It is in its own numerator, and through s in **all** probabilities of the
# row.  With ∂s/∂x_j = e^{x_j}, the quotient rule gives
#
#     ∂y_i/∂x_j  =  (1[i=j] e^{x_i} s - e^{x_i} e^{x_j}) / s²
#                =  y_i (1[i=j] - y_j)
#
# where 1[i=j] is 1 if i = j, else 0.  Given dy, add up over all y_i that x_j reaches:
#
#     dx_j  =  Σ_i dy_i y_i (1[i=j] - y_j)
#           =  y_j dy_j  -  y_j Σ_i dy_i y_i
#
#     dx  =  y (dy - Σ dy y)              dy, y, dx: (..., T)      the sum: (..., 1)
#
# Σ dy y is a mean of dy, weighted by the probabilities.  A score gets a gradient only for what
# its own dy is above or below that mean.  In the small case with dy = [1, 0, 0] the mean is ½,
# and dx = [½·½, -¼·½, -¼·½] = [¼, -⅛, -⅛].
#
# ## First blank


# %%
def softmax_backward(dy, y):  # (..., T), and y is the forward's output
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dx


# %%
softmax_backward = check(softmax_backward)

# %% [markdown]
# <details><summary>operands could not be broadcast together</summary>
# The sum lost its axis: keepdims=True keeps it, with size 1.
# </details>
#
# <details><summary>It is right for one row, and wrong for several</summary>
# Over which axis do you sum?  A sum without axis= is over everything.
# </details>
#
# ## Cross-entropy
#
# There are N rows of V scores, which before a softmax are called **logits**, and one right answer
# for each row, its **label**.  The loss of a row is minus the logarithm of the probability that
# the label got:
#
#     loss  =  -log p_label  =  -log (e^{x_label} / Σ_j e^{x_j})  =  log Σ_j e^{x_j}  -  x_label
#
# It is 0 where the label got everything.  With label 0 the small case costs log 2 = 0.693, and
# with label 2 log 4 = 1.386.  A model that knows nothing gives each of V classes 1/V and pays
# log V.  So BERT begins near log 30,522 = 10.3; with another number, look for a mistake.
#
# **From the logits, not from the probabilities.**  If the label's logit is 110 below the best
# one, p is 1.7e-48, which float32 rounds to 0, and log 0 is -inf.  The right loss is 110.  The
# form on the right never makes p.  The shift belongs here too: take the row's maximum off, in
# *both* terms.
#
# **Labels that do not count.**  BERT predicts 15 % of the tokens.  All others have the label
# -100, `IGNORED`.  Such a row has loss 0 and gradient 0.  Two mistakes are common.  To make the
# look-up of column -100 possible, people put a 0 in its place, and forget to set the row to 0
# afterwards.  Or they write `labels > 0`, and class 0 is never learned.
#
# ## Second blank: one loss for each row
#
# | name | shape |
# |---|---|
# | logits, shifted | (N, V) |
# | labels, the result | (N,) |
# | a row's maximum | (N, 1) |
#
# To look up one column in each row: `shifted[np.arange(N), columns]`.


# %%
def row_losses(logits, labels):  # (N, V), integers (N,)
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return losses


# %%
row_losses = check(row_losses)

small = np.log([[2.0, 1.0, 1.0]] * 3)  # the small case, three times
print(row_losses(small, np.array([0, 2, IGNORED])))

# %% [markdown]
# <details><summary>index -100 is out of bounds</summary>
# np.where(labels == IGNORED, 0, labels) has only real columns.  Set the ignored rows to 0 at the
# end.
# </details>
#
# <details><summary>losses has shape (8, 8), expected (8,)</summary>
# An (N, 1) met an (N,), and broadcasting made a table of them.  keepdims=True is for the maximum;
# the sum of the powers can drop its axis.
# </details>
#
# <details><summary>overflow, divide by zero, or a loss of inf</summary>
# Did you subtract each row's maximum?  Is there a logarithm of a probability?  Only the sum of
# the powers may stand inside the logarithm.
# </details>
#
# ## The sum, and who divides
#
# minibert's cross-entropy returns the **sum** of these losses.  Usually one wants the mean over
# the rows that count.  Then who divides by their number?  The one who knows it.  If a batch is
# too large for the memory, it is split into micro-batches and their gradients are added up.  No
# micro-batch knows how many masked tokens the others have, and the mean of the means is not the
# mean of all.  So the training loop counts them all, N, and sends dloss = 1/N back.  The backward
# multiplies by dloss, and divides by nothing.
#
# ## The backward of both
#
# Two steps back, as always the last one first.  The loss depends on p only at the label, so
#
#     dp_label = -1 / p_label,        all other dp are 0
#
# Now softmax's backward.  Its sum is Σ dp p = -1, and so
#
#     dx_j  =  p_j (dp_j + 1)  =  p_j - 1        at the label
#                                 p_j            elsewhere
#
# p in the denominator has gone.  This is why the two are taken together: a p of 0 does no harm.
# With the factor that arrives:
#
#     dlogits  =  dloss (p - 1[label]),        0 in an ignored row
#
# In the small case, with label 0 and dloss = ½: [-¼, ⅛, ⅛].
#
# ## Third blank
#
# Make a new array: `probs` still belongs to the caller.


# %%
def cross_entropy_backward(dloss, probs, labels):  # a number, (N, V), integers (N,)
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dlogits


# %%
cross_entropy_backward = check(cross_entropy_backward)

# %% [markdown]
# <details><summary>dlogits has dtype float64</summary>
# In float32 everything has to stay in float32.  np.eye and np.zeros make float64: pass
# dtype=probs.dtype, or begin with probs * dloss.
# </details>
#
# <details><summary>probs was changed in place</summary>
# probs[rows, labels] -= 1 writes into the caller's array.  Multiply by dloss first: that makes a
# new one.
# </details>
#
# ## What the gradient says, and what rounding does
#
# A model has to guess the word in "the [MASK] barks".  On the left is its gradient: the label's
# logit is pulled up, all others are pushed down, each as far as it was believed.  On the right is
# the loss in float32, for a label that is more and more unlikely.

# %%
words = ["cat", "dog", "man", "car", "sky"]
logits = np.array([[2.0, 1.6, 0.7, -0.5, -1.2]])
dlogits = cross_entropy_backward(1.0, softmax_forward(logits), np.array([1]))[0]

below = np.arange(0, 141, dtype=np.float32)  # how far the label lies below the best
rows = np.stack([0 * below, -below], axis=1)
from_logits = row_losses(rows, np.full(len(rows), 1))
with np.errstate(divide="ignore"):  # log 0, which is what this is about
    from_probabilities = -np.log(softmax_forward(rows)[:, 1])
last = int(np.isfinite(from_probabilities).sum()) - 1

with picture("03_softmax.png", 9, 3.4) as figure:
    left, right = figure.subplots(1, 2)
    left.barh(words[::-1], dlogits[::-1], color="#0072B2")
    left.axvline(0, color="#333333", linewidth=1)
    for place, value in enumerate(dlogits[::-1]):
        side = "left" if value > 0 else "right"
        left.annotate(f" {value:+.2f} ", (value, place), ha=side, va="center")
    left.set_xlim(-0.9, 0.7)
    left.set_title("label dog: p - 1[label] adds up to 0")
    left.set_xlabel("gradient (a step goes the other way)")

    right.plot(below, from_logits, color="#999999", linewidth=6)
    right.annotate("thick: from the logits,\ngoes on", (82, 58))
    right.plot(below[: last + 1], from_probabilities[: last + 1], color="#0072B2", linewidth=1.5)
    right.plot(below[last], from_probabilities[last], "x", color="#0072B2", markersize=9, mew=2)
    right.annotate(
        "thin: from the probability,\nends here, then it is inf", (below[last] - 5, 105), ha="right"
    )
    right.set_title("the loss in float32")
    right.set_xlabel("label's logit, below the best by")
    right.set_ylabel("loss")

print(f"the gradient's sum: {abs(dlogits.sum()):.3f}; the last finite loss: {last}")

# %% [markdown]
# ## A question to end with
#
# A batch is split in two.  The first half has 30 masked tokens with a mean loss of 2, the second
# 10 with a mean loss of 3.  What is the batch's loss?  What would the mean of the two means be,
# and which tokens would it prefer?
#
# <details><summary>Answer</summary>
# (30 · 2 + 10 · 3) / 40 = 2.25.  The mean of the means is 2.5: each token of the second half would
# count three times as much as one of the first, only because few were masked there.
# </details>
#
# minibert's own: `minibert lesson show 03`, or the files `minibert/layers/softmax.py` and
# `minibert/layers/cross_entropy.py`.
