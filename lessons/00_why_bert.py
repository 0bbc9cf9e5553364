# %% [markdown]
# # Lesson 0: why BERT
#
# *20 minutes.  Before it: nothing.*
#
# This course builds a BERT out of NumPy, layer by layer, each with its derivative, until it fills
# in blanks on your own computer.  This first lesson asks what for: what could the models before
# it not do?  The answer is one question, asked five times: **which words may a word look at?**
#
# You need Python, a little NumPy, and no knowledge of neural networks.  There is one blank to
# fill in.  To check what you wrote, in a terminal:
#
#     minibert lesson check 00
#
# or run the cells below one after the other.

# %%
import numpy as np

from minibert.course import check, picture

# %% [markdown]
# ## One vector for a word
#
# A network computes with numbers, so each word becomes a row of numbers, a **vector**.  Where
# from?  From its company: words that stand in the same sentences get similar vectors.  word2vec
# (2013) learns them by prediction.  Counting shows the idea as well: of the sentences with this
# word, which share has *water* in it, and which share *money*?

# %%
corpus = []
for place, thing, stuff in (("river", "boat", "water"), ("account", "loan", "money")):
    corpus += [
        f"the {place} is full of {stuff}",
        f"she saw the {thing} and the {stuff} of the {place}",
        f"the bank has {stuff} near it",
        f"the {thing} needs {stuff} and a bank",
    ]
sentences = [set(line.split()) for line in corpus]
vector = {}
for word in set().union(*sentences):
    counts = [sum({word, stuff} <= s for s in sentences) for stuff in ("water", "money")]
    vector[word] = np.array(counts) / sum(counts)

for word in ("river", "loan", "the", "bank"):
    print(f"{word:6} water {vector[word][0]:.1f}, money {vector[word][1]:.1f}")

# %% [markdown]
# *river* and *loan* are told apart.  But *bank* stands in the middle, like *the*: it has two
# meanings and **one vector**, the mean of both.  Such a vector is called **static**: the table
# gives it to *bank* whatever sentence it stands in.  A longer table or more columns do not help.
# The word alone does not know which bank it is; its neighbours do.
#
# ## Looking at the neighbours
#
# So let each place in a sentence take the mean of all vectors that it may see.  Which these are
# is said by a **mask**: a table of True and False, row t for the place t that looks, column s for
# the place s that is looked at.  (A BERT takes a weighted mean, and learns the weights; that is
# attention, lesson 9.  The plain mean will do today.)
#
# | name | shape | what |
# |---|---|---|
# | hidden | (B, T, C) | B rows, T vectors in each, every vector of C numbers |
# | attention_mask | (B, T) | True where this row may look |
# | seen | (B, C) | the mean of the vectors that the row may see |
#
# By pencil, one row (B = 1) of T = 3 vectors of C = 2 numbers:
#
#     hidden[0]          [1, 2]   [3, 4]   [9, 9]
#     attention_mask[0]   True     True     False
#     seen[0]            [(1 + 3) / 2, (2 + 4) / 2]  =  [2, 3]
#
# Two things to take care of.  A vector that is not seen must be neither in the sum nor in the
# count.  And a row may see nothing: its result is to be 0, not 0 / 0.
#
# Two tools.  `attention_mask[..., None]` is the mask with the shape (B, T, 1), which NumPy
# stretches along C.  And `attention_mask.sum(axis=1, keepdims=True, dtype=hidden.dtype)` counts
# the True of each row, shape (B, 1), as numbers of the same kind as hidden.
#
# ## The blank


# %%
def mean_of_seen(hidden, attention_mask):  # (B, T, C), bool (B, T)
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return seen


# %%
mean_of_seen = check(mean_of_seen)

# %% [markdown]
# <details><summary>operands could not be broadcast together</summary>
# A mask (B, T) does not fit vectors (B, T, C): it lacks the last axis.  Add it by [..., None].
# </details>
#
# <details><summary>seen has dtype float64, expected float32</summary>
# A count of int64 has turned float32 into float64 in the division.  Give the sum of the mask
# dtype=hidden.dtype.
# </details>
#
# <details><summary>invalid value encountered in divide, or nan</summary>
# One row sees nothing, and 0 / 0 is not a number.  np.maximum(count, 1) changes only that row.
# </details>
#
# ## The same word, three masks
#
# For a sentence of T words, T places look at the same T vectors: B = T rows.  Three masks:

# %%
MASKS = {
    "only itself: static": lambda T: np.eye(T, dtype=bool),
    "what came before: GPT": lambda T: np.tril(np.ones((T, T), dtype=bool)),
    "everything: BERT": lambda T: np.ones((T, T), dtype=bool),
}
for name, mask in MASKS.items():
    rows = ["".join("#" if seen else "." for seen in row) for row in mask(5)]
    print(f"{name:22} {'  '.join(rows)}")

TEXTS = (
    "the river is full of water near the bank",
    "the bank is near the boat and the water",
    "the loan of the account is near the bank",
    "the bank has the money and the loan",
)
middle = {name: [] for name in MASKS}  # how far bank is from the middle: + water, - money
for name, mask in MASKS.items():
    for text in TEXTS:
        words = text.split()
        T = len(words)
        x = np.array([vector[word] for word in words])  # (T, C)
        seen = mean_of_seen(np.broadcast_to(x, (T, *x.shape)), mask(T))  # (T, C)
        water, money = seen[words.index("bank")]
        middle[name].append(water - money)

