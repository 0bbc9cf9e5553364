# %% [markdown]
# # Lesson 7: WordPiece
#
# *30 minutes.  Before it: nothing.*
#
# A BERT computes with numbers, so text has to become numbers first.  One number for each word?
# English has a million words, and tomorrow a new one.  One for each character?  Then sentences
# are long, and a character means little.  WordPiece lies between: **frequent words are one piece,
# rare ones are cut into a few pieces**, and any word out of known characters can be cut.
#
# You will write the cut of a word, then one step of learning the pieces.  To check:
#
#     minibert lesson check 07
#
# or run the cells below one after the other.

# %%
from pydoc_data.topics import topics

from minibert.course import check, picture
from minibert.tokenizer import Vocabulary, train_vocabulary
from minibert.tokenizer.normalize import Normalizer
from minibert.tokenizer.wordpiece import WordPiece

# %% [markdown]
# ## From text to words
#
# Before any word is cut, the text is cleaned: lower case, accents off (a model may do without
# these two), and blanks around every punctuation mark and every **Chinese character**.  Then the
# blanks divide the text into words.

# %%
print(Normalizer().words("BERT 读中文, naïve!"))

# %% [markdown]
# So WordPiece never sees a Chinese word: it sees one character at a time.  Articles say that the
# Chinese BERT "masks by character", as if it were a decision about masking.  It is only a
# consequence of this line.
#
# ## Longest match first
#
# A vocabulary is a list of pieces; a piece's number (its **id**) is its place in the list.  A
# piece that *continues* a word is written with `##` in front: `un` begins a word, `##want` goes on
# with one.  The two are different pieces with different ids, even where the letters are the same.
#
# The rule for the cut is greedy:
#
# 1. Take the **longest** piece that the word begins with.
# 2. Of what is left, take the longest **##** piece that it begins with.  Again, until nothing is
#    left.
# 3. If at some place nothing fits, the **whole word** is one `[UNK]`, for *unknown*.  The pieces
#    that were found before are thrown away.
#
# By pencil, with the pieces `un`, `unw`, `##a`, `##an`, `##want`, `##ed`:
#
# | word | steps | result |
# |---|---|---|
# | uned | unw? no.  un, ##ed | un ##ed |
# | unan | un, ##an: it is longer than ##a | un ##an |
# | unwanted | unw is longer than un.  ##an fits.  *ted*: nothing fits | [UNK] |
#
# The third word is the one to remember.  `un ##want ##ed` would have been possible, but a piece
# that was taken is **never given back**.  The rule is no search for the best cut, nor for the one
# with the fewest pieces.
#
# A word of more than 100 characters is `[UNK]` as well, and nobody tries to cut it.  It is a key,
# an address or noise, and would fill a large part of a sequence.  In minibert the caller of your
# function takes care of this.
#
# ## First blank: the cut of a word
#
# Your function gets the vocabulary as two tables, so that no `##` has to be glued on at every
# look-up:
#
# | name | what it is | in the example |
# |---|---|---|
# | word | a text, not empty | "uned" |
# | first | piece → id, to begin a word with | {"un": 5, "unw": 6} |
# | inner | piece → id, to go on with, its ## taken off | {"want": 7, "ed": 8, "an": 9, "a": 10} |
# | unk_id | the id of [UNK] | 1 |
# | pieces | a list of (id, start, end) | [(5, 0, 2), (8, 2, 4)] |
#
# `start` and `end` count characters of the word, and `word[start:end]` is the piece.  A word that
# cannot be cut gives one entry, for the whole word.


# %%
def split_word(word, first, inner, unk_id):
    pieces = []
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return pieces


# %%
split_word = check(split_word)

# %% [markdown]
# <details><summary>The check never comes back</summary>
# A while loop that does not move.  Where nothing fits, you have to return; where a piece fits,
# start has to become its end.
# </details>
#
# <details><summary>The second piece is not found</summary>
# After the first piece look into `inner`.  It has no ## in it.
# </details>
#
# <details><summary>How do I find the longest?</summary>
# Try the whole rest, word[start:], then one character less, and so on.  The first hit is the
# longest.  (minibert begins with as many characters as the longest piece of the table has.)
# </details>
#
# ## Where do the pieces come from?
#
# They are learned from text, once, before the model is.  Google never published the program that
# made BERT's 30,522 pieces; minibert's does as *byte-pair encoding* (2016):
#
# 1. Begin with the single characters.  *hug* is h ##u ##g.
# 2. Count how often each pair of neighbours occurs in the text.
# 3. Join the most frequent pair to a new piece, everywhere.
# 4. Again from 2, until there are as many pieces as you wanted.
#
# Let the text be *hug* 10 times, *pug* 5 times and *hugs* 5 times.  By pencil:
#
# | pair | hug ×10 | pug ×5 | hugs ×5 | together |
# |---|---|---|---|---|
# | h ##u | 10 | | 5 | 15 |
# | ##u ##g | 10 | 5 | 5 | **20** |
# | p ##u | | 5 | | 5 |
# | ##g ##s | | | 5 | 5 |
#
# The first new piece is ##ug.  Now *hug* is h ##ug, and that pair comes 15 times.
#
# Each *different* word is stored once, with how often it occurs.  So a text of millions of words
# is a list of some ten thousand.
#
# ## Second blank: count the pairs
#
# | name | what it is | in the example |
# |---|---|---|
# | words | for each word the list of its pieces | [["h", "##u", "##g"], ["p", "##u", "##g"], …] |
# | occurrences | how often each word occurs | [10, 5, 5] |
# | counts | a dictionary, pair → how often | {("h", "##u"): 15, …} |
#
# A pair that comes twice in one word counts twice.


