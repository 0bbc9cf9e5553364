# %% [markdown]
# # Lesson 17: fine-tuning
#
# *35 minutes.  Before it: lesson 16.*
#
# Pretraining has made a model that can fill blanks, which nobody needs.  What people need has few
# labels: is this review good, who is named in this text, where is the answer to my question.
# Fine-tuning takes the pretrained model, puts a small new head on it, and trains *all* of it a
# little.  It takes minutes, and it is why BERT changed the field.
#
# The new head is one linear layer, which you know.  What is left to get wrong is everything around
# it: where labels stand, what a row's vector is, and how you measure.  You will write one function
# of each kind.  To check what you wrote, in a terminal:
#
#     minibert lesson check 17
#
# or run the cells below one after the other.

# %%
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import numpy as np

from minibert.config import BertConfig, FineTuneConfig, TrainConfig, initial_std
from minibert.course import check, picture
from minibert.data.batches import BatchSource
from minibert.data.corpus import TokenCorpus
from minibert.data.tasks import TextExample
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining
from minibert.scores import accuracy
from minibert.tasks.classify import Classify
from minibert.tasks.predict import predict
from minibert.tokenizer import Tokenizer, Vocabulary
from minibert.tokenizer.vocab import SPECIAL_TOKENS
from minibert.training.finetune_loop import train_task
from minibert.training.loop import loss_weights, update_weights
from minibert.training.run import make_optimizer
from minibert.training.schedule import warmup_linear

# %% [markdown]
# ## Four tasks, four heads
#
# | task | a row | what the head reads | head |
# |---|---|---|---|
# | classify | [CLS] text [SEP] (pair [SEP]) | the pooled [CLS], (B, C) | C → K classes |
# | tag | [CLS] words [SEP] | every token, (B, T, C) | C → K tags |
# | answer | [CLS] question [SEP] passage [SEP] | every token, (B, T, C) | C → 2: start, end |
# | similarity | each text by itself | the mean of its tokens, (B, C) | none: the cosine |
#
# **The head is all that is new**: for BERT base and two classes 768 · 2 + 2 = 1,538 numbers beside
# 109 million.  [CLS] stands in every row and means nothing by itself, so attention can gather there
# what a whole row is about.
#
# **The rate is small.**  BERT's authors found 2e-5 to 5e-5 to do well, with batches of 16 or 32 and
# 2 to 4 epochs; *these* are fine-tuning's rates, and pretraining had 1e-4.  A large rate would
# wipe out what pretraining knew before the head has learned to read it.  (Small models take more.)
#
# **Tags stand at a word's first piece.**  WordPiece may cut a word, and its tag must not slide:
#
#     [CLS]   Jim     Hen    ##son   was   [SEP]
#     -100    B-PER   I-PER  -100    O     -100          -100: no label, no loss
#
# ## Answers are spans of tokens
#
# An answer is a slice of the passage.  People give it in **characters**: its text, and where that
# starts.  The model needs **tokens**: the places of the first and the last one.  Between the two
# stand the *offsets* that the tokenizer returns: token n was made from the characters a to b - 1.
#
#     the playing dog ran                      answer: "playing dog", start 4, so stop 15
#
#     token     the      play     ##ing     dog        ran
#     offsets   (0, 3)   (4, 8)   (8, 11)   (12, 15)   (16, 19)
#     touched   no       yes      yes       yes        no          →  (1, 3)
#
# A token belongs to the answer if it **touches** it, if they share at least one character.  Answers
# are at times marked in the middle of a token: "1912" in the token "1912ad".  So do not ask for
# tokens that lie wholly inside.
#
# `answers` is a list of right answers, each with `.text` and `.start`; training takes the first.
# `offsets` is a list of pairs.  Return (first, last), **both included**; or None, if the list is
# empty (the passage has no answer) or no token is touched.
#
# ## First blank: from characters to tokens


# %%
def span_of(answers, offsets):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<


# %%
span_of = check(span_of)

# %% [markdown]
# <details><summary>The last place is one too large</summary>
# Slices end behind their last element; a label *is* the last element.
# </details>
#
# <details><summary>A token at the edge is missing</summary>
# Two stretches share a character if each begins before the other ends: b > start and a < stop.
# </details>
#
# A passage that is longer than a row is read in **windows** that overlap, by half in minibert: an
# answer that one window cuts lies whole in the next.  A window without the answer has [CLS] as
# start and end.  Whoever moves on by more than a window skips tokens, and never notices.
#
# ## One vector for a sentence
#
# For similarity the mean over tokens usually does better than [CLS].  With m_bt = 1 for a token
# and 0 for padding, and n_b = Σ_t m_bt tokens in row b:
#
#     pooled_b  =  Σ_t m_bt hidden_bt / n_b          (B, T, C) → (B, C)
#
# Padding must not count, neither above nor below the line: otherwise a sentence's vector depends
# on how long its neighbours in the batch are.
#
# **Back.**  ∂pooled_b / ∂hidden_bt is m_bt / n_b, the same for each column.  So each real token
# gets dpooled_b / n_b and padding gets 0.  By pencil, with T = 3:
#
#     mask [1 1 0]    dpooled [4  2]    n 2    dhidden [2  1], [2  1], [0 0]
#     mask [1 1 1]    dpooled [3 -6]    n 3    dhidden [1 -2], [1 -2], [1 -2]
#
# `dpooled` is (B, C), `attention_mask` is bool (B, T), and dhidden is (B, T, C): you have to make
# axes, with `[:, None, :]` and `[..., None]`.  A row without any token divides by 1.
#
# ## Second blank: the mean's backward


