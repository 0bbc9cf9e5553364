# %% [markdown]
# # Lesson 2: the linear layer and broadcasting
#
# *25 minutes.  Before it: lesson 1.*
#
# Of the 110 million numbers of BERT-base more than three quarters are weights of linear layers.
# One such layer is a single line of code; its backward is three lines.  They bring a rule that
# you will use in every later lesson: **what is broadcast forward is summed backward.**
#
# You will write the forward, then the backward.  To check what you wrote, in a terminal:
#
#     minibert lesson check 02
#
# or run the cells below one after the other.

# %%
import numpy as np

from minibert.course import check, picture

# %% [markdown]
# ## What it does
#
# `x` has the shape `(..., C_in)`: any number of rows, each with C_in numbers.  In BERT a row is
# one token.  Every output is a weighted sum of all inputs of its row, plus a bias of its own:
#
#     y_o  =  Σ_i x_i W_oi  +  b_o
#
# W_oi says how much input i counts in output o.  For all rows and outputs at once:
#
#     y  =  x Wᵀ + b
#
# | name | shape | |
# |---|---|---|
# | x | (..., C_in) | |
# | W (called `weight`) | (C_out, C_in) | one row for each output |
# | b (called `bias`) | (C_out,) | one number for each output |
# | y | (..., C_out) | |
#
# Why is W stored as (out, in), and transposed when it is used?  Because then one row holds all
# that belongs to one output.  PyTorch does it this way, and so do most published BERTs.  The
# first files from BERT's authors hold (in, out).  Look out: where C_in = C_out, as in attention,
# the wrong one of the two fits as well, and no error tells you.
#
# A textbook may write W x + b.  There x is one column.  Here it is a row, or many rows.
#
# ## Broadcasting
#
# x Wᵀ has the shape (B, T, C_out) and b has (C_out,), and yet NumPy adds them.  Its rule:
#
# 1. Write the shapes one above the other, **aligned at the right**.
# 2. An axis that is missing on the left counts as an axis of size 1.
# 3. An axis of size 1 is repeated to the size above it.  Any other difference is an error.
#
#         x Wᵀ     B   T   C_out
#         b        -   -   C_out       →   the same b in all B · T rows
#
# The small case to follow with a pencil has 2 rows, 2 inputs and 3 outputs:
#
#     x = [1 2]     W = [1  1]     b = [0 1 10]
#         [3 0]         [2  0]
#                       [0 -1]
#
#     first row:   1·1 + 2·1 + 0 = 3,   1·2 + 2·0 + 1 = 3,   1·0 - 2·1 + 10 = 8
#     second row:  3, 7, 10
#
# ## First blank: the forward


# %%
def linear_forward(x, weight, bias):  # x (..., C_in), weight (C_out, C_in), bias (C_out,)
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return y


# %%
linear_forward = check(linear_forward)

# %% [markdown]
# <details><summary>matmul: Input operand 1 has a mismatch in its core dimension</summary>
# For a @ b the last axis of a and the last but one of b must have the same length.  x ends with
# C_in, and weight begins with C_out.
# </details>
#
# ## The backward: who reaches whom?
#
# Given is dy, the loss's gradient at y, of y's shape.  Wanted are dx, dW and db.  The axes before
# the last are only a way to arrange rows, so let n count all N rows (N = B · T):
#
#     y_no  =  Σ_i x_ni W_oi  +  b_o
#
# The way to find a gradient is always the same.  Take one number, move it a little, and ask which
# numbers of y move.  Each of them changes the loss, and **the changes add up**.
#
# **One input, x_ni.**  It is in row n only, and there it reaches all C_out outputs, each by W_oi:
#
#     dx_ni  =  Σ_o dy_no W_oi
#
# That is row n of dy times column i of W, a matrix product with W *as it is*:
#
#     dx  =  dy W              (N, C_out) (C_out, C_in)  →  (N, C_in)
#
# **One weight, W_oi.**  It reaches output o only, but in every row, each time by x_ni:
#
#     dW_oi  =  Σ_n dy_no x_ni
#
#     dW  =  dyᵀ x             (C_out, N) (N, C_in)  →  (C_out, C_in)
#
# **One bias, b_o.**  It reaches output o in every row, each time by 1:
#
#     db_o  =  Σ_n dy_no       (N, C_out)  →  (C_out,)
#
# Each sum is over the index that the wanted number does not have.  In the small case, with
# dy = [[1, 0, 2], [0, 1, 0]]:
#
#     dx = [1 -1]     dW = [1 2]     db = [1 1 2]
#          [2  0]          [3 0]
#                          [2 4]
#
# The shapes help: dy, W and x fit together in one way only.  But they prove nothing where
# C_in = C_out.  Then dy Wᵀ and xᵀ dy have the right shapes too, and are wrong.
#
# ## What is broadcast forward is summed backward
#
# db is one case of a general rule.  A number that was repeated k times has k paths to the loss.
# So its gradient is the **sum** of the k gradients that come back, over just those axes that
# were repeated:
#
# | forward | repeated over | backward |
# |---|---|---|
# | bias (C,) onto (B, T, C) | B and T | sum over B and T |
# | positions (T, C) onto (B, T, C) | B | sum over B |
# | a row's mean (..., 1) onto (..., C) | C | sum over C, keeping the axis |
#
# The reverse holds too: what is summed forward is broadcast backward, since each term of a sum
# gets the sum's gradient whole.
#
# It is not the mean.  If the loss is a mean over rows, the 1/N is in dy already, and dividing
# again makes the bias learn N times too slowly.  This mistake gives no error, and the loss still
# goes down.
#
# ## Second blank: the backward


