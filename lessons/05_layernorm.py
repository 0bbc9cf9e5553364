# %% [markdown]
# # Lesson 5: layer normalisation
#
# *30 minutes.  Before it: lessons 1, 2 and 3.*
#
# A BERT has two layer normalisations in every layer, and one on its embeddings.  Each is five
# lines of code.  Its backward is the first one in this course in which one number of a row moves
# all outputs of that row, by three routes, and the one that home-made BERTs get wrong most often.
#
# You will write the forward, then the backward.  To check what you wrote, in a terminal:
#
#     minibert lesson check 05
#
# or run the cells below one after the other.

# %%
import numpy as np

from minibert.course import check, picture

# %% [markdown]
# ## What it does
#
# `x` has the shape `(..., C)`: any number of rows, C columns.  In BERT a row is one token, and C
# is the hidden width.  **Each row is treated by itself.**  With m(·) the mean over the C columns
# of a row:
#
# | step | equation | shape |
# |---|---|---|
# | mean | μ = m(x) | (..., 1) |
# | variance | σ² = m((x - μ)²) | (..., 1) |
# | one over the deviation | rstd = 1 / √(σ² + ε) | (..., 1) |
# | normalised | x̂ = (x - μ) · rstd | (..., C) |
# | output | y = γ x̂ + β | (..., C) |
#
# γ (called `weight` in code) and β (`bias`) have the shape `(C,)` and are learned; dγ is `dweight`
# and dβ is `dbias`.  Every row of x̂ has mean 0 and, but for ε, variance 1; γ and β then give each
# column the scale and the shift that it needs.
#
# Three details, each of which some article has wrong:
#
# - The variance divides by C, **not by C - 1**.  This is no estimate of anything; it is a rule.
# - ε stands **inside** the root.  BERT's ε is 1e-12, and matters where a row is constant: σ is 0
#   there, rstd is 10⁶, and with ε outside the root it would be 10¹².
# - The means run over the **columns** of one row, `axis=-1`.  Over the rows it would be batch
#   normalisation, and a sentence's vectors would depend on its neighbours in the batch.
#
# The small case to follow with a pencil: x = [1, 0, 0, 0].  The mean is ¼, the variance is 3/16,
# so rstd = 4/√3, and x̂ = [√3, -1/√3, -1/√3, -1/√3].
#
# ## First blank: the forward
#
# The backward will need x̂ and rstd, so the forward returns them beside y.  `keepdims=True` keeps
# the axis of a mean with size 1; then it fits x again.


# %%
def layernorm_forward(x, weight, bias, eps):  # x (..., C), weight (C,), bias (C,), eps a number
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return y, x_hat, rstd


# %%
layernorm_forward = check(layernorm_forward)

# %% [markdown]
# <details><summary>My x_hat is right but for the last digits</summary>
# Is ε inside the root?  Did you divide by C?
# </details>
#
# <details><summary>operands could not be broadcast together</summary>
# A mean without keepdims=True has lost its axis: (2, 3) does not fit (2, 3, 7).
# </details>
#
# ## The backward: three paths
#
# Given is dy, the loss's gradient at y, of y's shape.  Wanted are dx, dγ and dβ.
#
# **The easy part.**  y = γ x̂ + β, in every row with the same γ and β.  What is used in many rows
# gets the sum of their gradients (as the bias did in lesson 2).  The rows are all axes but the
# last: `dy.reshape(-1, C)`, with C = `dy.shape[-1]`, makes one axis of them.
#
#     dγ = Σ_rows dy · x̂        dβ = Σ_rows dy        dx̂ = dy · γ
#
# **The part with three paths.**  Move one x_i of a row a little.  All C numbers x̂_j of that row
# move.  Each is a product, x̂_j = (x_j - μ) · rstd, and by the product rule the first factor's
# movement counts times rstd, the second's times (x_j - μ):
#
# 1. x_i itself moves.  It is in the first factor of x̂_i alone: rstd.
# 2. μ moves by 1/C.  It is in the first factor of all x̂_j: - rstd / C.
# 3. rstd moves.  It is the second factor of all x̂_j: by how much?
#
# For the third, begin with the variance.  1[i=j] means: 1 if i = j, else 0.
#
#     ∂σ²/∂x_i  =  2/C · Σ_j (x_j - μ) (1[i=j] - 1/C)
#               =  2/C · (x_i - μ)  -  2/C² · Σ_j (x_j - μ)
#               =  2/C · (x_i - μ)                               as deviations add up to 0
#
# Then rstd = (σ² + ε)^(-1/2).  At the end (x_i - μ) · rstd is x̂_i:
#
#     ∂rstd/∂x_i  =  -½ (σ² + ε)^(-3/2) · 2 (x_i - μ) / C
#                 =  - rstd³ (x_i - μ) / C
#                 =  - rstd² x̂_i / C
#
# times (x_j - μ), and as (x_j - μ) · rstd is x̂_j, that is - rstd x̂_j x̂_i / C.  Together:
#
#     ∂x̂_j/∂x_i  =  rstd (1[i=j] - 1/C - x̂_i x̂_j / C)
#
# Now send dx̂ back, over all j that x_i moves:
#
#     dx_i  =  Σ_j dx̂_j ∂x̂_j/∂x_i
#           =  rstd (dx̂_i  -  1/C · Σ_j dx̂_j  -  x̂_i · 1/C · Σ_j dx̂_j x̂_j)
#
# A sum over j divided by C is a mean, and x̂_i does not depend on j, so it stays outside:
#
#     dx  =  rstd (dx̂ - m(dx̂) - x̂ m(dx̂ x̂))
#
# Look at where γ is: inside dx̂, **before** the means are taken.  Many published backwards take
# the means of dy and multiply by γ at the end.  That is right only while all γ are equal, which
# they are before the first step: γ = 1.  A test with fresh weights cannot see the mistake, so the
# check below draws γ at random.
#
# | name | shape |
# |---|---|
# | dy, x_hat, dx | (..., C) |
# | rstd, and each mean | (..., 1) |
# | weight, dweight, dbias | (C,) |
#
# ## Second blank: the backward


