# %% [markdown]
# # Lesson 15: making it fast with numba
#
# *30 minutes.  Before it: lesson 5.*
#
# minibert exists twice: in NumPy, to be read, and in loops that numba compiles, to be fast.  You
# will write two of the loops: LayerNorm for one row, then a sum whose last digits do not depend on
# the number of threads.  Compiled code does without much that Python does for you, so half of this
# lesson is about what to do yourself.
#
# The check calls your loops as plain Python, on small arrays.  In a terminal:
#
#     minibert lesson check 15
#
# or run the cells below one after the other.

# %%
from statistics import median
from time import perf_counter

import numba
import numpy as np
from numba import prange

from minibert.course import check, picture
from minibert.layers.layernorm import layernorm_forward

# %% [markdown]
# ## Where the time goes
#
# Lesson 5's forward in NumPy.  Each line walks through memory, once for every large array that it
# reads or writes:
#
#     mean     = x.mean(...)                  1 read
#     centred  = x - mean                     1 read, 1 written
#     centred * centred, then its mean        2 read, 1 written
#     x_hat    = centred * rstd               1 read, 1 written
#     x_hat * weight, then + bias             2 read, 2 written
#
# That is **12 walks**.  Only three are needed: x comes in, x̂ and y go out.
#
# Does it matter?  A float32 has 4 bytes.  Memory gives one core about ten bytes in a nanosecond,
# in which the core could do some fifty operations.  LayerNorm does about eight for each number:
#
#     NumPy        8 operations / (12 · 4 bytes)  =  1/6 operation for each byte
#     one pass     8 operations / ( 3 · 4 bytes)  =  2/3
#
# This ratio is the *arithmetic intensity*.  Both are so low that the core waits: **not the
# operations cost time, but the walks.**  (A matrix product, with 2 n³ operations for 3 n² numbers,
# is another story: `benchmarks/ladder.py`.)
#
# Between memory and core are *caches*, small and fast.  A row of 768 numbers is 3 kB and fits into
# the nearest; 2,048 rows do not.  So turn the work round: **all steps for one row, then the next
# row**.  Each row is fetched once, then read from the cache.
#
# Loops over single numbers are very slow in Python.  numba makes machine code of them:
# `numba.njit(function)` compiles the function in its first call, for the types that come in.
#
# ## First blank: LayerNorm, one row at a time
#
# Three loops over j in one row:
#
#     1   add up x_j                  mean  =  total / C
#     2   add up (x_j - mean)²        rstd  =  1 / √(total / C + eps)
#     3   x̂_j  =  (x_j - mean) · rstd          y_j  =  x̂_j · weight_j + bias_j
#
# All arrays have the shape (C,).  `x_hat` holds x when the function is called, and x̂ when it is
# left.  `y` holds anything, and is to be overwritten.  rstd, a number, is returned.
#
# By pencil: x_hat = [1, 0, 0, 0], eps = 0, weight = [2, 2, 2, 1], bias all 0.  Mean ¼;  second
# total 9/16 + 3/16 = ¾;  variance 3/16;  rstd = 4/√3 = 2.3094.  So x̂ = [1.7321, -0.5774, -0.5774,
# -0.5774] and y = [3.4641, -1.1547, -1.1547, -0.5774].
#
# Three traps:
#
# - **Do not merge loops 1 and 2.**  The variance is also m(x²) - μ².  But near 1,000 that may be
#   1,000,001 - 1,000,000, and float32 keeps seven digits: nothing is left.
# - **In place.**  Once x̂_j is written, x_j is gone.
# - **Types.**  For numba a bare `0.0` is float64, and so is then the whole sum, at half the speed.
#   `x_hat.dtype.type(0)` is a 0 of x_hat's own type.


# %%
def normalise(x_hat, weight, bias, eps, y):  # all (C,); x_hat and y are changed
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return rstd


# %%
normalise = check(normalise)

# %% [markdown]
# <details><summary>rstd has dtype float64, expected float32</summary>
# math.sqrt always returns a float64.  np.sqrt keeps the type, and numba knows both.
# </details>
#
# <details><summary>x_hat is right and y is not</summary>
# In loop 3, did you use x_hat[j] after it was overwritten, as if it were still x?
# </details>
#
# <details><summary>The check says right, the next cells say TypingError</summary>
# numba knows a part of Python and NumPy.  Loops, indices, numbers and np.sqrt always work.
# </details>
#
# ## Compiled, and measured
#
# `fastmath` gives permissions.  A sum in the order written is one addition after the other, and
# each waits for the one before.  `reassoc` permits eight or sixteen sums side by side: another
# order, but the same in every run.
#
# **Do not write `fastmath=True`.**  That also lets the compiler assume that there is no NaN and no
# infinity.  It then answers every `isnan` with False, and a mask of -inf may do anything: the
# checks that find a broken training are gone.

