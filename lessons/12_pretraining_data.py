# %% [markdown]
# # Lesson 12: the data of pretraining
#
# *30 minutes.  Before it: lesson 7.*
#
# BERT learns from plain text that nobody has labelled.  Two games make labels out of it: guess
# the hidden words (masked language model, MLM), and say whether the second text follows the
# first (next-sentence prediction, NSP).  The rules of both games fit on one page, and each of them
# is easy to get wrong.  Such a mistake raises no error: the loss still falls, at times faster than
# it should, and the model is worse.
#
# You will write three functions.  To check what you wrote, in a terminal:
#
#     minibert lesson check 12
#
# or run the cells below one after the other.

# %%
import numpy as np

from minibert.course import check, picture
from minibert.tokenizer import Tokenizer, Vocabulary
from minibert.tokenizer.vocab import SPECIAL_TOKENS

# %% [markdown]
# ## Which tokens are asked
#
# A batch is `ids`, of shape (B, T): B rows of T tokens.  Some tokens are **special**: [CLS],
# [SEP], [UNK], and the [PAD] that fills short rows.  All the others are **ordinary**.  The rules:
#
# 1. Of the ordinary tokens of each row, 15 % are chosen: that share, **rounded** to the nearest
#    whole number.
# 2. It is at least 1, or a short row would be computed for nothing.  A row without any ordinary
#    token gives 0.
# 3. It is at most `most` (BERT's *max_predictions*), so that the memory of a step has a limit.
# 4. A special token is **never** chosen.  [CLS] is always at the start; there is nothing to learn
#    from guessing it.  Special tokens do not count towards the 15 % either.
#
# To choose n of many at random, give each a random number, its *draw*, and take the n smallest.
# The draws are an argument, so the function itself has no chance in it, and can be checked.
#
# One row to follow with a pencil, with the share 0.32 and at most 3:
#
#     token     [CLS]   the    dog    saw     a     cat   [SEP]  [PAD]
#     ordinary    no    yes    yes    yes    yes    yes     no     no
#     draw       .05    .7     .2     .9     .4     .6     .1     .3
#
# Five ordinary tokens · 0.32 = 1.6, rounded 2.  The two smallest draws of *ordinary* tokens are .2
# and .4: "dog" and "a" are chosen.  The draws .05, .1 and .3 belong to special tokens; they must
# neither win nor use up a place.
#
# Two tools.  `np.where(ordinary, draw, 2.0)` puts the draws of special tokens out of reach.  And
# `x.argsort(axis=1).argsort(axis=1)` gives every number's **rank** in its row, 0 for the smallest.
#
# | name | shape |
# |---|---|
# | ordinary (bool), draw, chosen (bool) | (B, T) |
# | the number to choose | (B,) |
# | probability, most | numbers |
#
# ## First blank: choose


# %%
def choose_tokens(ordinary, draw, probability, most):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return chosen


# %%
choose_tokens = check(choose_tokens)

# %% [markdown]
# <details><summary>operands could not be broadcast together</summary>
# The numbers have the shape (B,), the ranks (B, T).  Write number[:, None], of shape (B, 1).
# </details>
#
# <details><summary>A row has a token fewer than it should</summary>
# Did a special token take a place before you removed it?  Or does int() round down?
# </details>
#
# ## What is shown in their place
#
# Let M be the number of chosen tokens in the whole batch.  A chosen token is shown as
#
#     [MASK]                  80 %
#     a random token          10 %
#     itself                  10 %
#
# **and is the label in all three cases.**  Why not always [MASK]?  Later uses have no [MASK] in
# their texts.  A model that was only ever asked at [MASK] need not keep anything about the tokens
# that it can see.  Now it is also asked at tokens that look ordinary, some of them wrong: it has to
# have an opinion about every place.
#
# The trap is in the second limit.  BERT's own program draws twice: below 0.8 is [MASK]; else it
# draws **again**, and below 0.5 the token stays.  Half of the remaining 20 % is 10 % of all.
# Programs that write 0.1 there get 2 %.  Here there is one draw for both questions:
#
#     0 ───────────── [MASK] ───────────── 0.8 ── random ── 0.9 ── itself ── 1
#
# With one draw, the second limit is 0.9.  A test `draw < 0.1` after `draw < 0.8` is never reached.
#
# Three results are wanted:
#
# | name | shape | |
# |---|---|---|
# | input_ids | (B, T) | a copy of ids, with the M chosen places changed |
# | positions | (M,) int32 | where they are: row · T + column, in rising order |
# | labels | (M,) | the original ids there |
#
# `np.flatnonzero(chosen)` gives the positions, as numbers into `ids.reshape(-1)`, the batch as one
# long row.  The loss then works on M places, not on B·T.  `draw` and `random_ids` have the shape
# (M,), in the same order.
#
# By pencil, with T = 5, [MASK] = 4 and the chosen tokens 11, 13 and 15:
#
#     ids          2 11 12 13  3     2 14 15  3  0        positions  1, 3, 7
#     draw           .85   .3              .95            labels    11, 13, 15
#     random_ids      21   22               23
#     input_ids    2 21 12  4  3     2 14 15  3  0
#
# ## Second blank: hide


# %%
def hide_tokens(ids, chosen, draw, random_ids, mask_id):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return input_ids, positions, labels


# %%
hide_tokens = check(hide_tokens)

# %% [markdown]
# <details><summary>positions has dtype int64</summary>
# positions.astype(np.int32): half the memory, and no batch has two thousand million tokens.
# </details>
#
# <details><summary>ids was changed in place</summary>
# The next epoch hides other tokens of the same text.  Begin with ids.copy().
# </details>
#
# ## Look at a batch
#
# Here are 12 rows of different lengths, after your two functions.  Dark cells are [CLS] and [SEP],
# white ones padding.  M is [MASK], R a random token, and = the token itself.

