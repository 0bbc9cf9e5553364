"""What is mutated: every hand-written backward, its helpers, and what forward keeps for it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from types import FunctionType
from typing import NamedTuple

from tests.mutation.operators import method


class Target(NamedTuple):
    """A function to mutate.

    A helper that forward and backward share is mutated as the backward sees it, since a change of
    both would be another function with a right gradient.  ``through`` leads to it: the backward,
    then the functions between, each of which calls the next.
    """

    module: str
    name: str  # a function, or Class.method
    within: Callable[[ast.AST], list[ast.AST]] | None = None  # the parts to change; None: all
    through: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.name} in {self.through[0]}" if self.through else self.name

    @property
    def function(self) -> FunctionType:
        return find(self.module, self.name)

    @property
    def checked_as(self) -> str:
        """The function whose checks are likeliest to see a change."""
        return self.through[0] if self.through else self.name


def find(module: str, name: str) -> FunctionType:
    """Return a module's function or a class's method."""
    found = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    assert isinstance(found, FunctionType), f"{name} is not a function"
    return found


def cache(tree: ast.AST) -> list[ast.AST]:
    """What a forward puts into its cache."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [call for call in calls if method(call).endswith("Cache")]


def results(*numbers: int) -> Callable[[ast.AST], list[ast.AST]]:
    """Some of what a forward returns, by place: those that only backward reads."""

    def within(tree: ast.AST) -> list[ast.AST]:
        returns = (node.value for node in ast.walk(tree) if isinstance(node, ast.Return))
        tuples = [value for value in returns if isinstance(value, ast.Tuple)]
        return [value.elts[number] for value in tuples for number in numbers]

    return within


def assigned(name: str) -> Callable[[ast.AST], list[ast.AST]]:
    """The statements that give a variable its value."""
    return lambda tree: [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
    ]


def in_layers(file: str, *names: str) -> list[Target]:
    return [Target(f"minibert.layers.{file}", name) for name in names]


def in_models(file: str, *names: str) -> list[Target]:
    return [Target(f"minibert.models.{file}", name) for name in names]


def shared(file: str, helper: str, *through: str) -> Target:
    return Target(f"minibert.layers.{file}", helper, through=through)


def kept(module: str, *names: str) -> list[Target]:
    return [Target(f"minibert.{module}", f"{name}.forward", cache) for name in names]