# %%
def linear_backward(dy, x, weight):  # dy (..., C_out), x (..., C_in), weight (C_out, C_in)
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dx, dweight, dbias


# %%
linear_backward = check(linear_backward)

# %% [markdown]
# <details><summary>dweight has shape (2, 5, 4), or x.T does not fit</summary>
# dweight has one matrix for every sequence, and x.T turns *all* axes round, to (C_in, T, B).
# First make one axis of all rows, dy.reshape(-1, dy.shape[-1]), and the same with x; then
# transpose and multiply.
# </details>
#
# <details><summary>dbias has the shape of dy, or one axis too many</summary>
# Sum over *all* axes but the last: over B and over T.
# </details>
#
# <details><summary>My gradients are right with one row, and wrong with two</summary>
# Is there a mean, or an index like dy[0], where a sum belongs?
# </details>
#
# <details><summary>It works for a square weight, and not for others</summary>
# In dx, is it weight or weight.T?  In dweight, does dy stand on the left?
# </details>
#
# ## A sum of slopes
#
# Four rows share one bias.  Each has its own loss, ½ (y - target)², which changes with the bias
# at a slope of its own: dy of that row.  The loss is the sum of the four curves, so its slope is
# the sum of the four slopes.  On the right, only one of the two straight lines touches the curve.

# %%
generator = np.random.default_rng(3)
x, weight, bias = generator.normal(size=(1, 4, 2)), generator.normal(size=(1, 2)), np.zeros(1)
target = x @ weight.T + np.array([[2.1], [-0.8], [1.2], [0.5]])
dy = linear_forward(x, weight, bias) - target
_, _, dbias = linear_backward(dy, x, weight)

move = np.linspace(-1, 1, 61)  # of the bias
each = 0.5 * (dy[0] + move) ** 2  # (4, 61), the loss of each row
total = each.sum(axis=0)
near = np.abs(move) < 0.5  # where to draw the straight lines

with picture("02_linear.png", 9, 3.8) as figure:
    axes = figure.subplot_mosaic([["0", "1", "all"], ["2", "3", "all"]], width_ratios=[1, 1, 2])
    for n in range(4):
        slope = float(dy[0, n, 0])
        axes[str(n)].plot(move, each[n], color="#999999")
        axes[str(n)].plot(move[near], slope**2 / 2 + slope * move[near], color="#0072B2", lw=2.5)
        axes[str(n)].set_title(f"row {n + 1}: slope {slope:.1f}")
        axes[str(n)].set_ylim(-0.4, 5)
    for name in "02":
        axes[name].set_ylabel("loss")
    axes["all"].plot(move, total, color="#999999")
    for slope, name, style, width in (
        (dbias[0], "sum of dy", "-", 2.5),
        (dy.mean(), "mean of dy", "--", 1.5),
    ):
        line = total[30] + slope * move[near]
        axes["all"].plot(move[near], line, style, color="#0072B2", linewidth=width)
        axes["all"].annotate(f"slope {slope:.2f}, the {name}", (-0.52, line[0]), ha="right")
    axes["all"].plot(0, total[30], "o", color="#0072B2")
    axes["all"].set_title("all rows together")
    axes["all"].set(xlim=(-2.1, 1.1), xticks=[-1, -0.5, 0, 0.5, 1])
    for name in ("2", "3", "all"):
        axes[name].set_xlabel("how far the bias is moved")

h = 1e-4
slope = ((0.5 * (dy + h) ** 2).sum() - (0.5 * (dy - h) ** 2).sum()) / (2 * h)
print(f"by finite differences: {slope:.4f}, dbias: {dbias[0]:.4f}")

# %% [markdown]
# ## A question to end with
#
# To every sentence of a batch, x of shape (B, T, C), you add one learned number for each place
# in the sentence: p, of shape (T, 1).  Which shape has dp, and how do you get it from dy?
#
# <details><summary>Answer</summary>
# A gradient has the shape of what it belongs to: (T, 1).  p was repeated over B (a missing axis)
# and over C (an axis of size 1), so dp sums over both: dy.sum(axis=(0, 2))[:, None].
# </details>
#
# minibert's own: `minibert lesson show 02`, or the file `minibert/layers/linear.py`.
