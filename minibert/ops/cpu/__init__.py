"""The numba backend: compiled kernels for the processor.

One file for each operation.  What they share: ``jit`` (how functions are compiled and where machine
code is kept), ``threads`` (how many work), ``memory`` (where results lie), ``vectors``, ``tile``
and ``gemm`` (the matrix product), ``pairs``, ``amx`` and ``gemm_amx`` (products of bfloat16) and
``elementary`` (exp, the normal distribution, tanh, the dropout hash).

A public function checks its arguments in Python, makes room for its results and starts one kernel.
Kernels see plain arrays only: contiguous, of one dtype, ids int32.
"""

from minibert.ops.cpu.activations import (
    gelu_backward,
    gelu_forward,
    gelu_tanh_backward,
    gelu_tanh_forward,
    relu_backward,
    relu_forward,
    tanh_backward,
    tanh_forward,
)
from minibert.ops.cpu.attention import attention_backward, attention_forward
from minibert.ops.cpu.cross_entropy import (
    cross_entropy_backward,
    cross_entropy_forward,
    vocab_cross_entropy_backward,
    vocab_cross_entropy_forward,
)
from minibert.ops.cpu.dropout import dropout_backward, dropout_forward
from minibert.ops.cpu.embedding import embedding_backward, embedding_forward
from minibert.ops.cpu.feedforward import feedforward_backward, feedforward_forward
from minibert.ops.cpu.linear import linear_backward, linear_forward
from minibert.ops.cpu.norm import (
    add_norm_backward,
    add_norm_forward,
    layernorm_backward,
    layernorm_forward,
)
from minibert.ops.cpu.orthogonal import orthogonalize
from minibert.ops.cpu.softmax import softmax_backward, softmax_forward
from minibert.ops.cpu.update import adamw, global_norm

name = "numba"

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