# %%
def mean_pool_backward(dpooled, attention_mask):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return dhidden


# %%
mean_pool_backward = check(mean_pool_backward)

# %% [markdown]
# <details><summary>dhidden has dtype float64, expected float32</summary>
# A sum of a mask is int64, and float32 / int64 is float64.  Convert n: .astype(dpooled.dtype).
# </details>
#
# <details><summary>operands could not be broadcast together</summary>
# dpooled / n needs n of shape (B, 1): keepdims=True.
# </details>
#
# ## A score that a lazy model cannot please
#
# Fine-tuning sometimes **collapses**: the model gives every row the same class.  If 95 of 100 rows
# are "fine", it is 95 % accurate, and worthless.  Macro-F1 shows it.  For each label k seen on
# either side count in how many rows it is predicted, right, and both (hits):
#
#     F1_k      =  2 hits_k / (predicted_k + right_k)
#     macro-F1  =  the plain mean over all these labels
#
# By pencil, predicted a a a a b, right a a a b b:  F1_a = 2·3 / (4 + 3) = 6/7,  F1_b =
# 2·1 / (1 + 2) = 2/3,  mean 0.762.  And for the lazy model: (2·95 / 195 + 0) / 2 = 0.487.
#
# ## Third blank: macro-F1


# %%
def macro_f1(predicted, right):  # two lists of labels, equally long
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return score


# %%
macro_f1 = check(macro_f1)

# %% [markdown]
# <details><summary>My score is too high</summary>
# Do labels that were never predicted, or never right, count, with an F1 of 0?
# </details>
#
# ## What pretraining gives
#
# Twenty words: ten from the farm, ten from the sea.  Pretraining sees sentences without labels.
# Fine-tuning sees 16 with labels, which use only **five words of each**.  Then we ask about the
# other ten words.

# %%
WORLDS = {
    "farm": ("cow", "hen", "goat", "barn", "field", "hay", "plough", "milk", "corn", "fence"),
    "sea": ("ship", "whale", "crab", "sail", "wave", "net", "anchor", "salt", "shell", "gull"),
}
FORMS = ("the {} and the {} near the {}", "a {} , a {} and a {}", "no {} without {} and {}")
generator = np.random.default_rng(0)


def sentence(words):
    return str(generator.choice(FORMS)).format(*generator.choice(words, 3, replace=False))


documents = [[sentence(WORLDS["farm" if n % 2 else "sea"]) for _ in range(6)] for n in range(300)]
words = sorted({word for document in documents for line in document for word in line.split()})
tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, *words]))
rows = [tokenizer.encode_ids(line) for document in documents for line in document]
corpus = TokenCorpus(
    Path(),
    tokens=np.concatenate(rows),
    sentences=np.cumsum([0, *map(len, rows)]),
    documents=np.arange(0, len(rows) + 1, 6),
    vocab_size=len(tokenizer.vocab),
)
config = BertConfig(
    vocab_size=len(tokenizer.vocab), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=64, hidden_act="gelu_new", max_position_embeddings=32,
    initializer_range=initial_std(32), hidden_dropout_prob=0, attention_probs_dropout_prob=0,
)  # fmt: skip


def pretrain(steps):
    """Lesson 16 in short, with Muon, minibert's own choice of optimizer."""
    model = BertForPreTraining(config, ops="numpy")
    model.initialize(Key(1))
    training = TrainConfig(steps=steps)
    run = SimpleNamespace(
        model=model,
        optimizer=make_optimizer(training, model),
        config=training,
        position=SimpleNamespace(step=0),
    )
    batches = BatchSource(
        corpus.all_documents(), tokenizer.vocab,
        batch_size=16, max_length=32, key=Key(0), mask_probability=0.3,
    )  # fmt: skip
    for step in range(steps):
        micro = [batches.batch(step)]
        rate = 1e-2 * warmup_linear((step + 1) / (steps + 1), 0.1)
        update_weights(run, micro, loss_weights(micro, training), rate, Key(0).child("step", step))
    return model


def examples(count, part):
    """Return labelled sentences that use a part of each world's words."""
    worlds = [list(WORLDS)[n % 2] for n in range(count)]
    return [TextExample(sentence(WORLDS[world][part]), None, world, 1) for world in worlds]


