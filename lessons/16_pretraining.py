# %% [markdown]
# # Lesson 16: pretraining on your laptop
#
# *30 minutes.  Before it: lessons 11, 12, 13 and 14.*
#
# You have all the parts: rows with blanks, an encoder, two heads, gradients, an optimizer.  This
# lesson makes a run of them, and then teaches what takes longer to learn: to look at a curve and
# say what the model knows at this moment, and whether something is broken.
#
# You will write the step, and the height of the most telling line in the picture.  To check what
# you wrote, in a terminal:
#
#     minibert lesson check 16
#
# or run the cells below one after the other.

# %%
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from minibert.config import BertConfig, TrainConfig, initial_std
from minibert.course import check, picture
from minibert.data.batches import BatchSource
from minibert.data.corpus import TokenCorpus
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining
from minibert.tokenizer import Tokenizer, Vocabulary
from minibert.tokenizer.vocab import SPECIAL_TOKENS
from minibert.training.adamw import AdamW
from minibert.training.evaluate import evaluate
from minibert.training.loop import loss_weights
from minibert.training.schedule import warmup_linear

# %% [markdown]
# ## What a step is
#
# `training_step` in `minibert/training/loop.py` is a page long.  What it does, in its order:
#
#     batches        the micro-batches that belong to step s            lesson 12
#     weights        what one masked token and one pair count for       lesson 14
#     rate           peak · warmup_linear(progress)                     lesson 14
#     outputs, norm  update_weights(…)                                  first blank
#     record         losses, accuracies, rate, norm: a line of metrics.jsonl
#
# The blank is its heart.  Given are
#
# | name | what it is |
# |---|---|
# | run | holds `run.model`, `run.optimizer` and `run.config.clip_norm` |
# | batches | a list of micro-batches |
# | weights | passed on to every forward |
# | learning_rate | that of this step |
# | key | where this step's randomness comes from |
#
# and these are the calls that you need:
#
#     run.model.params.zero_grad()                    all gradients become 0
#     output, cache = run.model.forward(batch, key, weights)
#     run.model.backward(cache)                       ADDS to the gradients
#     run.model.ops.global_norm(run.model.params.grad)
#     run.optimizer.update(learning_rate, grad_scale=scale)
#
# Micro-batch number 0 runs forward with `key.child("micro", 0)`, number 1 with
# `key.child("micro", 1)`, and so on: with one key for all, each would drop the same neurons.
# Everything random in step s follows from the run's seed and s.  So a run that is stopped and
# **resumed** needs only the weights, the two moments and the number of steps to go on, with the
# same bytes as if it had never stopped.
#
# Return a list of the outputs, and the norm **before** clipping: that is the one worth watching.
#
# By pencil.  The check's small case has two weights and no dropout:
#
#     weights [1, 2]     gradient left over from the step before [1, 1]     clip_norm 1     rate 0.5
#     micro-batch 0 has the gradient [-3, 0], micro-batch 1 has [0, 4]
#
#     cleared [0, 0]  →  [-3, 0]  →  [-3, 4]      norm 5      scale 1/5
#     weights [1, 2] - 0.5 · 1/5 · [-3, 4]  =  [1.3, 1.6]
#
# (The check uses plain descent in place of AdamW, so that the numbers can be followed.)
#
# ## First blank: the step


# %%
def update_weights(run, batches, weights, learning_rate, key):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return outputs, norm


# %%
update_weights = check(update_weights)

# %% [markdown]
# <details><summary>My weights are right in the first step only</summary>
# Backward adds.  What did the step before leave in the gradients?
# </details>
#
# <details><summary>The norm is 4, and should be 5</summary>
# The gradient of micro-batch 0 is lost.  Where does zero_grad() stand?
# </details>
#
# <details><summary>Long gradients are right, short ones are not</summary>
# The scale is at most 1: min(1, clip_norm / norm).
# </details>
#
# ## What the curve means
#
# The loss of masked words is the mean of -ln p, with p what the model gave to the right token.  It
# passes three levels.
#
# **ln V: it knows nothing.**  A fresh model gives each of V tokens about 1/V, so its loss is
# -ln(1/V) = ln V.  For V = 8,192 that is 9.01.  *Look at this number first.*  If your run begins
# with 15, the fresh weights are too large, or the loss is not divided by what you think it is.
#
# **The unigram entropy: it has counted.**  The easiest thing to learn, the decoder's bias alone can
# do it, is how often each token occurs.  Let p be a token's share of the text.  A model that gives
# every token its share, whatever stands around the blank, has the loss -ln p there; and it meets
# that token with the share p.  On average:
#
#     entropy  =  - Σ p ln p        over the tokens that occur
#
# By pencil, with the counts [2, 1, 0, 1]:  p = ½, ¼, ¼;  entropy = ½ · 0.693 + 2 · ¼ · 1.386 =
# 1.040.  A token that never occurs is never met and adds 0.  (ln 0 is minus infinity, and NumPy's
# 0 · ln 0 is nan, so leave these out first.)
#
# **Below it: it looks around.**  No model that ignores the rest of the row gets far below this
# line (where a word stands helps a little).  Whoever does has used attention to get something out
# of the neighbours.  Many runs stay at the line for a while: attention begins with almost equal
# weights, and has to form.
#
# ## Second blank: the level of a model that counts
#
# `counts`, of shape (V,), holds how often each token occurs.  Return a plain float.


