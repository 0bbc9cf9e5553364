# %% [markdown]
# # Lesson 4: ReLU, GELU and the feed-forward
#
# *25 minutes.  Before it: lesson 2.*
#
# Two linear layers, one after the other, are one linear layer: (x W₁ᵀ) W₂ᵀ = x (W₂ W₁)ᵀ.  To gain
# anything from the second one, the line between them has to be bent.  That is the work of an
# **activation**: a function of one number, applied to every element by itself.
#
# You will write the backward of three of them.  Each is one to three lines.  To check:
#
#     minibert lesson check 04

# %%
import math

import numpy as np

from minibert.course import check, picture
from minibert.layers.activations import erfc, gelu_forward, gelu_tanh_forward
from minibert.layers.linear import linear_backward, linear_forward

# %% [markdown]
# ## One path only
#
# Let y = f(x), element by element: x, y and both gradients have one shape, whatever it is.  An x
# reaches its own y and no other.  So nothing is summed:
#
#     dx  =  dy · f'(x)
#
# The slope is taken at **x**, what the forward was given.  Taken at y, or at dy, it is another
# number.
#
# ## ReLU, and a kink
#
# ReLU is y = max(x, 0).  Where x > 0 it is y = x, with slope 1.  Where x < 0 it is y = 0, with
# slope 0.  So the gradient passes, or it does not, and x alone decides:
#
#     x  = [-2  0   3]
#     dy = [ 5  7  11]
#     dx = [ 0  0  11]
#
# What about the 0 in the middle?  There is a kink: the slope is 0 to the left and 1 to the right,
# and there is **no derivative**.  A finite difference takes the mean of both sides and says ½.
# The agreement is to take 0, and a program has to keep to what its users expect.  The check below
# wants 0 there, and leaves the kinks out of its finite differences.
#
# ## First blank


# %%
def relu_backward(dy, x):  # any shape, both the same
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dx


# %%
relu_backward = check(relu_backward)

# %% [markdown]
# <details><summary>Negative numbers of dy have disappeared</summary>
# The condition asks about dy.  It has to ask about x.
# </details>
#
# ## GELU
#
# BERT uses another one:
#
#     y  =  x Φ(x)
#
# Φ(x) is the probability that a number drawn from the standard normal distribution is below x.
# It rises from 0 to 1, with Φ(0) = ½.  Take it as a gate: a large x passes whole, a very negative
# one not at all, and between them the gate is partly open.  ReLU's gate is only open or closed.
#
# x moves y on two ways: it is what passes, and it moves the gate.  The product rule has a term
# for each:
#
#     dy/dx  =  Φ(x)  +  x Φ'(x)
#            =  Φ(x)  +  x φ(x)              φ(x) = e^(-x²/2) / √(2π)
#
# Φ' = φ, since the probability "below x" grows by the height of the bell at x.  By pencil, with
# Φ(1) = 0.8413, Φ(-1) = 0.1587 and φ(±1) = 0.2420:
#
#     x       =  -1        0       1
#     slope   =  -0.0833   0.5     1.0833
#
# Below 0 a slope that is *negative*, and above 0 one that is more than 1.  Neither is a mistake.
#
# **Computing Φ.**  It has no formula of powers and roots.  Libraries have the error function erf,
# or erfc(z) = 1 - erf(z), and
#
#     Φ(x)  =  ½ (1 + erf(x / √2))  =  ½ erfc(-x / √2)
#
# The √2 is there because erf belongs to the bell e^(-z²), which is narrower.  Take the form on
# the right: far below 0, erf is -1 up to rounding, and nothing is left of 1 + erf.  NumPy has
# neither of them; the `erfc` imported above is minibert's, and takes arrays.

# %%
far = -9 / math.sqrt(2)
print(f"Φ(-9) by erf: {0.5 * (1 + math.erf(far)):.3g}, by erfc: {0.5 * erfc(np.array(-far)):.3g}")

# %% [markdown]
# ## Second blank
#
# Use `math.sqrt` and `math.pi` for the constants.  They are plain numbers of Python, so a float32
# array stays float32.


# %%
def gelu_backward(dy, x):  # any shape, both the same
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dx


# %%
gelu_backward = check(gelu_backward)

# %% [markdown]
# <details><summary>dx has dtype float64, expected float32</summary>
# np.sqrt(2) is a float64 of NumPy's, and makes float64 of all it meets.  math.sqrt(2) does not.
# </details>
#
# <details><summary>TypeError: only ... arrays can be converted to Python scalars</summary>
# Functions of math take one number.  For an array it is np.exp, not math.exp.
# </details>
#
# ## The tanh form
#
# When GELU was new, erf was slow, so its paper gave an approximation with tanh:
#
#     u  =  c (x + 0.044715 x³)        c = √(2/π)
#     h  =  tanh u
#     y  =  ½ x (1 + h)
#
# ½ (1 + h) stands in for Φ(x).  Three functions are one inside the other; take their slopes from
# the outside to the inside:
#
#     dy/dh at a fixed x:    ½ x
#     dh/du:                 1 - h²
#     du/dx:                 c (1 + 3 · 0.044715 x²)
#
# The product rule again: first x moves and the gate holds still, then the gate moves.
#
#     dy/dx  =  ½ (1 + h)  +  ½ x (1 - h²) c (1 + 3 · 0.044715 x²)
#
# The two forms differ by 4.7324e-4 at most, at |x| = 2.699, and their slopes by 8.7e-4.  Both are
# in use, and a model's configuration says which one it was trained with: `gelu` is exact, and
# `gelu_new` is the tanh form.  **A backward belongs to its own forward.**  One form's slope under
# the other is wrong in the third digit, and a test that allows 0.001 does not see it.
#
# ## Third blank


