# %% [markdown]
# # Lesson 14: AdamW, warm-up, clipping, accumulation
#
# *35 minutes.  Before it: lesson 2.*
#
# You have the gradient.  What is done with it takes four lines of a training loop, and there is a
# well-known mistake for each.  No check of gradients can see them, since every gradient is right.
#
#     weights ← what each token and pair counts for          first blank
#     for each micro-batch: forward, backward                gradients add up
#     scale   ← min(1, limit / norm of the gradient)         second blank
#     lr      ← peak · warm-up factor
#     AdamW(lr, scale)                                       third blank
#
# To check what you wrote, in a terminal:
#
#     minibert lesson check 14
#
# or run the cells below one after the other.

# %%
import numpy as np

from minibert.course import check, picture
from minibert.training.schedule import warmup_linear

# %% [markdown]
# ## Accumulation: one batch in several parts
#
# A batch that does not fit into memory is cut into *micro-batches*.  Each runs forward and
# backward, and the gradients **add up**; then there is one update.  It should be the same update
# as with the whole batch.
#
# The loss is a mean over the masked tokens.  Suppose that one micro-batch has a single masked
# token, with the loss 4, and the other has three, with the losses 1, 1, 1:
#
#     mean of all four tokens      (4 + 1 + 1 + 1) / 4   =  1.75      right
#     mean of the two means        (4 + 1) / 2           =  2.5       wrong
#
# In the second line the lonely token counts three times as much as each of the others.  Rows of
# text differ in length, so this happens in every step.  The remedy: **sum** inside the
# micro-batches, and divide by the number of *all*.  So before the first forward, count.  Every
# token's loss is then multiplied by
#
#     masked  =  masked_weight / (number of masked tokens in all micro-batches)
#
# and every pair's (is B next?) by the same with pairs.  `masked_weight` and `next_weight`, mostly
# 1, say how much each of the two games counts for.  A label of -100 (`IGNORED`) is no label: it
# has no loss, and is not counted.
#
# Given are `batches`, a list, each with `masked_labels` and `next_labels` (arrays of whole numbers,
# of any length), and `config`, with `masked_weight` and `next_weight`.
#
# ## First blank: what one counts for


# %%
def loss_weights(batches, config):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return masked, pairs


# %%
loss_weights = check(loss_weights)

# %% [markdown]
# <details><summary>float division by zero</summary>
# A step without any pair (a model that trains without this game) has no loss either: divide by
# max(number, 1).
# </details>
#
# <details><summary>masked is right and pairs is too large</summary>
# Does your test leave out label 0?  0 is a class: is next.
# </details>
#
# ## Clipping: not too far at once
#
# Now and then a batch has a gradient ten times as long as usual.  One such step can undo hours.  So
# the gradient's length is limited, in BERT to 1.0.  All gradients together are **one** long arrow:
#
#     norm   =  √ Σ g²        over all elements of all parameters
#     scale  =  min(1, limit / norm)
#
# and every gradient is multiplied by the same scale, which keeps the arrow's direction.  To clip
# each parameter, or each micro-batch, by itself would turn the arrow.  So this comes once, after
# accumulation.  By pencil: the norm of [3, -4] is 5, and with the limit 1 the scale is 0.2.
#
# ## Second blank: the length


# %%
def global_norm(grad):  # grad (n,): all gradients of the model in one row
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return norm


# %%
global_norm = check(global_norm)

# %% [markdown]
# ## AdamW
#
# Plain descent, θ ← θ - lr · g, has one rate for all weights; but the gradients of embeddings of
# rare words are a thousand times smaller than others.  Adam divides each weight's gradient by its
# own usual size.  For every weight it keeps two running means (*moments*):
#
#     g  =  grad · scale
#     m  ←  β₁ m + (1 - β₁) g           mean of the gradients,   β₁ = 0.9
#     v  ←  β₂ v + (1 - β₂) g²          mean of their squares,   β₂ = 0.999
#
# m / √v has no unit: a gradient that is always the same makes a step of lr, be it 1000 or 0.001.
#
# **Correction.**  m and v begin at 0.  With a gradient that is always g, after t steps
#
#     m  =  (1 - β₁ᵗ) g        v  =  (1 - β₂ᵗ) g²
#
# (for t = 1 that is the lines above; for t + 1, β₁ (1 - β₁ᵗ) + 1 - β₁ = 1 - β₁ᵗ⁺¹.)  So both
# are too small, by known factors c₁ = 1 - β₁ᵗ and c₂ = 1 - β₂ᵗ.  Divide by them:
#
#     step  =  (m / c₁) / (√(v / c₂) + ε)
#
# The first step by pencil, any g > 0: m = 0.1 g and c₁ = 0.1;  v = 0.001 g² and c₂ = 0.001.  The
# step is g / √g² = **1**.  BERT's own optimizer, BERTAdam, **leaves the correction out**: 0.1 g /
# √(0.001 g²) = **3.1623**.  And it gets worse before it gets better: m fills up in ten steps, v
# needs a thousand.  Step 12 is 6.57 times too long.
#
# **Decay.**  Each step also shrinks weights a little, towards 0.  The old way adds decay · θ to the
# gradient (*L2*).  In Adam this runs through m and is divided by √v: weights with large gradients
# hardly shrink.  AdamW's W is that the decay is *decoupled*: it joins the step after the division.
#
#     θ  ←  θ - lr · (step + decay · θ)
#
# Only the first `decayed` elements decay.  The others are biases and LayerNorm's γ and β: γ has
# its rest at 1, and to pull it to 0 makes no sense.
#
# The arrays `value` (that is θ), `grad`, `moment1` (m) and `moment2` (v) have the shape (n,).  Your
# function returns nothing: it changes value, moment1 and moment2 **in place**.  `x *= a`, `x -= a`
# and `x[:] = a` do; `x = x - a` makes a new array, which the caller never sees.  Leave grad as it
# is.
#
# By pencil, a first step with lr = 0.1 and decay = 0.5, the first element decays:
#
#     value [1 1]   grad · scale [2 -8]   step [1 -1]   + decay [1.5 -1]   value [0.85 1.1]
#
# ## Third blank: the update


