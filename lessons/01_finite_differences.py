# %% [markdown]
# # Lesson 1: finite differences and when they lie
#
# *35 minutes.  Before it: nothing.*
#
# From the next lesson on you will write derivatives by hand, and some will be wrong at first;
# everybody's are.  A wrong gradient seldom crashes.  The network still learns, only worse, and
# you look for the reason in the data.  So this course checks each gradient by a method that knows
# no formula at all: **move one number a little, and look how the loss moves.**
#
# In this lesson you build that method, and meet five cases in which it lies.  To check what you
# wrote, in a terminal:
#
#     minibert lesson check 01
#
# or run the cells below one after the other.

# %%
import math

import numpy as np

from minibert.course import check, picture
from minibert.gradcheck import GradCheckError, check_pair
from minibert.keys import Key
from minibert.layers.dropout import dropout_forward
from minibert.layers.softmax import softmax_backward, softmax_forward

# %% [markdown]
# ## From two points to four
#
# Let f(t) be the loss when one number has been moved by t.  Wanted is the slope at t = 0, called
# f′.  Write f as a Taylor series, all derivatives taken at 0:
#
#     f(h)   =  f(0) + h f′ + h² f″/2 + h³ f‴/6 + h⁴ f⁗/24 + h⁵ f⁽⁵⁾/120 + …
#     f(-h)  =  f(0) - h f′ + h² f″/2 - h³ f‴/6 + h⁴ f⁗/24 - h⁵ f⁽⁵⁾/120 + …
#
# In the difference all even powers cancel.  Divided by 2h:
#
#     D(h)   =  (f(h) - f(-h)) / 2h    =  f′ +   h² f‴/6 +    h⁴ f⁽⁵⁾/120 + …
#     D(2h)  =  (f(2h) - f(-2h)) / 4h  =  f′ + 4 h² f‴/6 + 16 h⁴ f⁽⁵⁾/120 + …
#
# Each has an error with h² in it, but D(2h) has four times as much.  So 4 D(h) - D(2h) has none;
# it has 3 f′:
#
#     (4 D(h) - D(2h)) / 3  =  f′ - 4 h⁴ f⁽⁵⁾/120  =  f′ - h⁴ f⁽⁵⁾/30
#
# Now put the two D in, and bring all to the denominator 12h: four values of f, two weights.
#
# By pencil, with f(t) = (2 + t)³ and h = 1: the values at -2, -1, 1, 2 are 0, 1, 27, 64.  Two
# points give D(1) = 13.  Four give 12, which is exact: 3 · 2².
#
# ## First blank: the slope from four points


# %%
def four_point(f, h):  # f: number → number; h: a number
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return slope


# %%
four_point = check(four_point)

# %% [markdown]
# <details><summary>I get 13 where 12 is right</summary>
# That is what two points give.  Is one pair taken at 2h: f(2 * h), and not 2 * f(h)?
# </details>
#
# <details><summary>It is right for h = 1 only</summary>
# a / 12 * h is (a / 12) · h.  Write a / (12 * h).
# </details>
#
# ## First lie: the wrong step
#
# The series says: the smaller h, the better.  But a float64 has 16 digits, a float32 seven.  f(h)
# is rounded by about ε |f|, where ε = 1e-16 or 6e-8, and this is divided by h.  So there are two
# errors, and h pulls them in opposite directions:
#
#     two points:    h² f‴/6      +  ε |f| / h
#     four points:   h⁴ f⁽⁵⁾/30   +  ε |f| / h
#
# Here they are for the slope of e^x at 0.7, where all derivatives are e^0.7.


# %%
def error(h, dtype, points):  # relative to the true slope
    x, h = dtype(0.7), dtype(h)

    def f(t):
        return np.exp(x + dtype(t))

    slope = (f(h) - f(-h)) / (2 * h) if points == 2 else four_point(f, h)
    return abs(float(slope) / math.exp(float(x)) - 1)


