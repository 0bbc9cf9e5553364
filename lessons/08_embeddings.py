# %% [markdown]
# # Lesson 8: embeddings and the four position schemes
#
# *35 minutes.  Before it: lesson 2.*
#
# The first thing that BERT does with its ids is to look up three rows for each token: one for the
# token, one for its place in the sequence, one for its segment (first or second text).  It adds
# the three.  The forward is one line.  The backward has one trap, into which nearly everyone falls
# once.  And the places can be written as numbers in four ways, of which two do not work.
#
# You will write two backwards, and the sinusoids.  To check:
#
#     minibert lesson check 08
#
# or run the cells below one after the other.

# %%
import numpy as np

from minibert.course import check, picture
from minibert.layers.softmax import softmax_forward

# %% [markdown]
# ## A look-up is an index
#
# The table E has the shape (V, C): one row of C numbers for each of the V pieces.  With `ids` of
# any shape:
#
#     y = E[ids]        (...) → (..., C)
#
# Many articles call this a matrix product with one-hot rows, y = O E, where O_ni is 1 if id_n = i
# and 0 elsewhere.  The two are **equal**, but nobody computes it so.  For 32 × 128 tokens,
# V = 30,522 and C = 768, the product would multiply 96 billion times, all but 3 million times by
# zero.  The index copies the 3 million numbers.
#
# The product is good for one thing: it shows the backward.  It is a linear layer, and of lesson 2
# we know that the gradient of its weights is the input, transposed, times dy:
#
#     dE = Oᵀ dy        (V, N) @ (N, C) → (V, C)
#
# Row i of it picks those n with O_ni = 1:
#
#     dE_i = Σ_{n: id_n = i} dy_n
#
# **Row i of the table gets the sum of all gradients of the places where it was read.**  Rows that
# were not read get 0.  By pencil, with ids = [1, 0, 1]:
#
#     dy  =  [1, 2]          dE  =  [3, 4]         row 0 was read once
#            [3, 4]                 [6, 8]         row 1 was read twice: [1, 2] + [5, 6]
#            [5, 6]                 [0, 0]         row 2 was not read
#
# ## The trap
#
# It looks as if `dE[ids] += dy` did just this.  Try it:

# %%
ids = np.array([1, 0, 1])
dy = np.array([[1.0, 2], [3, 4], [5, 6]])
dtable = np.zeros((3, 2))
dtable[ids] += dy
print(dtable)

# %% [markdown]
# Row 1 has [5, 6]: the first of its gradients is lost.  NumPy reads all rows, adds, and then writes
# all rows; what is written last to row 1 stays.  There is no error and no warning.  In a real
# batch *the* comes a hundred times, and 99 of its gradients would vanish.  Padding and the two
# segments are worse.
#
# `np.add.at(dtable, ids, dy)` reads, adds and writes for each id in turn, and loses none.
#
# ## First blank: the backward of one look-up
#
# | name | shape |
# |---|---|
# | dy | (..., C) |
# | ids | (...) |
# | rows | a number: how many rows the table has |
# | dtable | (rows, C), of dy's dtype |


# %%
def lookup_backward(dy, ids, rows):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dtable


# %%
lookup_backward = check(lookup_backward)

# %% [markdown]
# <details><summary>dtable has dtype float64, expected float32</summary>
# np.zeros makes float64 if not told otherwise.  Use dtype=dy.dtype.
# </details>
#
# <details><summary>dtable is too small in a few rows</summary>
# Are they the rows whose id comes more than once?
# </details>
#
# ## Three tables
#
#     y = word[input_ids] + position[0 … T-1] + token_type[token_type_ids]
#
# | name | shape | rows in BERT |
# |---|---|---|
# | input_ids, token_type_ids | (B, T) | |
# | dy, y | (B, T, C) | |
# | word | (V, C) | 30,522 |
# | position | (longest, C) | 512 |
# | token_type | (2, C) | 2 |
#
# A sum hands its gradient to every term, whole.  So each of the three tables receives all of dy,
# and two of the backwards are your function.
#
# The positions need no ids.  Place t is row t, in **each** of the B sequences; so row t gets
#
#     dposition_t = Σ_b dy_bt
#
# a sum over the batch, not a mean.  Rows from T on were not read, and stay 0.
#
# Also the padding gets what its places send back.  Usually that is 0, since nobody looks at them,
# but it is not for the table to decide.
#
# ## Second blank: the backward of the sum
#
# `rows` holds three numbers here: the rows of the three tables, in the order above.


