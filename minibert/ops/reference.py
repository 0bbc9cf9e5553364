"""The NumPy backend: a table of the pairs written in ``minibert.layers``."""

from minibert.layers.activations import (
    gelu_backward,
    gelu_forward,
    gelu_tanh_backward,
    gelu_tanh_forward,
    relu_backward,
    relu_forward,
    tanh_backward,
    tanh_forward,
)
from minibert.layers.add_norm import add_norm_backward, add_norm_forward
from minibert.layers.attention import attention_backward, attention_forward
from minibert.layers.cross_entropy import (
    cross_entropy_backward,
    cross_entropy_forward,
    vocab_cross_entropy_backward,
    vocab_cross_entropy_forward,
)
from minibert.layers.dropout import dropout_backward, dropout_forward
from minibert.layers.embedding import embedding_backward, embedding_forward
from minibert.layers.feedforward import feedforward_backward, feedforward_forward
from minibert.layers.layernorm import layernorm_backward, layernorm_forward
from minibert.layers.linear import linear_backward, linear_forward
from minibert.layers.softmax import softmax_backward, softmax_forward
from minibert.ops.update import adamw, global_norm, orthogonalize

name = "numpy"

__all__ = [
    "adamw",
    "add_norm_backward",
    "add_norm_forward",
    "attention_backward",
    "attention_forward",
    "cross_entropy_backward",
    "cross_entropy_forward",
    "dropout_backward",
    "dropout_forward",
    "embedding_backward",
    "embedding_forward",
    "feedforward_backward",
    "feedforward_forward",
    "gelu_backward",
    "gelu_forward",
    "gelu_tanh_backward",
    "gelu_tanh_forward",
    "global_norm",
    "layernorm_backward",
    "layernorm_forward",
    "linear_backward",
    "linear_forward",
    "name",
    "orthogonalize",
    "relu_backward",
    "relu_forward",
    "softmax_backward",
    "softmax_forward",
    "tanh_backward",
    "tanh_forward",
    "vocab_cross_entropy_backward",
    "vocab_cross_entropy_forward",
]