# %%
generator = np.random.default_rng(15)
B, T = 12, 32
length = generator.integers(8, T + 1, B)
length[0] = T
column = np.arange(T)
ordinary = (column > 0) & (column < length[:, None] - 1)
ids = np.where(ordinary, generator.integers(5, 1000, (B, T)), 2).astype(np.int32)
chosen = choose_tokens(ordinary, generator.random((B, T)), 0.15, 5)
M = int(chosen.sum())
others = generator.integers(5, 1000, M).astype(np.int32)
shown, positions, labels = hide_tokens(ids, chosen, generator.random(M), others, 4)

many = np.full((1, 100_000), 7, np.int32)
all_of_it, _, _ = hide_tokens(
    many, many > 0, generator.random(many.size), np.full(many.size, 8, np.int32), 4
)
shares = [float((all_of_it == which).mean()) for which in (4, 8, 7)]

with picture("12_pretraining_data.png", 8, 3.4) as figure:
    left, right = figure.subplots(1, 2, width_ratios=(3, 1))
    kind = np.where(ordinary, 0.06, np.where(column < length[:, None], 0.32, 0.0))
    left.imshow(kind, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    for row, place in zip(*np.nonzero(chosen), strict=True):
        same = shown[row, place] == ids[row, place]
        letter = "M" if shown[row, place] == 4 else "=" if same else "R"
        box = {"facecolor": "#0072B2" if letter == "M" else "white", "pad": 1.5}
        color = "white" if letter == "M" else "black"
        left.text(place, row, letter, ha="center", va="center", size=8, color=color, bbox=box)
    left.set_title("12 rows: M [MASK], R random, = itself")
    left.set_xlabel("token")
    left.set_ylabel("row")
    left.grid(False)
    colors = ["#0072B2", "white", "white"]
    bars = right.bar(["[MASK]", "random", "itself"], shares, color=colors, ec="black")
    right.bar_label(bars, [f"{share:.1%}" for share in shares])
    right.set_title("of 100,000 tokens")
    right.margins(y=0.1)
    right.set_yticks([])
    right.grid(False)

# %% [markdown]
# Short rows have few letters, long rows have many, and the dark and the white cells have none.
#
# **About Chinese**, articles say that BERT "masks by character".  There is no such rule.  The
# tokenizer puts a space around every Chinese character before WordPiece sees it (lesson 7), so
# each character *is* a token, and the same 15 % of tokens are chosen as anywhere:

# %%
words = ["我", "爱", "北", "京", "un", "##want", "##ed"]
tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, *words]))
print(tokenizer.encode("我爱北京").tokens, tokenizer.encode("unwanted").tokens)

# %% [markdown]
# English words of several pieces are in the same situation: one piece may be hidden while the
# others tell what it is.  To hide all pieces of a word together is a variant, *whole word
# masking*; minibert has it as a switch.
#
# ## Which text comes second
#
# A row is [CLS] A [SEP] B [SEP].  In half of the rows B is what follows A in its document, and in
# the other half it is text from **another** document.  The label is
#
#     0   B is next
#     1   B is random
#
# Many articles have it the other way round, since 1 looks like "yes".  With the published weights,
# a program that reads it so gives the opposite of every answer.
#
# Why another document?  A random sentence of the *same* document may be a true neighbour with the
# label 1, or so near that nobody could tell.  So all sentences may be drawn, with equal chance, but
# those of the own document.
#
# Let the sentences of all documents be numbered in one go.  `before`, of shape (N + 1,), says how
# many come before each document: document d has the numbers before[d] to before[d + 1] - 1, and
# before[-1] is the number of all.  Given are `document` (B,), the own documents, and `place` (B,),
# random numbers from 0 to just below 1.  The trick is to **count as if the own document were not
# there, and then to step over it**.  Three documents of 2, 3 and 4 sentences, the own one is 1:
#
#     before = [0, 2, 5, 9]         others: 9 - 3 = 6
#     place .25 → ⌊.25 · 6⌋ = 1     before the own document: it stays 1
#     place .50 → ⌊.50 · 6⌋ = 3     not below before[1] = 2: it steps over 3, to 6
#     place .90 → ⌊.90 · 6⌋ = 5     it steps over 3 as well, to 8
#
# ## Third blank: a sentence from elsewhere


# %%
def sentence_elsewhere(document, place, before):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return number  # (B,) int64


# %%
sentence_elsewhere = check(sentence_elsewhere)

# %% [markdown]
# <details><summary>number has dtype float64</summary>
# np.floor gives a float: .astype(np.int64) makes a number that can be an index.
# </details>
#
# <details><summary>I would rather draw again until it is another document</summary>
# That is right too, only slower, and nobody knows beforehand how many numbers it takes: then
# batch 5 would depend on what happened in batch 4.
# </details>
#
# ## A question to end with
#
# Somebody hides the tokens once, writes the result to disk, and trains on that file for 40 epochs.
# What does the model see that it should not, and what does minibert do instead?
#
# <details><summary>Answer</summary>
# It is asked the same questions 40 times, and can learn the answers by heart; 85 % of the tokens
# are never asked at all.  BERT's program wrote ten differently hidden copies of the text, so each
# came back four times.  minibert draws anew in every epoch, from the number of the batch: that
# costs next to nothing, and a run that was interrupted goes on with the very same batches.
# </details>
#
# minibert's own: `minibert lesson show 12`, or the files `minibert/data/masking.py` and
# `minibert/data/pairs.py`.