# %%
def embedding_backward(dy, input_ids, token_type_ids, rows):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dword, dposition, dtoken_type


# %%
embedding_backward = check(embedding_backward)

# %% [markdown]
# <details><summary>dposition has shape (4, 5), expected (7, 5)</summary>
# The table is longer than the sequences.  Make zeros of the table's shape, and fill the first T.
# </details>
#
# <details><summary>dposition is too small</summary>
# All B sequences read the same row, so their gradients add up: dy.sum(axis=0).
# </details>
#
# ## Four ways to say where
#
# Attention alone does not see order: exchange two tokens, and it gives the same, exchanged.  So the
# place has to be in the vectors.  For place t out of T:
#
# | scheme | what is added | what is wrong with it |
# |---|---|---|
# | 0 to 1 | t / (T - 1) | the step to the next token depends on the sequence's length |
# | 1 to n | t + 1 | place 500 drowns the token; a line has no middle, see below |
# | sinusoidal | C waves, from fast to slow | nothing is learned: it is as good as it is |
# | learned | row t of a table | places beyond the longest sequence in training know nothing |
#
# The waves are those of the first Transformer (2017).  Columns come in pairs.  Pair i has sine
# and cosine of one angle, and each pair turns slower than the one before:
#
#     column 2i:        sin(t / 10000^(2i / C))
#     column 2i + 1:    cos(t / 10000^(2i / C))
#
# With C = 4 there are two pairs.  The first turns by 1 for each place; the second by
# 1 / 10000^(2/4) = 1/100.  By pencil, the first three places:
#
#     t = 0:   sin 0, cos 0, sin 0,    cos 0      =   0,     1,      0,     1
#     t = 1:   sin 1, cos 1, sin 0.01, cos 0.01   =   0.84,  0.54,   0.01,  1.00
#     t = 2:   sin 2, cos 2, sin 0.02, cos 0.02   =   0.91, -0.42,   0.02,  1.00
#
# It is like the hands of a clock: the fast one tells neighbours apart, the slow one tells where in
# the day you are.  And "k places on" is the same turn wherever you start, so one matrix can do it.
# That is what a single row of numbers 1, 2, 3 … cannot offer.
#
# ## Third blank: the sinusoids
#
# `width` is C, and even.


# %%
def sinusoids(rows, width):  # rows: how many places
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return table  # (rows, width)


# %%
sinusoids = check(sinusoids)

# %% [markdown]
# <details><summary>The first two columns are right, and no other</summary>
# Is it 2i in the exponent, with i the pair's number?  np.arange(0, width, 2) is 2i already.
# </details>
#
# <details><summary>I have all numbers, in the wrong columns</summary>
# Sine and cosine alternate.  table[:, 0::2] are the even columns, table[:, 1::2] the odd ones.
# </details>
#
# ## A task for the four: look at the token before you
#
# The smallest attention there is: token i looks at token j with the score s_ij = p_i M p_jᵀ, where
# p are the positions and M is learned.  Softmax makes shares of each row.  The task: everyone
# shall look at the token right before.  Training has sequences of 4 to 24 tokens; then comes one
# of 40.  The two schemes with a single number get a 1 beside it: p_t = [1, value].

# %%
LONGEST, TRAINED, C = 40, 24, 32


