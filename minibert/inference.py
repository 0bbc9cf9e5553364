"""Using a trained model: fill in blanks, judge a next sentence, compare sentences, look inside."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from minibert.arrays import Array
from minibert.layers.attention import attention_probs
from minibert.layers.pooling import mean_pool_forward
from minibert.models.bert import Bert
from minibert.models.pretraining import BertForPreTraining
from minibert.tokenizer import Encoding, Tokenizer

IS_NEXT = 0  # the label of a true continuation


class Prediction(NamedTuple):
    """One candidate for one blank."""

    token: str
    probability: float
    text: str  # the whole text with the candidate in the blank; other blanks stay as they are


def fill_mask(
    model: BertForPreTraining, tokenizer: Tokenizer, text: str, top: int = 5
) -> list[list[Prediction]]:
    """Return the ``top`` likeliest tokens for each ``[MASK]`` in the text, best first.

    Probabilities are those of the whole vocabulary's softmax, so those returned sum to at most 1.
    Special tokens, which fill no blank, and embeddings that the vocabulary has no token for are
    passed over.  Raises ValueError where there is no blank, more tokens than positions, or a model
    without the head for it.
    """
    if model.masked_head is None:
        raise ValueError(
            "the model has no masked-language head (cls.predictions), so it fills in no blanks: "
            "take one saved as BertForMaskedLM or BertForPreTraining, as 'minibert pretrain' does"
        )
    if top < 1:
        raise ValueError(f"top is {top}, expected at least 1")
    encoding = tokenizer.encode(text, special_tokens="allowed")
    vocab = tokenizer.vocab
    blanks = [place for place, token in enumerate(encoding.ids) if token == vocab.mask_id]
    if not blanks:
        mask = vocab.tokens[vocab.mask_id]
        raise ValueError(f"the text has no blank to fill in: write {mask}, in capitals, for a word")
    check_fits(model, encoding)
    hidden = encode(model.bert, *as_batch(encoding))
    logits = model.masked_head.logits(hidden[0, blanks])
    probs = model.ops.softmax_forward(logits)[:, : len(vocab)]  # (M, V)
    probs[:, sorted(vocab.special_ids)] = -1.0  # below any probability, so never among the first
    count = min(top, len(vocab) - len(vocab.special_ids))
    results = []
    for place, row in zip(blanks, probs, strict=True):
        best = np.argsort(-row, kind="stable")[:count]  # stable: of two equals, the lower id
        results.append([
            Prediction(
                vocab.tokens[token],
                float(row[token]),
                fill_in(text, encoding.offsets[place], vocab.tokens[token]),
            )
            for token in best
        ])  # fmt: skip
    return results


def fill_in(text: str, offsets: tuple[int, int], token: str) -> str:
    """Put a token in place of ``text[start:end]``; a piece like ``##ing`` joins the word before.

    >>> fill_in("go [MASK] !", (3, 9), "home"), fill_in("go [MASK] !", (3, 9), "##ing")
    ('go home !', 'going !')
    """
    before, after = text[: offsets[0]], text[offsets[1] :]
    if token.startswith("##"):
        before, token = before.rstrip(), token.removeprefix("##")
    return before + token + after


def next_sentence(
    model: BertForPreTraining, tokenizer: Tokenizer, first: str, second: str
) -> float:
    """Return the probability that ``second`` follows ``first`` in a document.

    Raises ValueError where the two have more tokens than the model has positions, or it lacks the
    head for it.
    """
    if model.next_head is None or model.bert.pooler is None:
        raise ValueError(
            "the model has no next-sentence head (cls.seq_relationship), so it judges no pairs: "
            "take one saved as BertForNextSentencePrediction or BertForPreTraining, as "
            "'minibert pretrain' does"
        )
    encoding = tokenizer.encode(first, second)
    check_fits(model, encoding)
    pooled, _ = model.bert.pooler.forward(encode(model.bert, *as_batch(encoding)))
    return float(model.ops.softmax_forward(model.next_head.logits(pooled))[0, IS_NEXT])


def embed(
    model: BertForPreTraining,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    *,
    pooling: Literal["mean", "cls"] = "mean",
    batch_size: int = 32,
    max_length: int | None = None,  # tokens with [CLS] and [SEP]; None: what the model can read
) -> Array:  # (N, C), in the order of the sentences
    """Return one vector for each sentence: the mean over its tokens, or the one at ``[CLS]``.

    Both are of the last layer; ``[CLS]`` and ``[SEP]`` are in the mean, as in sentence-transformers
    (Reimers and Gurevych, Sentence-BERT, 2019, section 3).  Sentences above ``max_length`` are
    cut at the end, with a warning unless ``max_length`` was given.  They are run together by
    length, so that hardly any time goes into padding.
    """
    if isinstance(sentences, str):
        raise TypeError("sentences must be a sequence of str, got one str: pass [sentence]")
    if pooling not in ("mean", "cls"):
        raise ValueError(f"pooling is {pooling!r}: use 'mean' or 'cls'")
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}, expected at least 1")
    positions, vocab = model.config.max_position_embeddings, tokenizer.vocab
    length = positions if max_length is None else max_length
    if not 2 <= length <= positions:
        raise ValueError(
            f"max_length is {length}, expected 2 ([CLS] and [SEP]) to {positions} "
            "(max_position_embeddings)"
        )
    bodies = [np.array(tokenizer.encode_ids(text), np.int32) for text in sentences]
    cut = sum(len(body) > length - 2 for body in bodies)
    if cut and max_length is None:
        warnings.warn(
            f"{cut} of {len(bodies)} sentences have more than the model's {positions} tokens, and "
            "only their beginnings are embedded: split them",
            stacklevel=2,
        )
    rows = [[vocab.cls_id, *body[: length - 2], vocab.sep_id] for body in bodies]
    order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
    vectors = np.empty((len(rows), model.config.hidden_size), model.params.dtype)
    for start in range(0, len(rows), batch_size):
        numbers = order[start : start + batch_size]
        B, T = len(numbers), len(rows[numbers[-1]])
        input_ids = np.full((B, T), vocab.pad_id, np.int32)
        attention_mask = np.zeros((B, T), np.bool_)
        for row, number in enumerate(numbers):
            input_ids[row, : len(rows[number])] = rows[number]
            attention_mask[row, : len(rows[number])] = True
        hidden = encode(model.bert, input_ids, np.zeros_like(input_ids), attention_mask)
        vectors[numbers] = (
            hidden[:, 0] if pooling == "cls" else (mean_pool_forward(hidden, attention_mask))
        )
    return vectors


class AttentionMaps(NamedTuple):
    """Where each token of one row looks, in every layer and head."""

    tokens: list[str]
    weights: Array  # (L, H, T, T): [l, h, t] sums to 1 over the tokens that t looks at


def attention_maps(
    model: BertForPreTraining, tokenizer: Tokenizer, text: str, pair: str | None = None
) -> AttentionMaps:
    """Return all attention weights for one text or pair; special tokens in it are understood.

    Raises ValueError where it has more tokens than the model has positions.
    """
    encoding = tokenizer.encode(text, pair, special_tokens="allowed")
    check_fits(model, encoding)
    _, _, cache = model.bert.forward(*as_batch(encoding))
    weights = [
        attention_probs(kept.q, kept.k, kept.mask, layer.attention.heads, kept.lse)[0]
        for layer, kept in zip(
            model.bert.layers, (layer.attention for layer in cache.layers), strict=True
        )
    ]
    return AttentionMaps(encoding.tokens, np.stack(weights))


def encode(
    bert: Bert,
    input_ids: Array,  # (B, T)
    token_type_ids: Array,  # (B, T)
    attention_mask: Array,  # bool (B, T)
) -> Array:  # hidden (B, T, C)
    """Return what ``Bert.forward`` does, and let go of each layer's cache at once.

    The caches are there for a backward.  Of BERT base they take 0.6 MB for each token,
    most of the memory that a long batch needs.
    """
    x, _ = bert.embeddings.forward(input_ids, token_type_ids, None)
    for layer in bert.layers:
        x, _ = layer.forward(x, attention_mask[:, None, :], None)
    return x


def as_batch(encoding: Encoding) -> tuple[Array, Array, Array]:  # each (1, T)
    """Return ids, segments and mask of a batch of one row, without padding."""
    input_ids = np.array([encoding.ids], np.int32)
    token_type_ids = np.array([encoding.token_type_ids], np.int32)
    return input_ids, token_type_ids, np.ones(input_ids.shape, np.bool_)


def check_fits(model: BertForPreTraining, encoding: Encoding) -> None:
    """Raise ValueError where a text is too long to be read whole; cutting it is the user's part."""
    T, positions = len(encoding.ids), model.config.max_position_embeddings
    if T > positions:
        raise ValueError(
            f"the text has {T} tokens with [CLS] and [SEP], but the model reads at most "
            f"{positions}: shorten it"
        )
