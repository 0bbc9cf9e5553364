"""Mean pooling: one vector for a sentence, the mean of its tokens' vectors.

Source: Reimers and Gurevych, Sentence-BERT (2019), section 3.
"""

from __future__ import annotations

import numpy as np

from minibert.arrays import Array, check_float, check_shape


def mean_pool_forward(
    hidden: Array,  # (B, T, C)
    attention_mask: Array,  # bool (B, T): True for a token, False for padding
) -> Array:  # (B, C)
    """Return the mean over each row's tokens; padding is not counted, no token at all gives 0."""
    check_float("hidden", hidden)
    check_shape("hidden", hidden, (None, None, None))
    check_shape("attention_mask", attention_mask, hidden.shape[:2])
    n = token_counts(attention_mask, hidden)
    return np.where(attention_mask[..., None], hidden, hidden.dtype.type(0)).sum(axis=1) / n


def mean_pool_backward(
    dpooled: Array,  # (B, C)
    attention_mask: Array,  # bool (B, T)
) -> Array:  # dhidden (B, T, C)
    """Send a gradient back to the tokens.

    pooled_b = Σ_t m_bt hidden_bt / n_b, so each of a row's n_b tokens gets dpooled_b / n_b, and
    padding gets 0.
    """
    check_float("dpooled", dpooled)
    check_shape("dpooled", dpooled, (None, None))
    check_shape("attention_mask", attention_mask, (dpooled.shape[0], None))
    share = (dpooled / token_counts(attention_mask, dpooled))[:, None, :]
    return np.where(attention_mask[..., None], share, share.dtype.type(0))


def token_counts(attention_mask: Array, like: Array) -> Array:  # (B, 1)
    """Return each row's number of tokens, at least 1, in the dtype of ``like``."""
    return np.maximum(attention_mask.sum(axis=1, keepdims=True), 1).astype(like.dtype)
