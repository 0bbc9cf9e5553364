"""Checks of the fine-tuned models: the operations that only they use, and each model whole."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from minibert.arrays import IGNORED, Array
from minibert.gradcheck import GradCheckError
from minibert.keys import Key
from minibert.layers.cosine import cosine_backward, cosine_forward
from minibert.layers.cross_entropy import (
    row_weights,
    weighted_cross_entropy_backward,
    weighted_cross_entropy_forward,
)
from minibert.layers.pooling import mean_pool_backward, mean_pool_forward
from minibert.layers.squared_error import squared_error_backward, squared_error_forward
from minibert.models.answering import BertForQuestionAnswering
from minibert.models.classification import BertForSequenceClassification
from minibert.models.classifier import Classifier, TaskBatch
from minibert.models.similarity import BertForSimilarity
from minibert.models.tagging import BertForTokenClassification
from minibert.ops import Ops
from minibert.params import Scope
from tests.gradients.models import small_config
from tests.gradients.operations import EASY_LABELS, LABELS
from tests.gradients.problems import (
    HARD,
    Problem,
    Setting,
    all_together,
    build,
    by_hand,
    draw,
    gradient,
    layer,
    normal,
    pair,
    parameters_of,
    same,
    total,
    upstream,
)  # fmt: skip

WEIGHTS = np.array([0.5, 3.0, 1.25, 2.0])  # of the classes
UNIT = 1.7


@gradient("squared_error", "squared_error_backward")
def squared_error(ops: Ops, setting: Setting) -> Problem:
    target = normal(2, 7).astype(setting.dtype)
    return pair(
        lambda x: squared_error_forward(x, target),
        lambda dloss, x: squared_error_backward(dloss, x, target),
        {"x": normal(1, 7)},
        setting,
    )


@gradient("mean_pool", "mean_pool_backward", "token_counts")
def mean_pool(ops: Ops, setting: Setting) -> Problem:
    """Rows of 4, 2 and 1 tokens of 4, and one of padding alone."""
    mask = np.arange(4) < (np.full((4, 1), 4) if setting.easy else np.array([[4], [2], [1], [0]]))
    return pair(
        lambda hidden: mean_pool_forward(hidden, mask),
        lambda dpooled, hidden: mean_pool_backward(dpooled, mask),
        {"hidden": normal(1, 4, 4, 3)},
        setting,
    )


@gradient("cosine", "cosine_backward", "cosine_forward")
def cosine(ops: Ops, setting: Setting) -> Problem:
    return pair(
        lambda a, b: cosine_forward(a, b)[0],
        lambda dcosine, a, b: cosine_backward(dcosine, cosine_forward(a, b)[1]),
        {"a": normal(1, 5, 3, std=2.0), "b": normal(2, 5, 3)},
        setting,
    )


@by_hand("cosine of vectors without direction", "cosine_backward", "cosine_forward")
def short_vectors(ops: Ops) -> None:
    """Divided by 1e-12, (3e-13, 0) becomes (0.3, 0): no unit vector, so it may grow, not only turn.

    Against (0.6, 0.8) the cosine is 0.18, of which that one gets (0.3, 0) - 0.18 (0.6, 0.8).
    """
    short, long = np.array([[3e-13, 0.0]]), np.array([[0.6, 0.8]])
    grow, turn = [[0.6e12, 0.8e12]], [[0.192, -0.144]]
    for vectors, wanted in (((short, long), (grow, turn)), ((long, short), (turn, grow))):
        gradients = cosine_backward(np.ones(1), cosine_forward(*vectors)[1])
        for found, right in zip(gradients, wanted, strict=True):
            same("the gradient beside a vector without direction", found, right)


@gradient("weighted_cross_entropy", "weighted_cross_entropy_backward",
          "weighted_cross_entropy_forward", "row_weights")  # fmt: skip
def weighted_cross_entropy(ops: Ops, setting: Setting) -> Problem:
    labels, weights = EASY_LABELS if setting.easy else LABELS, WEIGHTS.astype(setting.dtype)
    return pair(
        lambda logits: weighted_cross_entropy_forward(logits, labels, weights)[0],
        lambda dloss, logits: weighted_cross_entropy_backward(
            dloss, weighted_cross_entropy_forward(logits, labels, weights)[1], labels, weights
        ),
        {"logits": normal(1, 7, 4)},
        setting,
    )


@by_hand("losses of tasks stay float32", "squared_error_backward",
         "weighted_cross_entropy_backward", "row_weights")  # fmt: skip
def single_precision(ops: Ops) -> None:
    """A float64 scalar as dloss must not make float64 gradients of float32 arrays."""
    dloss: Any = np.float64(0.3)
    logits, weights = normal(1, 7, 4).astype(np.float32), WEIGHTS.astype(np.float32)
    _, probs = weighted_cross_entropy_forward(logits, LABELS, weights)
    for found in (
        squared_error_backward(dloss, logits[:, 0], logits[:, 1]),
        weighted_cross_entropy_backward(dloss, probs, LABELS, weights),
        row_weights(LABELS, weights),
    ):
        if found.dtype != np.float32:
            raise GradCheckError(f"a gradient of float32 arrays is wrong: it is {found.dtype}")


@gradient("Classifier", "Classifier.backward", "Classifier.forward")
def classifier(ops: Ops, setting: Setting) -> Problem:
    def make(scope: Scope) -> Classifier:
        return Classifier(scope, 5, 3, 0.3, ops)

    return layer(make, {"x": normal(1, 2, 4, 5), "key": Key(3)}, setting)


@by_hand("Classifier without a key drops nothing", "Classifier.backward", "Classifier.forward")
def classifier_without_dropout(ops: Ops) -> None:
    part, _ = build(lambda scope: Classifier(scope, 5, 3, 0.3, ops))
    x, dlogits = normal(1, 4, 5), normal(2, 4, 3)
    logits, cache = part.forward(x, None)
    same("the logits", logits, x @ part.dense.weight.value.T + part.dense.bias.value)
    same("the gradient of x", part.backward(dlogits, cache), dlogits @ part.dense.weight.value)


@by_hand("weights of rows by hand", "row_weights", "weighted_cross_entropy_backward")
def weights_of_rows(ops: Ops) -> None:
    labels = np.array([2, IGNORED, 0], np.int32)
    same("the weights of the rows", row_weights(labels, WEIGHTS), [1.25, 0.0, 0.5])
    one_class = row_weights(np.minimum(labels, 0), np.array([3.0]))
    same("the weights of rows of one class", one_class, [3.0, 0.0, 3.0])


class Rows(NamedTuple):
    """Four rows of up to six tokens."""

    input_ids: Array
    token_type_ids: Array
    attention_mask: Array


def rows(setting: Setting) -> Rows:
    """Padding and ids that repeat, or neither if it is to be easy."""
    lengths = np.array([6, 6, 6, 6] if setting.easy else [6, 3, 5, 4])
    mask = np.arange(6) < lengths[:, None]
    ids = (
        (np.arange(24).reshape(4, 6) * 5) % 13
        if setting.easy
        else np.random.default_rng(3).integers(5, 11, (4, 6))
    )
    types = (mask & (np.arange(6) > 2)).astype(np.int32)
    return Rows(np.where(mask, ids, 0).astype(np.int32), types, mask)


def task_problem(model: Any, batch: TaskBatch, setting: Setting) -> Problem:
    """The problem of a whole model, whose loss is scaled by a number that is not 1."""
    draw(model.params, setting, std=0.5)
    dloss, key = upstream(0.0, setting), Key(6)
    _, cache = model.forward(batch, key)
    model.backward(dloss, cache)
    tensors = parameters_of(model.params)
    key_biases = tuple(name for name in tensors if name.endswith("self.key.bias"))
    return Problem(lambda: total(dloss, model.forward(batch, key)[0].loss), tensors, key_biases)


@gradient("sequence classification", "BertForSequenceClassification.backward",
          "BertForSequenceClassification.forward", "Bert.backward",
          compare=all_together)  # fmt: skip
def sequence_classification(ops: Ops, setting: Setting) -> Problem:
    model = BertForSequenceClassification(
        small_config(), ["a", "b", "c", "d"], ops, setting.dtype, class_weights=WEIGHTS.tolist()
    )
    labels = [1, 2, 0, 3] if setting.easy else [1, IGNORED, 3, 1]
    return task_problem(model, TaskBatch(*rows(setting), np.array(labels, np.int32)), setting)


@gradient("sequence regression", "BertForSequenceClassification.backward",
          "BertForSequenceClassification.forward", compare=all_together)  # fmt: skip
def sequence_regression(ops: Ops, setting: Setting) -> Problem:
    model = BertForSequenceClassification(small_config(), (), ops, setting.dtype)
    model.unit = UNIT
    labels = normal(5, 4, mean=1.0).astype(setting.dtype)
    return task_problem(model, TaskBatch(*rows(setting), labels), setting)


@gradient("token classification", "BertForTokenClassification.backward",
          "BertForTokenClassification.forward", "Bert.backward", "Bert.forward",
          compare=all_together)  # fmt: skip
def token_classification(ops: Ops, setting: Setting) -> Problem:
    model = BertForTokenClassification(
        small_config(), ["a", "b", "c", "d"], ops, setting.dtype, class_weights=WEIGHTS.tolist()
    )
    given = rows(setting)
    labels = np.random.default_rng(4).integers(0, 4, given.input_ids.shape)
    if not setting.easy:
        labels[:, 0] = IGNORED
        labels[1, 2] = IGNORED
        labels[~given.attention_mask] = IGNORED
    return task_problem(model, TaskBatch(*given, labels.astype(np.int32)), setting)


@gradient("question answering", "BertForQuestionAnswering.backward",
          "BertForQuestionAnswering.forward", compare=all_together)  # fmt: skip
def question_answering(ops: Ops, setting: Setting) -> Problem:
    """An answer of one token, one of several, none ([CLS]), and a row that is ignored."""
    model = BertForQuestionAnswering(small_config(), ops, setting.dtype)
    given = rows(setting)
    allowed = given.attention_mask & (np.arange(6) != 1)
    labels = [[2, 4], [2, 2], [0, 0], [IGNORED] * 2]
    if setting.easy:
        allowed, labels[3] = given.attention_mask, [3, 5]
    return task_problem(
        model, TaskBatch(*given, np.array(labels, np.int32), allowed), setting
    )  # fmt: skip


@gradient("similarity", "BertForSimilarity.backward", "BertForSimilarity.forward",
          "mean_pool_backward", "cosine_backward", "Bert.backward",
          compare=all_together)  # fmt: skip
def similarity(ops: Ops, setting: Setting) -> Problem:
    """Three layers, so that the second is not the last as well."""
    model = BertForSimilarity(small_config(num_hidden_layers=3), ops, setting.dtype)
    labels = np.array([0.2, 0.9], setting.dtype)
    return task_problem(model, TaskBatch(*rows(setting), labels), setting)


@by_hand("frozen from the embeddings up", "Bert.backward", "Bert.lowest_trained")
def frozen_below(ops: Ops) -> None:
    """Frozen below layer k, those above keep their gradient, and nothing below is computed.

    What a backward below would read is taken away, so it would stop with an error.
    """
    model = BertForTokenClassification(small_config(num_hidden_layers=3), ["a", "b"], ops, "f8")
    draw(model.params, HARD, std=0.5)
    given = rows(HARD)
    _, whole = model.forward(TaskBatch(*given, given.attention_mask.astype(np.int32)))
    model.backward(0.5, whole)
    wanted = model.params.grad.copy()
    model.bert.backward(None, None, whole.bert)  # nothing fed back adds nothing
    same("the gradient after nothing was fed back", model.params.grad, wanted)
    below = ["bert.embeddings.", *(f"bert.encoder.layer.{k}." for k in range(3))]
    for k in range(4):
        frozen = tuple(below[: k + 1])
        model.params.freeze(lambda name, frozen=frozen: name.startswith(frozen))
        model.params.zero_grad()
        nothing: Any = None
        bert = whole.bert._replace(
            embeddings=nothing, layers=(nothing,) * k + whole.bert.layers[k:]
        )
        model.backward(0.5, whole._replace(bert=bert))
        for start, stop, parameter in model.params.layout:
            right = wanted[start:stop] * (not parameter.name.startswith(frozen))
            same(f"{parameter.name}, frozen below layer {k}", model.params.grad[start:stop], right)


@by_hand("a frozen layer in the middle", "Bert.backward", "Bert.lowest_trained")
def frozen_between(ops: Ops) -> None:
    """What is frozen hands its gradient on all the same, to whatever is trained below it."""
    model = BertForSimilarity(small_config(num_hidden_layers=3), ops, "f8")
    draw(model.params, HARD, std=0.5)
    _, cache = model.forward(TaskBatch(*rows(HARD), np.array([0.2, 0.9])))
    model.backward(0.5, cache)
    wanted = model.params.grad.copy()
    for frozen in ("bert.encoder.layer.1.", "bert.encoder.layer.0.attention.",
                   "bert.embeddings.word", "bert.embeddings.LayerNorm"):  # fmt: skip
        model.params.unfreeze()
        model.params.freeze(lambda name, frozen=frozen: name.startswith(frozen))
        model.params.zero_grad()
        model.backward(0.5, cache)
        for start, stop, parameter in model.params.layout:
            right = wanted[start:stop] * (not parameter.name.startswith(frozen))
            same(f"{parameter.name}, {frozen} frozen", model.params.grad[start:stop], right)