# %%
def count_pairs(words, occurrences):
    counts = {}
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dict(counts)


# %%
count_pairs = check(count_pairs)

# %% [markdown]
# <details><summary>KeyError</summary>
# A pair that you see for the first time is not in the dictionary yet: counts.get(pair, 0) is 0
# then.
# </details>
#
# <details><summary>How do I get the neighbours?</summary>
# zip(pieces, pieces[1:]) gives each piece together with the next one.
# </details>
#
# ## Four joins
#
# With your function, a trainer is twenty lines.  Of equally frequent pairs it takes the one whose
# pieces are older, so that the result does not hang on chance.  Does minibert learn the same?

# %%
corpus = {"hug": 10, "pug": 5, "hugs": 5}
words = [[word[0], *("##" + letter for letter in word[1:])] for word in corpus]
learned = sorted(set("".join(corpus)))
learned += sorted({"##" + letter for word in corpus for letter in word[1:]})


def join(pieces, pair):
    result = []
    for piece in pieces:
        if result and (result[-1], piece) == pair:
            result[-1] += piece.removeprefix("##")
        else:
            result.append(piece)
    return result


for _ in range(4):
    counts = count_pairs(words, corpus.values())
    ages = {pair: tuple(learned.index(piece) for piece in pair) for pair in counts}
    best = min(counts, key=lambda pair: (-counts[pair], ages[pair]))
    words = [join(pieces, best) for pieces in words]
    learned.append(best[0] + best[1].removeprefix("##"))
    print(f"{' '.join(best)}, {counts[best]} times  ->  {learned[-1]}")

text = (f"{word} " * count for word, count in corpus.items())
print("minibert's the same:", train_vocabulary(text, 5 + len(learned)).tokens[5:] == tuple(learned))

# %% [markdown]
# (The 5 are the special pieces [PAD], [UNK], [CLS], [SEP] and [MASK].)
#
# Training joins pairs; the cut at run time does **not** repeat these joins, as byte-pair encoding
# does.  It only asks for the longest piece.  So two programs with the same vocabulary cut alike,
# however the vocabulary was made.
#
# ## One word, five vocabularies
#
# Now a larger text: the help pages of Python, half a million characters.  The vocabulary grows one
# piece at a time, so its first 300 pieces *are* the vocabulary of 300.

# %%
vocabulary = train_vocabulary(topics.values(), 2000)
word = "representation"

with picture("07_wordpiece.png", 7, 3.0) as figure:
    axes = figure.subplots()
    sizes = (150, 300, 600, 1000, 2000)
    for row, size in enumerate(sizes):
        smaller = Vocabulary(vocabulary.tokens[:size])
        cut = WordPiece(smaller).split(word)
        print(f"{size:5d}  {' '.join(smaller.tokens[piece.id] for piece in cut)}")
        for piece in cut:
            middle, length = (piece.start + piece.end) / 2, piece.end - piece.start
            axes.barh(row, length - 0.12, 0.66, middle - length / 2 + 0.06, color="#CFE3F2")
            axes.text(middle, row, word[piece.start : piece.end], ha="center", va="center")
        axes.text(len(word) + 0.3, row, f"{len(cut)} piece{'s' * (len(cut) > 1)}", va="center")
    axes.set_yticks(range(len(sizes)), [f"{size:,}" for size in sizes])
    axes.set_ylabel("size of the vocabulary")
    axes.invert_yaxis()
    axes.set_xlim(0, len(word) + 2.5)
    axes.set_xticks([])
    axes.grid(False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(left=False)
    axes.set_title(f"One word, “{word}”, and five vocabularies")

# %% [markdown]
# A larger vocabulary makes shorter sequences, and attention's work grows with the square of their
# length.  But each piece costs a row of the embedding table (next lesson), and a piece that is
# rare is trained rarely.
#
# ## A question to end with
#
# All 26 letters are in the vocabulary, each of them with and without ##.  Can a word of small
# English letters still become [UNK]?
#
# <details><summary>Answer</summary>
# Only by its length.  At every place at least one piece fits, the single letter, so the cut never
# gets stuck: *unwanted* was lost because `##t` was missing.  This is why training begins with the
# characters, and keeps them.  What does become [UNK] is a word with a character that the training
# text did not have, such as an emoji.
# </details>
#
# minibert's own: `minibert lesson show 07`, or the files `minibert/tokenizer/wordpiece.py` and
# `minibert/tokenizer/trainer.py`.