TARGETS = [
    *in_layers("linear", "linear_backward", "Linear.backward"),
    *in_layers("softmax", "softmax_backward"),
    *in_layers("layernorm", "layernorm_backward", "LayerNorm.backward"),
    *in_layers("add_norm", "add_norm_backward", "AddNorm.backward"),
    *in_layers("dropout", "dropout_backward"),
    *in_layers("activations", "gelu_backward", "gelu_tanh_backward", "relu_backward",
               "tanh_backward"),
    *in_layers("embedding", "lookup_backward", "embedding_backward"),
    *in_layers("attention", "attention_backward", "scores_backward", "weighted_mean_backward",
               "MultiHeadAttention.backward"),
    *in_layers("cross_entropy", "cross_entropy_backward", "vocab_cross_entropy_backward",
               "weighted_cross_entropy_backward"),
    *in_layers("squared_error", "squared_error_backward"),
    *in_layers("pooling", "mean_pool_backward"),
    *in_layers("cosine", "cosine_backward"),
    *in_layers("feedforward", "feedforward_backward", "FeedForward.backward"),
    *in_layers("encoder_layer", "EncoderLayer.backward", "take_rows_backward"),
    *in_models("heads", "MaskedLMHead.backward", "NextSentenceHead.backward"),
    *in_models("bert", "Pooler.backward", "Bert.backward"),
    *in_models("embeddings", "Embeddings.backward"),
    *in_models("pretraining", "BertForPreTraining.backward"),
    *in_models("classifier", "Classifier.backward"),
    *in_models("classification", "BertForSequenceClassification.backward"),
    *in_models("tagging", "BertForTokenClassification.backward"),
    *in_models("answering", "BertForQuestionAnswering.backward"),
    *in_models("similarity", "BertForSimilarity.backward"),
    Target("minibert.params", "Parameter.accumulate"),
    # what they ask for a number
    *in_layers("cross_entropy", "row_weights"),
    *in_models("bert", "Bert.lowest_trained"),
    # helpers, as a backward uses them
    shared("dropout", "dropout_forward", "dropout_backward"),
    shared("dropout", "keep_mask", "dropout_backward", "dropout_forward"),
    shared("attention", "masked_scores", "attention_backward"),
    shared("attention", "scores_forward", "attention_backward", "masked_scores"),
    shared("attention", "split_heads", "attention_backward"),
    shared("attention", "merge_heads", "attention_backward"),
    shared("activations", "erfc", "gelu_backward"),
    shared("pooling", "token_counts", "mean_pool_backward"),
    # what forward computes for backward alone
    Target("minibert.layers.attention", "attention_forward", assigned("lse")),
    Target("minibert.layers.layernorm", "layernorm_forward", results(1, 2)),
    Target("minibert.layers.cross_entropy", "vocab_cross_entropy_forward", results(2)),
    Target("minibert.layers.cosine", "cosine_forward", cache),
    *kept("layers.layernorm", "LayerNorm"),
    *kept("layers.add_norm", "AddNorm"),
    *kept("layers.attention", "MultiHeadAttention"),
    *kept("layers.feedforward", "FeedForward"),
    *kept("layers.encoder_layer", "EncoderLayer"),
    *kept("models.heads", "MaskedLMHead", "NextSentenceHead"),
    *kept("models.bert", "Pooler", "Bert"),
    *kept("models.embeddings", "Embeddings"),
    *kept("models.pretraining", "BertForPreTraining"),
    *kept("models.classifier", "Classifier"),
    *kept("models.classification", "BertForSequenceClassification"),
    *kept("models.tagging", "BertForTokenClassification"),
    *kept("models.answering", "BertForQuestionAnswering"),
    *kept("models.similarity", "BertForSimilarity"),
]  # fmt: skip

SAME_SHAPE = (
    ("dy", "x_hat", "dx_hat"),
    ("mean", "mean_x_hat", "rstd", "variance"),
    ("x_hat", "centred"),
    ("logits", "shifted", "x"),
    ("dweight", "dbias", "weight"),
    ("self.weight", "self.bias"),
    ("dx", "dresidual"),
    ("ds", "dx"),
    ("q", "k", "v", "dcontext"),
    ("qh", "kh", "vh", "dctx"),
    ("dq", "dk", "dv"),
    ("dk", "cache.k"),
    ("probs", "dprobs", "dscores"),
    ("cache.query", "cache.key", "cache.value"),
    ("self.query", "self.key", "self.value"),
    ("cdf", "pdf", "x"),
    ("h", "du", "x"),
    ("dact", "dwide", "dx"),
    ("self.widen", "self.narrow"),
    ("cache.widen", "cache.narrow"),
    ("dwide", "dmiddle", "dy"),
    ("dprojected", "dasked", "dcontext", "dquery"),
    ("dasked", "dmemory"),
    ("self.add_norm1", "self.add_norm2"),
    ("cache.add_norm1", "cache.add_norm2"),
    ("input_ids", "token_type_ids"),
    ("cache.input_ids", "cache.token_type_ids"),
    ("dword", "dposition", "dtoken_type"),
    ("dnormalised", "dsummed", "dx"),
    ("dpooled", "dfirst", "cache.pooled"),
    ("cache.weights.masked", "cache.weights.next"),
    ("dtable", "table"),
    ("self.table", "self.bias"),
    ("dlogits", "probs"),
    ("x", "target"),
    ("a", "b", "along_a", "along_b"),
    ("a_length", "b_length"),
    ("cosine", "dcosine"),
    ("dfirst", "dsecond"),
    ("scores", "labels"),
    ("cache.scores", "cache.labels"),
    ("dcosine", "cache.scores"),
)
"""Variables that may be taken for one another by someone in a hurry."""