def positions(scheme, T, learned):
    t = np.arange(T)
    if scheme == "0 to 1":
        return np.stack([np.ones(T), t / (T - 1)], axis=1)
    if scheme == "1 to n":
        return np.stack([np.ones(T), t + 1.0], axis=1)
    return sinusoids(T, C) if scheme == "sinusoidal" else learned[:T]


def train(scheme):
    generator = np.random.default_rng(0)
    learned = 0.5 * generator.normal(size=(LONGEST, C))
    M = np.zeros((positions(scheme, 2, learned).shape[1],) * 2)
    moments = [(np.zeros_like(each), np.zeros_like(each)) for each in (M, learned)]
    for step in range(1, 301):
        T = int(generator.integers(4, TRAINED + 1))
        p = positions(scheme, T, learned)
        dscores = softmax_forward(p @ M @ p.T) / T
        dscores[np.arange(T), np.maximum(np.arange(T) - 1, 0)] -= 1 / T  # softmax, cross-entropy
        dlearned = np.zeros_like(learned)
        if scheme == "learned":
            dlearned[:T] = dscores @ p @ M.T + dscores.T @ p @ M
        gradients = (p.T @ dscores @ p, dlearned)
        for value, gradient, (mean, square) in zip((M, learned), gradients, moments, strict=True):
            mean += 0.1 * (gradient - mean)  # the optimizer is Adam
            square += 0.01 * (gradient**2 - square)
            mean_now, square_now = mean / (1 - 0.9**step), square / (1 - 0.99**step)
            value -= 0.1 * mean_now / (np.sqrt(square_now) + 1e-9)
    p = positions(scheme, LONGEST, learned)
    return softmax_forward(p @ M @ p.T)


with picture("08_embeddings.png", 8, 2.9) as figure:
    panels = figure.subplots(1, 4, sharey=True)
    right = np.maximum(np.arange(LONGEST) - 1, 0)
    for axes, scheme in zip(panels, ("0 to 1", "1 to n", "sinusoidal", "learned"), strict=True):
        shares = train(scheme)
        hits = shares.argmax(axis=1) == right
        inside, beyond = hits[:TRAINED].sum(), hits[TRAINED:].sum()
        print(f"{scheme:>10}: {inside:2d} of 24 right, {beyond:2d} of the 16 beyond")
        axes.imshow(shares, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
        axes.plot([-0.5, 23.5, 23.5], [23.5, 23.5, -0.5], color="#D55E00", linewidth=1.2)
        axes.set_title(scheme)
        axes.set_xlabel(f"{inside} of 24 right,\n{beyond} of 16 beyond")
        axes.set_xticks([0, 23, 39])
        axes.set_yticks([0, 23, 39])
        axes.grid(False)
    panels[0].set_ylabel("token that looks")

# %% [markdown]
# Each row of a panel is a token, and black is where it looks; the line marks the lengths seen in
# training.  The two single numbers fail everywhere: along a row the score is a straight line in
# the value of p_j, and a straight line is highest at one of its ends, never in the middle.  (A
# deeper network could bend the line.  It would have to learn that first.)  The waves and the table
# both learn it.  Beyond the line the waves mostly know what to do, and the table's rows are still
# the random numbers they began with.
#
# BERT has a **learned** table, and so it ends at 512 tokens.  minibert's is learned too, but starts
# as sinusoids, so that neighbours are alike from the first step.
#
# ## A question to end with
#
# In BERT the three rows are *added*, so the token and its place share the same C columns.  Can the
# model still tell them apart, and why is adding not worse than putting one beside the other?
#
# <details><summary>Answer</summary>
# Take [word, place] side by side, and let a linear layer follow: [A, B] times it is A · word +
# B · place.  That is adding two vectors, each after a look-up in a table of its own.  A learned
# table can hold A · word or B · place at once.  So adding loses nothing in kind, as long as C is
# large enough for both to lie in directions of their own, and it saves columns.
# </details>
#
# minibert's own: `minibert lesson show 08`, or the files `minibert/layers/embedding.py` and
# `minibert/params.py`.