known, unknown = slice(0, 5), slice(5, 10)
labelled, same_words, other_words = examples(16, known), examples(80, known), examples(80, unknown)
task = Classify(tokenizer, max_length=32).fitted(labelled)


class Both:
    """A watcher: measures accuracy after every epoch, on both kinds of sentences."""

    def __init__(self, model):
        self.model, self.measured = model, []

    def stepped(self, epoch, done, total, loss):
        pass

    def finished(self, epoch):
        self.measured.append([self.accuracy(same_words), self.accuracy(other_words)])

    def accuracy(self, asked):
        answers = [answer.label for answer in predict(task, self.model, asked)]
        return accuracy(answers, [example.label for example in asked])


def finetune(seed, pretrained=None):
    model = task.model(config, "numpy")
    model.params.initialize(Key(seed), config.initializer_range)
    for parameter in model.params:
        if pretrained is not None and parameter.name.startswith("bert."):  # all but the head
            parameter.value[...] = pretrained.params[parameter.name].value
    watcher = Both(model)
    settings = FineTuneConfig(epochs=6, batch_size=4, learning_rate=3e-3, seed=seed)
    train_task(task, model, labelled, same_words, settings, watcher)
    return np.array(watcher.measured)  # (epochs, 2)


pretrained = pretrain(200)
SEEDS = range(5)
helped = np.array([finetune(seed, pretrained) for seed in SEEDS])  # (seeds, epochs, 2)
fresh = np.array([finetune(seed) for seed in SEEDS])

with picture("17_finetuning.png", 7.5, 3.6) as figure:
    for column, axes in enumerate(figure.subplots(1, 2, sharey=True)):
        for runs, color, marker in ((helped, "#0072B2", "o"), (fresh, "#D55E00", "s")):
            epochs = range(1, runs.shape[1] + 1)
            axes.plot(epochs, 100 * runs[..., column].T, color=color, linewidth=0.7, alpha=0.6)
            middle = 100 * np.median(runs[..., column], axis=0)
            axes.plot(epochs, middle, color=color, marker=marker, linewidth=2)
        axes.set_title(("words that had labels", "words that never had")[column])
        axes.set_xlabel("epoch")
        axes.set_ylim(0, 104)
    figure.axes[0].set_ylabel("sentences told apart, %")
    figure.axes[0].text(1, 12, "thin: each of five seeds\nthick: their median", color="#5F5F5F")
    axes.text(6, 88, "pretrained", color="#0072B2", ha="right")
    axes.text(6, 30, "fresh", color="#D55E00", ha="right")

for name, runs in (("pretrained", helped), ("fresh", fresh)):
    last = runs[:, -1, 1].tolist()
    print(
        f"{name:10} other words: median {median(last):.0%}, "
        f"from {min(last):.0%} to {max(last):.0%} over {len(last)} seeds"
    )

# %% [markdown]
# On the left even the fresh model gets there in the end.  On the right it has no chance: no label
# ever touched these words, so for it they are random vectors.  The pretrained model has 100 %,
# because while filling blanks it had put the words of each world close together; the head only had
# to learn which side is called what.  That is what pretraining gives: labels for a few words are
# labels for their relatives.  (This toy shows it in its purest form;
# `benchmarks/pretraining_helps.py` measures it on film reviews.)
#
# **Look at the thin lines.**  They differ by the seed alone: another head, another order of rows.
# After epoch 3 one seed has almost everything, another nothing.  With few labels this is the rule,
# and some seeds collapse for good.  So: train several, and report **median and spread**; the best
# of ten seeds says how lucky you were.  `minibert finetune --seeds 5` does this.
#
# **Keep the best epoch.**  After each epoch the model is scored on *dev* rows, which it does not
# train on, and the best is kept.  Then the dev score has been used for choosing, so what you
# publish needs a third set, which nothing was chosen by.
#
# **Freezing and layer-wise rates.**  The lower layers know about words in general and have less to
# change.  `--freeze-embeddings` and `--freeze-layers 6` keep them as they are, and save their
# backward.  Softer is `--layer-decay 0.9`: layer l of L has the rate times 0.9^(L - l), the
# embeddings 0.9^(L + 1), the head 1.
#
# ## A question to end with
#
# Freeze everything but the head, and fine-tune pretrained *and* fresh.  Which of them still learns
# the words that had labels?  And those that never had?
#
# <details><summary>Answer</summary>
# Pretrained: both, if pretraining happened to lay the classes along directions that one linear
# layer can read.  Here it did, as the worlds are the main thing in the texts.  Fresh: the head can
# learn some of the labelled words by heart from random vectors, and nothing about the others.
# Frozen models tell you what is in a model already; fine-tuning all of it adds what is missing.
# </details>
#
# minibert's own: `minibert lesson show 17`, or the files `minibert/tasks/answer.py`,
# `minibert/layers/pooling.py` and `minibert/scores/classification.py`.