# %%
def unigram_entropy(counts):
    # >>> edit between the marks
    raise NotImplementedError
    # <<<
    return entropy


# %%
unigram_entropy = check(unigram_entropy)

# %% [markdown]
# <details><summary>entropy is nan</summary>
# Some counts are 0.  Take counts[counts > 0].
# </details>
#
# ## A run of a few seconds
#
# Eight animals, each with its sound, its home and its food: 400 little documents.  The model is one
# layer of width 32.  (Its GELU is the tanh form of lesson 4, which NumPy computes faster.)

# %%
ANIMALS = (
    "dog barks kennel meat", "cat meows basket fish", "cow moos barn grass", "owl hoots tree mice",
    "duck quacks pond bread", "bee hums hive honey", "frog croaks marsh flies",
    "mouse squeaks hole cheese",
)  # fmt: skip
FORMS = (
    "the {which} {animal} {sound} in the {home}",
    "every {time} the {animal} eats {food}",
    "a {which} {animal} lives in the {home}",
    "it likes {food} and {sound} at {time}",
)
generator = np.random.default_rng(0)


def sentence(facts):
    animal, sound, home, food = facts.split()
    which = generator.choice(["old", "young", "small", "big"])
    time = generator.choice(["dawn", "noon", "night", "evening"])
    form = str(generator.choice(FORMS))
    return form.format(animal=animal, sound=sound, home=home, food=food, which=which, time=time)


documents = [[sentence(ANIMALS[number % 8]) for _ in range(8)] for number in range(400)]
words = sorted({word for document in documents for line in document for word in line.split()})
tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, *words]))
rows = [tokenizer.encode_ids(line) for document in documents for line in document]
corpus = TokenCorpus(
    Path(),
    tokens=np.concatenate(rows),
    sentences=np.cumsum([0, *map(len, rows)]),  # where each begins
    documents=np.arange(0, len(rows) + 1, 8),
    vocab_size=len(tokenizer.vocab),
)
training, held_out = corpus.split(0.1, Key(0))


def source(documents, name, rows):
    key = Key(0).child(name)
    return BatchSource(documents, tokenizer.vocab, batch_size=rows, max_length=24, key=key)


batches, test = source(training, "training", 16), source(held_out, "test", 64).batch(0)


def train(steps, batch_of, peak=1e-2):
    """Train a fresh model; return the held-out losses along the way, and the last step's own."""
    V, C = len(tokenizer.vocab), 32
    config = BertConfig(
        vocab_size=V, hidden_size=C, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=2 * C, hidden_act="gelu_new", max_position_embeddings=24,
        initializer_range=initial_std(C), hidden_dropout_prob=0, attention_probs_dropout_prob=0,
    )  # fmt: skip
    model = BertForPreTraining(config, ops="numpy")
    model.initialize(Key(1))
    run = SimpleNamespace(
        model=model,
        optimizer=AdamW(model.params, model.ops),
        config=TrainConfig(steps=steps),
        position=SimpleNamespace(step=0),
    )
    measured = [(0, evaluate(model, [test]))]
    for step in range(steps):
        micro = [batch_of(step)]
        weights = loss_weights(micro, run.config)
        rate = peak * warmup_linear((step + 1) / (steps + 1), 0.1)
        outputs, _ = update_weights(run, micro, weights, rate, Key(0).child("step", step))
        run.position.step = step + 1
        if run.position.step % 20 == 0:
            measured.append((run.position.step, evaluate(model, [test])))
    return measured, outputs[-1].masked_loss / outputs[-1].masked_count


# %% [markdown]
# Beside the right run goes one with a bug.  In it the labels slip: every blank has the label of
# another one.  No error is raised, and the loss falls.  Where will it end?


# %%
def slipped(step):
    batch = batches.batch(step)
    return batch._replace(masked_labels=np.roll(batch.masked_labels, 7))


STEPS = 200
right, _ = train(STEPS, batches.batch)
wrong, _ = train(STEPS, slipped)
nothing, counted = math.log(len(tokenizer.vocab)), unigram_entropy(corpus.token_counts())