# %%
def layernorm_backward(dy, x_hat, rstd, weight):  # (..., C), (..., C), (..., 1), (C,)
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dx, dweight, dbias


# %%
layernorm_backward = check(layernorm_backward)

# %% [markdown]
# <details><summary>dweight has shape (2, 3, 7)</summary>
# It has to be a sum over all rows.  dy.reshape(-1, C) makes one axis of them; then .sum(axis=0).
# </details>
#
# <details><summary>My dx is right where γ = 1</summary>
# γ stands outside the means.  Begin with dx_hat = dy * weight, and never use dy again for dx.
# </details>
#
# <details><summary>My dx is too large, or has the wrong sign in places</summary>
# Are both means subtracted?  Are they means, not sums, over the last axis?  Is rstd in front of
# the whole bracket?
# </details>
#
# ## What the bracket takes away
#
# The two means have a meaning.  A gradient that pushes all numbers of a row the same way changes
# only the mean, which is subtracted again: it has no effect, so it is removed.  A gradient along
# x̂ itself changes only the size, which is divided out: removed as well.  What is left is at right
# angles to both.  Here is one row of 40 numbers, and its gradient before and after.

# %%
generator = np.random.default_rng(0)
width = 40
x = generator.normal(size=(1, width))
_, x_hat, rstd = layernorm_forward(x, np.ones(width), np.zeros(width), 1e-12)
dy = 0.8 + 0.9 * x_hat + 0.5 * generator.normal(size=(1, width))
dx, _, _ = layernorm_backward(dy, x_hat, rstd, np.ones(width))
left_over = dx / rstd  # so that both have one scale

with picture("05_layernorm.png", 7, 3.2) as figure:
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, gradient, title in (
        (left, dy, "dy, as it arrives"),
        (right, left_over, "what passes"),
    ):
        axes.axhline(0, color="#999999", linewidth=1)
        axes.plot(x_hat[0], gradient[0], "o", color="#0072B2")
        axes.set_title(title)
        axes.set_xlabel("normalised x̂")
    left.set_ylabel("gradient")

print(f"along all ones: {dy.mean():.3f} before, {abs(left_over.mean()):.3f} after")
print(
    f"along x̂:        {(dy * x_hat).mean():.3f} before, {abs((left_over * x_hat).mean()):.3f} after"
)

# %% [markdown]
# On the left the gradient has a level and a slope; on the right both are gone.
#
# ## A question to end with
#
# With dy all ones and γ all ones, what is dx?  What does that say about testing a backward with
# the loss `y.sum()`?
#
# <details><summary>Answer</summary>
# It is 0: all ones is the very direction that is removed.  So with that loss, and γ as it is in a
# fresh model, a backward without its variance term passes the test as well, and so does one with
# that term's sign turned: m(dx̂ x̂) = m(x̂) = 0.  This is why the checks of this course draw the
# upstream gradient and γ at random.
# </details>
#
# minibert's own: `minibert lesson show 05`, or the file `minibert/layers/layernorm.py`.