with picture("00_why_bert.png", 9, 2.8) as figure:
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    places = np.arange(len(TEXTS))[::-1]
    for axes, (name, values) in zip(panels, middle.items(), strict=True):
        axes.axvline(0, color="#5F5F5F", linewidth=1)
        axes.hlines(places, 0, values, color="#0072B2", linewidth=2)
        axes.plot(values, places, "o", color="#0072B2")
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("← money      water →")
        axes.set_xticks([0], [""])
    panels[0].set_yticks(places, TEXTS)
    panels[0].set_ylim(-0.5, len(TEXTS) - 0.5)
    panels[0].set_xlim(-0.5, 0.5)
    figure.suptitle("The vector of bank, by what its place may see", fontsize=11)

# %% [markdown]
# On the left *bank* is the same in all four sentences.  In the middle it has a meaning only where
# the telling words came before it; in the second and fourth they come too late.  On the right all
# four are told apart.  The words are the same and the code is the same: only the mask differs.
#
# ## Reading word by word
#
# Before attention, the neighbours were brought in by a **recurrent** network, such as an LSTM.
# It reads one word after the other and keeps one state:
#
#     h_t  =  tanh(W h_(t-1) + U x_t)          h_t (C,), x_t (C,), W and U (C, C)
#
# What the first word says about the last has to pass through W and tanh once for each word
# between: **the path is as long as the sentence**.  How much is left?  Move the first word a
# little, and look how far the end moves.

# %%
generator = np.random.default_rng(0)
C, tiny = 16, 1e-5
W = np.linalg.qr(generator.normal(size=(C, C)))[0] * 0.95  # turns h, and shortens it by 5 %
U = generator.normal(size=(C, C)) / 8


def recurrent(x):  # (T, C) → (C,), the last state
    h = np.zeros(C)
    for row in x:
        h = np.tanh(W @ h + U @ row)
    return h


def everything(x):  # (T, C) → (C,), what the last place sees
    return mean_of_seen(x[None], np.ones((1, len(x)), dtype=bool))[0]


print("words between   recurrent   mean of all")
for T in (2, 5, 10, 20, 40):
    x = generator.normal(size=(T, C))
    moved = x.copy()
    moved[0] += tiny
    left = [np.linalg.norm(f(moved) - f(x)) / tiny for f in (recurrent, everything)]
    print(f"{T - 2:13d} {left[0]:11.1e} {left[1]:13.1e}")

# %% [markdown]
# The recurrent path loses a share at every word; the mean takes one step however far the word is,
# and is divided by T only.  (An LSTM's gates slow the loss down and do not end it.)  The same path
# carries the gradient back in training, so far-off words are hardly learned from.  And the steps
# must wait for each other, while all rows of a mask can be computed at once.
#
# ELMo (2018) ran one LSTM from the left, a second from the right, and put their states side by
# side.  Each of the two still sees one side only.
#
# ## Encoder, decoder, and their masks
#
# The Transformer (2017) replaced recurrence by attention, for translation.  It has two halves:
#
# | part | which word may look at which | what it does |
# |---|---|---|
# | encoder | every word at every word | reads the sentence |
# | decoder | each word at itself and those before it | writes the translation |
# | between the two | each written word at every word read | asks the sentence |
#
# A decoder may not look ahead, because when it writes, there is nothing ahead.  This mask is
# called **causal**.  Thanks to it, one pass over T words trains T predictions of the next word,
# and none of them can see its answer.
#
# **GPT** (2018) is the decoder alone: it writes well, but half of the context is hidden from each
# word.  **BERT** (2018) is the encoder alone: it cannot write from left to right, but every word
# knows both sides.  So "BERT reads in both directions", as one often hears, is not quite it.  It
# has *no* direction; shuffle the words, and the mean above stays the same.  Where a word stands
# must be told to it, which is lesson 8.
#
# ## What BERT is trained to do
#
# GPT learns by guessing the next word.  BERT cannot: the next word lies open before it.  Its
# authors' way out is to **take the word away**.  15 % of the words are chosen; most of these are
# replaced by a blank, `[MASK]`, and BERT has to say what stood there:
#
#     the [MASK] of the river       →  bank
#
# The price: a pass over T words trains 0.15 T guesses, where GPT's trains T.  And `[MASK]` never
# occurs in real text, which lesson 12 has to make up for.
#
# ## A question to end with
#
# Here is another way out, without `[MASK]`: let each word look at all words **but itself**, and
# guess all T words at once.  With one layer that can work.  Why not with two?  Let NumPy say it:
# `hidden = ~np.eye(4, dtype=bool)`, then `hidden @ hidden`.
#
# <details><summary>Answer</summary>
# The product is True at (t, s) if t sees some word that sees s.  It is True everywhere, also on
# the diagonal.  In the first layer the neighbours have looked at word t; in the second, word t
# looks at them, and finds itself there.  The answer leaks, and nothing is learned.  A causal mask
# cannot leak: `np.tril(...) @ np.tril(...)` is the same triangle again.  This is why a deep model
# that sees both sides needs its words taken away.
# </details>
#
# minibert's own: `minibert lesson show 00`, or the file `minibert/layers/pooling.py`.