# %%
def gelu_tanh_backward(dy, x):  # any shape, both the same
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dx


# %%
gelu_tanh_backward = check(gelu_tanh_backward)

# %% [markdown]
# <details><summary>It is right near 0, and wrong for large x</summary>
# Look at du/dx.  The derivative of x³ is 3 x².
# </details>
#
# <details><summary>It is wrong everywhere but at 0</summary>
# The second term has an x in front, so it is 0 there.  Has it all its factors: ½, x, 1 - h², c?
# </details>
#
# ## Three shapes, and a small gap

# %%
x = np.linspace(-4, 4, 801)
ones = np.ones_like(x)
gap = gelu_tanh_forward(x) - gelu_forward(x)
widest = int(np.abs(gap).argmax())

with picture("04_gelu.png", 10, 3.4) as figure:
    value, slope, small = figure.subplots(1, 3)
    value.plot(x, np.maximum(x, 0), "--", color="#333333", linewidth=1.5)
    value.plot(x, gelu_forward(x), color="#0072B2", linewidth=2.5)
    value.annotate("ReLU", (1.1, 1.2), ha="right")
    value.annotate("GELU", (1.6, 1.15))
    value.set(title="the functions", xlim=(-3, 3), ylim=(-0.5, 3))

    for part in (x < 0, x > 0):  # two pieces: there is nothing at 0
        slope.plot(x[part], relu_backward(ones, x)[part], "--", color="#333333", linewidth=1.5)
    slope.plot(x, gelu_backward(ones, x), color="#0072B2", linewidth=2.5)
    slope.annotate("ReLU jumps\nfrom 0 to 1", (-0.15, 0.8), ha="right")
    slope.annotate("GELU glides,\nbelow 0 and\nabove 1", (0.55, 0.3))
    slope.set(title="their slopes", xlim=(-3, 3))

    small.plot(x, 1e4 * gap, color="#0072B2", linewidth=2)
    small.plot(x[widest], 1e4 * gap[widest], "o", color="#0072B2")
    small.annotate(
        f"{abs(gap[widest]):.5f}\nat |x| = {abs(x[widest]):.1f}", (0, 1e4 * abs(gap[widest])),
        ha="center", va="top",
    )  # fmt: skip
    small.set(title="tanh form minus exact GELU", ylabel="in units of 0.0001", ylim=(-3, 5.5))
    for axes in (value, slope, small):
        axes.set_xlabel("x")

# %% [markdown]
# ## The feed-forward
#
# The second half of every BERT layer widens each token, bends it, and narrows it again:
#
# | step | | shape |
# |---|---|---|
# | input | x | (B, T, C) |
# | widen | wide = x W₁ᵀ + b₁ | (B, T, F), F = 4 C |
# | bend | bent = GELU(wide) | (B, T, F) |
# | narrow | y = bent W₂ᵀ + b₂ | (B, T, C) |
#
# Each token is treated by itself, with the same weights.  Articles about BERT often print
# max(0, x W₁ + b₁) W₂ + b₂ here.  That is the original Transformer's, with ReLU.  **BERT's
# feed-forward uses GELU.**
#
# The backward is three functions that you have written, in the reverse order.  Mind what each is
# given: `narrow` had `bent` as its input, and GELU had `wide`.

# %%
generator = np.random.default_rng(0)
B, T, C, F = 2, 3, 4, 16
x, dy = generator.normal(size=(B, T, C)), generator.normal(size=(B, T, C))
w1, b1 = generator.normal(size=(F, C)), generator.normal(size=F)
w2, b2 = generator.normal(size=(C, F)), generator.normal(size=C)

wide = linear_forward(x, w1, b1)
bent = gelu_forward(wide)
y = linear_forward(bent, w2, b2)

dbent, dw2, db2 = linear_backward(dy, bent, w2)
dwide = gelu_backward(dbent, wide)
dx, dw1, db1 = linear_backward(dwide, x, w1)


def loss(b1):
    return (dy * linear_forward(gelu_forward(linear_forward(x, w1, b1)), w2, b2)).sum()


h = 1e-5 * np.eye(F)[0]
print(f"b1[0] by finite differences: {(loss(b1 + h) - loss(b1 - h)) / 2e-5:.6f}")
print(f"b1[0] by the backward:       {db1[0]:.6f}")

# %% [markdown]
# ## A question to end with
#
# A unit of the feed-forward has come to be below 0 for every token of the data.  Which gradients
# do its weights in W₁ get with ReLU?  And with GELU, if it is at about -2?
#
# <details><summary>Answer</summary>
# With ReLU none: the slope is 0 for every token, so the unit stays as it is for ever.  With GELU
# the slope at -2 is -0.085.  That is small, but not 0, so it can come back.  (At -6 the slope is
# -0.00000004, and GELU's unit is as good as dead as well.)
# </details>
#
# minibert's own: `minibert lesson show 04`, or the files `minibert/layers/activations.py` and
# `minibert/layers/feedforward.py`.