for dtype, h in ((np.float64, 1e-2), (np.float64, 1e-5), (np.float64, 1e-8), (np.float32, 1e-6)):
    print(f"two points, {dtype.__name__}, h = {h:.0e}: error {error(h, dtype, 2):.1e}")

# %%
steps = np.logspace(-9, -0.5, 120)
LINES = (
    (np.float32, 2, "two points, float32", "#5F5F5F", ":", (2e-6, 2e-1)),
    (np.float64, 2, "two points: h²", "#D55E00", "--", (1.4e-4, 2.5e-10)),
    (np.float64, 4, "four points: h⁴", "#0072B2", "-", (1.2e-2, 3e-12)),
)
with picture("01_finite_differences.png", 7, 4) as figure:
    axes = figure.subplots()
    for dtype, points, name, color, style, (x, y) in LINES:
        errors = [max(error(h, dtype, points), 1e-16) for h in steps]
        axes.loglog(steps, errors, style, color=color, linewidth=1.5)
        axes.text(x, y, name, color=color, weight="bold")
    axes.text(1.5e-9, 3e-6, "rounding: 1/h")
    axes.set_xlabel("step h")
    axes.set_ylabel("error of the slope, relative")
    axes.set_title("Too long a step cuts the curve, too short a step is rounding")
    axes.set_ylim(1e-15, 10)

# %% [markdown]
# Going left, all lines climb as 1/h: rounding.  Going right, they climb as h² or h⁴: the curve.
# The best that two points reach is about 1e-11, four points 1e-13.  In float32 the best is about
# 1e-5, and at h = 1e-6, a step that many tutorials use, a *right* gradient looks 7 % wrong.
#
# **So check in float64, with four points**, and train in float32 afterwards.
#
# ## Everything ends in one number
#
# A layer has many inputs and many outputs.  For x (R, C) and y (R, C) there would be (R C)² slopes.
# But training needs only those of one number, the loss L, and a slope for each input fills an
# array of the shape of x.  So a backward takes dy, the loss's gradient at y, and returns dx:
#
# | name | shape | what |
# |---|---|---|
# | x | (R, C), any shape | the input |
# | f(x) | one number | the loss |
# | dx | that of x | dx[i, j] = slope of the loss when x[i, j] alone moves |
#
# To test a layer by itself we invent a loss: draw dy at random, and let **f(x) = Σ dy · y**.  Its
# gradient at y is dy, as wanted.
#
# ## Second blank: a slope for each element
#
# `np.ndindex(x.shape)` yields every index, (0, 0), (0, 1), …  For each of them: keep the number;
# make a function of t that puts number + t into its place and returns f(x); take its slope with
# `four_point`; put the number back.
#
# Two things go wrong here.  The caller's x must come out unchanged, so begin with a copy.  And
# put the *kept* number back: adding h and subtracting h again does not return to the same bits.
#
# By pencil: f(x) = x₀ x₁² at x = [3, 2].  dx = [x₁², 2 x₀ x₁] = [4, 12].


# %%
def numeric_gradient(f, x, h):  # f: array → number; x (...); h: a number
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dx


# %%
numeric_gradient = check(numeric_gradient)

# %% [markdown]
# <details><summary>dx has dtype float64, expected float32</summary>
# np.zeros(x.shape) is float64.  np.zeros_like(x) takes the dtype of x as well.
# </details>
#
# <details><summary>x was changed in place</summary>
# x = x.copy() in the first line: then all moving happens on your own array.
# </details>
#
# <details><summary>All elements of dx are nearly the same</summary>
# f(x + t) moves every element.  Only x[index] may move.
# </details>
#
# ## Second lie: an upstream gradient of all ones
#
# The loss y.sum() is the same as dy = 1 everywhere, and many tests use it.  Softmax turns a row
# into shares that add up to 1 (lesson 3).  Look at the gradient of their sum, and at what a
# backward would have to return to pass this test.