# %%
SAFE = {"reassoc", "contract", "nsz", "arcp"}  # minibert's choice: no "nnan", no "ninf"
one_row = numba.njit(fastmath=SAFE)(normalise)


@numba.njit
def one_pass(x, weight, bias, eps, y, x_hat, rstd):  # (N, C), rstd (N,)
    for n in range(x.shape[0]):
        for j in range(x.shape[1]):
            x_hat[n, j] = x[n, j]
        rstd[n] = one_row(x_hat[n], weight, bias, eps, y[n])


# %% [markdown]
# Four rules for measuring:
#
# - **Compare results first.**  A wrong kernel is often a fast one.
# - **Do not time the first call.**  It compiles.
# - **Take turns**, in random order: a machine changes its speed within seconds.
# - **Take the median**: one round that was disturbed must not decide.
#
# The third competitor only copies x, the least that can be done.

# %%
generator = np.random.default_rng(0)
C, EPS = 128, np.float32(1e-12)
weight, bias = generator.normal(size=(2, C)).astype(np.float32)
row_counts = [2**k for k in range(3, 15)]
times = {"NumPy": [], "one pass": [], "copy": []}  # nanoseconds for a number

for N in row_counts:
    x = generator.normal(size=(N, C)).astype(np.float32)
    y, x_hat, target, rstd = (
        np.empty_like(x),
        np.empty_like(x),
        np.empty_like(x),
        np.empty_like(x[:, 0]),
    )
    programs = {
        "NumPy": lambda x=x: layernorm_forward(x, weight, bias, EPS),
        "one pass": lambda x=x, rest=(y, x_hat, rstd): one_pass(x, weight, bias, EPS, *rest),
        "copy": lambda x=x, target=target: np.copyto(target, x),
    }
    programs["one pass"]()
    np.testing.assert_allclose(y, programs["NumPy"]()[0], rtol=1e-4, atol=1e-5)

    calls = max(1, 2**13 // x.size)  # small ones several times, or the clock is too coarse
    rounds = {name: [] for name in programs}
    for _ in range(11):
        for name in generator.permutation(list(programs)):
            program, start = programs[name], perf_counter()
            for _ in range(calls):
                program()
            rounds[name].append((perf_counter() - start) / calls / x.size * 1e9)
    for name in programs:
        times[name].append(median(rounds[name]))

with picture("15_numba.png", 7, 3.8) as figure:
    axes = figure.subplots()
    sizes = [4 * C * N for N in row_counts]  # bytes
    for name, label, style, colour, above in (
        ("NumPy", "NumPy: 12 walks", "o-", "#D55E00", 15),
        ("one pass", "one pass, compiled", "s-", "#0072B2", 15),
        ("copy", "only a copy of x", "^--", "#5F5F5F", -22),
    ):
        axes.plot(sizes, times[name], style, color=colour, markersize=4)
        axes.annotate(
            label,
            (sizes[5], times[name][5]),
            (0, above),
            textcoords="offset points",
            color=colour,
            ha="center",
            bbox={"color": "white", "pad": 1},
        )
    axes.set_title("LayerNorm forward on one core: ns for each number")
    axes.set_xscale("log", base=2)
    axes.set_xticks(
        [2**12, 2**14, 2**16, 2**18, 2**20, 2**22],
        [
            "4 kB",
            "16 kB",
            "64 kB",
            "256 kB",
            "1 MB",
            "4 MB",
        ],
    )
    axes.set_xlabel("size of x")
    axes.set_yscale("log")
    axes.set_ylim(min(times["copy"]) / 3, 2 * max(times["NumPy"]))
    axes.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])

ratio = median(a / b for a, b in zip(times["NumPy"], times["one pass"], strict=True))
print(f"NumPy takes {ratio:.1f} times as long (the median over all sizes)")

