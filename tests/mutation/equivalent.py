"""Mutants that compute the same as the original, each with the reason.

Keyed by the function's name and the statement before and after, so that moving lines changes
nothing.  An entry that no mutant needs any more is reported as stale.
"""

ONE_INPUT = "keys and values are projections of one sequence, so both caches hold the same array"
NO_DROPOUT = "at rate 0 all is kept and multiplied by 1, so this is a shortcut (and rate < 1)"
KEYS = "dmemory = self.key.backward(dk, cache.key)"
VALUES = "dmemory += self.value.backward(dv, cache.value)"
WHERE = "return np.where(counted, weights[np.where(counted, labels, {})], weights.dtype.type(0))"
DOWN = "for number in range(len(self.layers) - 1, {} - 1, -1):"
CACHES = "(context, AttentionCache(query_cache, {}, q, k, v, mask, lse, rate, seed))"
LSE = "lse = np.where(blind, np.inf, highest + np.log(np.where(blind, {}, total)))[..., {}]"

EQUIVALENT: dict[tuple[str, str, str], str] = {
    ("MultiHeadAttention.backward", KEYS, KEYS.replace("cache.key", "cache.value")): ONE_INPUT,
    ("MultiHeadAttention.backward", VALUES, VALUES.replace("cache.value", "cache.key")): ONE_INPUT,
    (
        "MultiHeadAttention.forward",
        "return " + CACHES.format("key_cache, value_cache"),
        "return " + CACHES.format("value_cache, key_cache"),
    ): ONE_INPUT,
    (
        "Pooler.backward",
        "dhidden = np.zeros_like(dpooled, shape=(B, cache.length, C))",
        "dhidden = np.zeros_like(cache.pooled, shape=(B, cache.length, C))",
    ): "the dtype alone is taken, and both have the same",
    (
        "Parameter.accumulate",
        "np.add(self.grad, dvalue, out=self.grad)",
        "np.add(dvalue, self.grad, out=self.grad)",
    ): "addition commutes",
    ("dropout_forward in dropout_backward", "if rate == 0:", "if False:"): NO_DROPOUT,
    ("dropout_forward in dropout_backward", "if rate == 0:", "if rate == 1:"): NO_DROPOUT,
    ("dropout_forward in dropout_backward", "if rate == 0:", "if rate == -1:"): NO_DROPOUT,
    (
        "merge_heads in attention_backward",
        "return x.transpose(0, 2, 1, 3).reshape(B, T, H * D)",
        "return x.transpose(0, 2, 1, 3).reshape(B, T, -(H * D))",
    ): "to reshape, any negative size means what remains, which is H D",
    (
        "erfc in gelu_backward",
        "return np.where(x < 0, 2 - tail, tail)",
        "return np.where(x <= 0, 2 - tail, tail)",
    ): "erfc(0) = 1 = 2 - 1",
    ("attention_forward", LSE.format(1, 0), LSE.format(2, 0)): (
        "a blind row's logarithm is replaced by +inf anyway"
    ),
    ("attention_forward", LSE.format(1, 0), LSE.format(1, -1)): "there is one column",
    ("MaskedLMHead.backward", "if dlogits is None:", "if True:"): (
        "logits that were kept are those that are computed again"
    ),
    ("row_weights", WHERE.format(0), WHERE.format(-1)): (
        "an ignored row needs a class that there is, to be looked up and thrown away"
    ),
    ("Bert.backward", DOWN.format("max(lowest, 0)"), DOWN.format("max(0, lowest)")): (
        "the larger of two is the same either way"
    ),
    (
        "token_counts in mean_pool_backward",
        "return np.maximum(attention_mask.sum(axis=1, keepdims=True), 1).astype(like.dtype)",
        "return np.maximum(1, attention_mask.sum(axis=1, keepdims=True)).astype(like.dtype)",
    ): "the larger of two is the same either way",
}