# %%
def adamw(
    value,
    grad,
    moment1,
    moment2,
    *,
    lr,
    beta1,
    beta2,
    eps,
    decay,
    decayed,
    correction1,  # c₁
    correction2,  # c₂
    grad_scale,
):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<


# %%
adamw = check(adamw)

# %% [markdown]
# <details><summary>value, moment1 and moment2 are all wrong</summary>
# Did you write x = …?  Or is something wrong with g, which all three use: its scale, or the decay
# in it?
# </details>
#
# <details><summary>The moments are right, value is not</summary>
# In this order: correction, root, + ε, division, + decay for the first few, times lr.
# </details>
#
# ## Warm-up: why BERT got away with it
#
# The rate rises in a straight line to its peak, then falls in a straight line to 0:
#
#     step            0       5,000     10,000     505,000     1,000,000
#     rate            0        5e-5       1e-4        5e-5             0
#
# These are BERT's numbers for **pretraining**: a peak of **1e-4**, after 10,000 of 1,000,000 steps.
# Many articles give 2e-5 to 5e-5 as "BERT's learning rate".  Those are for *fine-tuning*, where a
# trained model should change little; who pretrains with them waits a long time.
#
# Early on v is a mean of a few gradients only, a poor measure of their usual size.  Small steps are
# wise then.  And with warm-up, the steps of BERTAdam that are 6 times too long are 6 times almost
# nothing:

# %%
steps = np.unique(np.geomspace(1, 1_000_000, 120).astype(int))


def step_length(t, corrected):
    """The step at time t, with rate 1 and a gradient that was 1 from the start."""
    value, grad = np.zeros(1), np.ones(1)
    moment1, moment2 = np.array([1 - 0.9 ** (t - 1)]), np.array([1 - 0.999 ** (t - 1)])
    adamw(
        value, grad, moment1, moment2,
        lr=1.0, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.0, decayed=0, grad_scale=1.0,
        correction1=1 - 0.9**t if corrected else 1.0,
        correction2=1 - 0.999**t if corrected else 1.0,
    )  # fmt: skip
    return abs(value[0])


warm = np.array([warmup_linear(t / 1_000_001, 0.01) for t in steps])
adam = np.array([step_length(int(t), True) for t in steps])
bert = np.array([step_length(int(t), False) for t in steps])

with picture("14_adamw.png", 7.5, 3.8) as figure:
    axes = figure.subplots()
    for length, style in ((adam, "-"), (bert, "--")):
        axes.loglog(steps, length, style, color="#5F5F5F")
        axes.loglog(steps[:-1], (length * warm)[:-1], style, color="#0072B2", linewidth=2)
    axes.text(1.1, 0.5, "AdamW", color="#5F5F5F")
    axes.text(25, 8, "uncorrected (BERTAdam)", color="#5F5F5F")
    axes.text(40, 8e-4, "AdamW with warm-up", color="#0072B2")
    axes.text(1.1, 1.5e-2, "uncorrected\nwith warm-up", color="#0072B2")
    axes.set_ylim(5e-5, 30)
    axes.set_xlabel("step")
    axes.set_ylabel("length, in peak rates")
    axes.set_title("a step's length, for a gradient that stays the same")

print(f"first step: {adam[0]:.4f} corrected, {bert[0]:.4f} not; longest: {bert.max():.2f}")

# %% [markdown]
# Without correction (dashed) the first 3,000 steps or so are too long.  But with warm-up the rate
# is still small then, and none of them gets longer than 1.  BERTAdam *without* warm-up has the
# worst of both.
#
# ## A question to end with
#
# A gradient ten times as long as usual comes once.  Adam divides by √v anyway.  Is clipping of any
# use then?
#
# <details><summary>Answer</summary>
# Yes.  v takes in only a thousandth of g², which is 0.001 · 100 = 0.1 of its usual size, while m
# takes in a tenth of g, as much as its whole usual size or more: the step nearly doubles at least,
# and m keeps it long for ten steps more.  Had *all* gradients always been ten times as long,
# clipping them would change next to nothing: Adam does not care about a constant factor.
# </details>
#
# minibert's own: `minibert lesson show 14`, or the files `minibert/ops/update.py` and
# `minibert/training/loop.py`.