# %% [markdown]
# On the left NumPy is slow because each call costs a microsecond or more, however small the array.
# In the middle all arrays lie in a cache, and walks are cheap.  On the right they no longer fit,
# and NumPy asks the system for fresh memory again and again.  One pass stays within a small factor
# of the copy: better arithmetic could win little more.
#
# ## Nobody looks at an index
#
# In a compiled loop, `a = np.zeros(10); a[10]` raises no IndexError.  It **reads what lies behind
# the array**, and `a[10] = 1` overwrites it.  You get wrong numbers, or a crash somewhere else,
# later.  A vocabulary of 30,522 pieces and the id 30,522 are enough.
#
# So minibert's functions test ids **once, in Python, before** the kernel starts: 0 ≤ id < V.  That
# is little beside the 768 additions that each id causes.  For tests, the environment variable
# `NUMBA_BOUNDSCHECK=1` makes numba look at every index.
#
# ## Several threads, one cell
#
# `prange`, in a function compiled with `parallel=True`, deals the turns of a loop out to threads.
# For the rows of a LayerNorm that is safe.  Now add up rows, as the gradient of a bias needs it
# (lesson 2):
#
#     for n in prange(N):
#         total[j] += x[n, j]                # wrong
#
# `+=` reads, adds, and writes.  If two threads read 5, one adds 1, the other 2, and both write,
# total is 6 or 7, not 8.  Such a *race* loses a little now and then; a small test may not show it.
#
# The remedy: **each thread writes only to what is its own**, and one thread adds up at the end.
# One partial sum for each thread, then?  But in float32 (a + b) + c is not a + (b + c): another
# number of threads gives other digits, and no run can be repeated on another machine.
#
# So cut by rows, not by threads.  A *share* is `SHARE` = 64 rows, whoever works on it.  Each share
# is added up in its own order, then the shares in theirs:
#
#     partial_s  =  sum of the rows 64 s … 64 s + 63        (the last share may have fewer)
#     total      =  partial_0 + partial_1 + …
#
# x has the shape (N, C).  `partial`, (shares, C), has a row for each share, and `total` is (C,);
# both come as zeros.
#
# By pencil: 66 rows of one column, all 1.  partial = [[64], [2]] and total = [66].
#
# ## Second blank: the same sum for any number of threads
#
# `add_rows` is given.  Use `prange` for the loop over shares; in plain Python it is `range`.

# %%
SHARE = 64


def add_rows(x, total):  # x (n, C); total (C,), changed: each row of x is added
    for n in range(x.shape[0]):
        for j in range(x.shape[1]):
            total[j] += x[n, j]


# %%
def sum_columns(x, partial, total):  # partial and total are zeros, and changed
    # >>> edit between the marks
    raise NotImplementedError
    # <<<


# %%
sum_columns = check(sum_columns)

# %% [markdown]
# <details><summary>Must I cut the last share off at N?</summary>
# No.  A slice ends where the array ends: x[64:128] of 66 rows has 2 rows.
# </details>
#
# <details><summary>total is right and partial is all zeros</summary>
# Then every share was added straight to total: the race, which plain Python cannot show.
# </details>
#
# Here are sums of 10,000 numbers in float32, cut by threads and cut by shares:

# %%
x = generator.normal(size=(10_000, 1)).astype(np.float32)
for threads in (1, 2, 3, 8):
    partial, total = np.zeros((threads, 1), np.float32), np.zeros(1, np.float32)
    for part, own in zip(np.array_split(x, threads), partial, strict=True):
        add_rows(part, own)
    add_rows(partial, total)
    print(f"a part for each of {threads} threads  {total[0]:.7f}")

partial, total = np.zeros((-(-len(x) // SHARE), 1), np.float32), np.zeros(1, np.float32)
sum_columns(x, partial, total)
print(f"shares of 64, any threads     {total[0]:.7f}")

# %% [markdown]
# ## Random numbers
#
# `np.random.seed(1)` does not reach into compiled code: there numba has generators of its own, one
# for each thread.  So no kernel of minibert draws anything.  Dropout asks a **hash**: 32 bits that
# depend on a seed and the element's index alone (`random_bits` in `minibert/keys.py`).  Any thread
# can compute any element's bits, and backward computes the forward's mask anew.
#
# ## A question to end with
#
# The gradient of the word embeddings adds each token's dy to the row of its id, and tokens with the
# same id share a row (lesson 8).  To deal out tokens is a race, and partial sums would need 30,522
# rows for each share.  How else can two threads never meet in one number?
#
# <details><summary>Answer</summary>
# Deal out the columns.  Each thread walks over all tokens in their order, and adds only its own
# columns, say 0 … 383 or 384 … 767.  No number has two writers, and each is added to in the order
# of the tokens, whatever the number of threads: `minibert/ops/cpu/embedding.py`.
# </details>
#
# minibert's own: `minibert lesson show 15`, or the files `minibert/ops/cpu/norm.py` and
# `minibert/ops/cpu/linear.py`.