# %%
generator = np.random.default_rng(0)
x = generator.normal(size=(2, 3))
dy = generator.normal(size=(2, 3))
print("dy all ones:\n", numeric_gradient(lambda x: softmax_forward(x).sum(), x, 1e-3).round(9))
print("dy random:\n", numeric_gradient(lambda x: (dy * softmax_forward(x)).sum(), x, 1e-3))
print("by hand:\n", softmax_backward(dy, softmax_forward(x)))

# %% [markdown]
# The sum is always 1, so its gradient is 0, and `return 0 * dy` passes.  **dy is drawn at
# random**, and so is everything else that has a special value before training.
#
# ## Third lie: a kink
#
# ReLU(t) = max(t, 0) has the slope 0 on the left of 0, and 1 on the right.  At t = 0.001 its slope
# is 1; but a step of 0.01 reaches across the kink, and every central difference is a mixture of
# both slopes.  The gradient is right, and the check fails.
#
# A kink can be told from a mistake.  Compare the slopes of both sides, each over one step:
#
#     right  =  (f(h) - f(0)) / h            left  =  (f(0) - f(-h)) / h
#     jump   =  right - left
#
# For a smooth f the series gives jump = h f″ + …: half the step, half the jump.  At a kink the
# jump **stays**.
#
# By pencil: f(t) = t² - 3 |t| and h = 1: f(1) = f(-1) = -2, so right is -2, left is 2, and the
# jump is -4: that is -6 from the kink, and h f″ = 2 from the square.
#
# ## Third blank: the jump


# %%
def slope_jump(f, h):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return jump


# %%
slope_jump = check(slope_jump)

# %%
print("step    jump of sin at 1   jump of ReLU at 0")
for h in (0.1, 0.05, 0.025):
    smooth = slope_jump(lambda t: math.sin(1 + t), h)
    kink = slope_jump(lambda t: max(t, 0.0), h)
    print(f"{h:5.3f} {smooth:18.4f} {kink:19.4f}")

# %% [markdown]
# <details><summary>My jump is half as large, or twice</summary>
# Both slopes run over one step: divide by h, not by 2h.
# </details>
#
# <details><summary>My jump has the other sign</summary>
# Right minus left; and the slope on the left begins at -h: (f(0) - f(-h)) / h.
# </details>
#
# ## Fourth lie: the loss is another one each time
#
# Dropout sets random elements to 0.  If it draws anew at every call, f(h) and f(-h) are two
# different functions, and their difference is divided by a small h.

# %%
ones, keys = np.ones((2, 3)), iter(range(10**6))
anew = numeric_gradient(lambda x: dropout_forward(x, 0.5, Key(next(keys)).seed).sum(), ones, 1e-3)
same = numeric_gradient(lambda x: dropout_forward(x, 0.5, Key(7).seed).sum(), ones, 1e-3)
print("drawn anew:\n", anew.round(1), "\nthe same mask each time:\n", same.round(6))

# %% [markdown]
# The loss has to be the same number for the same values, to the last bit.  In minibert a random
# number is a function of a key, so the same key gives the same mask.
#
# ## All of it in one call
#
# `check_pair` does what you have done: float64, random dy, a step fitted to each tensor, kinks and
# random losses told from mistakes.  Here it is with a backward of softmax that lacks a term.

# %%
try:
    check_pair(softmax_forward, lambda dy, x: dy * softmax_forward(x), {"x": x})
except GradCheckError as problem:
    print(problem)

# %% [markdown]
# ## A question to end with
#
# The fifth lie is not in the differences but in how they are compared.  A loss that is a mean over
# a million numbers has gradients of about 1e-6.  A test says: `abs(backward - numeric) < 1e-5`.
# Which backwards pass it?  What would you compare instead?
#
# <details><summary>Answer</summary>
# Nearly all: twice the right value, the sign turned, and all zeros.  An error has to be relative.
# But relative to each single element would be wrong as well: an element whose true gradient is 0
# has only rounding, and rounding is never right.  minibert divides the largest difference by the
# **largest gradient of the tensor**, and asks for 1e-9 in a layer, 1e-8 in a whole model.
# </details>
#
# minibert's own: `minibert lesson show 01`, or the file `minibert/gradcheck/differences.py`.