with picture("16_pretraining.png", 7.5, 4) as figure:
    axes = figure.subplots()
    for level, text in (
        (nothing, "knows nothing: ln V"),
        (counted, "has counted: unigram entropy"),
    ):
        axes.axhline(level, color="#5F5F5F", linestyle="--", linewidth=1)
        axes.text(STEPS, level + 0.05, text, color="#5F5F5F", ha="right")
    for measured, color, marker, text, height in (
        (right, "#0072B2", "o", "the right run looks around", 2.95),
        (wrong, "#D55E00", "s", "labels that slipped", 3.33),
    ):
        steps = [step for step, _ in measured]
        losses = [scores["eval_mlm_loss"] for _, scores in measured]
        axes.plot(steps, losses, color=color, marker=marker, markersize=4)
        axes.text(105, height, text, color=color)
    axes.set_xlabel("step")
    axes.set_ylabel("loss of masked words, nats")
    axes.set_title("held-out loss of two runs")

for name, measured in (("right", right), ("slipped", wrong)):
    first, last = measured[0][1], measured[-1][1]
    print(
        f"{name:8} loss {first['eval_mlm_loss']:.2f} → {last['eval_mlm_loss']:.2f}, "
        f"next sentence {last['eval_nsp_accuracy']:.0%}"
    )
print(f"levels: ln V {nothing:.2f}, unigram entropy {counted:.2f}")

# %% [markdown]
# The slipped run goes down, looks healthy for a while, and stays at the line: what is around a
# blank says nothing about another blank's label, so there is only counting left to learn.  **A run
# that falls to the unigram entropy and stays there has a bug on the way from the neighbours to the
# label**: labels, positions, attention mask, a residual.  (Or it is young: a real run may need some
# hundred steps to leave the line.)
#
# Next sentence is still near 50 % in both.  It takes longer, since two sentences have to be
# compared; in minibert's five-minute run it gets from 52 to 77 %.
#
# ## Bug or bad luck?
#
# In this order, from seconds to minutes:
#
# 1. **The first loss** is about ln V, and ln 2 = 0.69 for the pairs.
# 2. **One batch again and again**, without dropout: the loss has to go to almost 0, as a batch can
#    be learned by heart.  If it does not, it is a bug and no bad luck.
# 3. **The gradient norm**, before clipping.  Single peaks are bad luck, and what clipping is for.
#    Growing over hundreds of steps, it says that the rate is too high; exactly 0, that something is
#    cut off.
# 4. **Another seed.**  Luck changes with it; bugs do not.

# %%
_, last = train(80, lambda step: batches.batch(0))
print(f"one batch, 80 times: loss {last:.3f}")

# %% [markdown]
# The slipped run would pass number 2: by heart one learns nonsense as well.  That is why the line
# in the picture is worth having.
#
# **Held-out documents.**  Our curves are measured on texts that the model never sees in training.
# Whole documents are kept apart, not sentences: neighbours share so many words that they would give
# the answers away.  When the training loss falls and the held-out loss rises, the model learns the
# text by heart.
#
# ## Your own
#
#     minibert pretrain --minutes 5 --out runs/first           text that came with Python
#     minibert pretrain books/*.txt --minutes 60 --out runs/books
#     minibert pretrain --resume --out runs/first              after Ctrl-C
#
# Each draws `report.png`: the loss with both levels, the two accuracies, and below them the rate
# (up, then down), the gradient norm and the speed.  Noisy lines are training, circles held-out
# text.  `best/` holds the model of the lowest held-out loss.  (These runs use Muon, a younger
# optimizer, for the matrices; `--optimizer adamw` is the one of lesson 14.)
#
# **Numbers that articles have wrong.**  BERT was pretrained with a *peak* rate of **1e-4**, reached
# after 10,000 of 1,000,000 steps; 2e-5 to 5e-5 are for fine-tuning.  A batch had 256 rows of 512
# tokens, that is about **128,000 tokens**, not sentences.  With 3.3 billion words it saw everything
# about **40 times**.  Small models want higher rates: ours had 1e-2.
#
# ## A question to end with
#
# You pretrain with V = 8,192.  The loss begins at 9.0, falls to 6.2, and stays there for 5,000
# steps.  The report's line "knowing how often each word occurs" is at 6.2.  On one batch, without
# dropout, the loss goes to 0.01.  What do you look at first?
#
# <details><summary>Answer</summary>
# The start is right, ln 8,192 = 9.01, and the parts can learn: forward, backward and optimizer work
# together.  But nothing around a blank helps to fill it.  So look at whether the data fit together:
# print one row with its blanks and labels, and read it.  Do the positions point at the blanks?  Are
# the words of a row in their order?  After that, the rate: one that is too high can hold a model at
# the line too.
# </details>
#
# minibert's own: `minibert lesson show 16`, or the files `minibert/training/loop.py` and
# `minibert/training/run.py`.
