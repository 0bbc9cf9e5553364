from __future__ import annotations

import numpy as np
import pytest

from minibert.arrays import Array
from minibert.config import BertConfig
from minibert.inference import (
    attention_maps,
    embed,
    encode,
    fill_in,
    fill_mask,
    next_sentence,
)
from minibert.models.pretraining import BertForPreTraining
from minibert.ops import Ops
from minibert.tokenizer import SPECIAL_TOKENS, Tokenizer, Vocabulary

WORDS = [*"abcdefg.!", "the", "dog", "runs", "##s", "##ing", "##e"]


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS]))


@pytest.fixture
def model(ops: Ops) -> BertForPreTraining:
    """Random weights, and three more embeddings than the vocabulary has tokens."""
    config = BertConfig(
        vocab_size=len(SPECIAL_TOKENS) + len(WORDS) + 3,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=17,
    )
    model = BertForPreTraining(config, ops)
    model.params.value[:] = np.random.default_rng(1).standard_normal(model.params.value.size) * 0.3
    return model


def hidden_of(model: BertForPreTraining, ids: list[int], types: list[int] | None = None) -> Array:
    rows = np.array([ids], np.int32)
    segments = np.array([types or [0] * len(ids)], np.int32)
    return model.bert.forward(rows, segments, np.ones(rows.shape, np.bool_))[0]


def softmax(x: Array) -> Array:
    e = np.exp(x.astype(np.float64))
    return e / e.sum(axis=-1, keepdims=True)


# --- fill_mask


def test_fill_mask_equals_the_models_softmax(
    model: BertForPreTraining, tokenizer: Tokenizer
) -> None:
    text = "the [MASK] runs, [MASK]!"
    results = fill_mask(model, tokenizer, text, top=3)
    encoding = tokenizer.encode(text, special_tokens="allowed")
    blanks = [n for n, token in enumerate(encoding.tokens) if token == "[MASK]"]
    probs = softmax(model.masked_head.logits(hidden_of(model, encoding.ids)[0, blanks]))
    assert len(results) == 2
    for row, predictions in zip(probs, results, strict=True):
        words = row[len(SPECIAL_TOKENS) : len(tokenizer.vocab)]
        best = len(SPECIAL_TOKENS) + np.argsort(-words)[:3]
        assert [p.token for p in predictions] == [tokenizer.vocab.tokens[n] for n in best]
        np.testing.assert_allclose([p.probability for p in predictions], row[best], rtol=1e-4)


def test_fill_mask_names_only_words(model: BertForPreTraining, tokenizer: Tokenizer) -> None:
    """Special tokens fill no blank, and embeddings beyond the vocabulary have no name."""
    model.masked_head.bias.value[:5] = 50
    model.masked_head.bias.value[-3:] = 50
    (predictions,) = fill_mask(model, tokenizer, "the [MASK]", top=1000)
    assert sorted(p.token for p in predictions) == sorted(WORDS)
    assert 0 <= sum(p.probability for p in predictions) < 1e-6  # the rest has it all
    assert all(p.probability >= 0 for p in predictions)


def test_fill_mask_probabilities_sum_to_at_most_1(
    model: BertForPreTraining, tokenizer: Tokenizer
) -> None:
    (predictions,) = fill_mask(model, tokenizer, "[MASK]")
    probabilities = [p.probability for p in predictions]
    assert len(predictions) == 5
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) <= 1


def test_equal_candidates_come_in_the_order_of_their_ids(
    model: BertForPreTraining, tokenizer: Tokenizer
) -> None:
    model.params.value[:] = 0
    (predictions,) = fill_mask(model, tokenizer, "the [MASK]", top=4)
    assert [p.token for p in predictions] == ["a", "b", "c", "d"]
    assert [p.text for p in predictions[:2]] == ["the a", "the b"]
    np.testing.assert_allclose([p.probability for p in predictions], 1 / 23, rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "offsets", "token", "filled"),
    [
        ("The [MASK] runs.", (4, 10), "dog", "The dog runs."),
        ("The [MASK] runs.", (4, 10), "##s", "Thes runs."),
        ("[MASK]", (0, 6), "##s", "s"),
        ("é  [MASK]三", (3, 9), "a", "é  a三"),
    ],
)
def test_fill_in(text: str, offsets: tuple[int, int], token: str, filled: str) -> None:
    assert fill_in(text, offsets, token) == filled


def test_each_text_has_one_blank_filled(model: BertForPreTraining, tokenizer: Tokenizer) -> None:
    first, second = fill_mask(model, tokenizer, "İ [MASK] [MASK] !", top=1)
    assert first[0].text == fill_in("İ [MASK] [MASK] !", (2, 8), first[0].token)
    assert second[0].text == fill_in("İ [MASK] [MASK] !", (9, 15), second[0].token)


def test_fill_mask_wrong_usage(model: BertForPreTraining, tokenizer: Tokenizer) -> None:
    for text in ("the dog", "", "the [mask]", "the [ MASK ]"):
        with pytest.raises(ValueError, match=r"no blank to fill in: write \[MASK\]"):
            fill_mask(model, tokenizer, text)
    with pytest.raises(ValueError, match="top is 0"):
        fill_mask(model, tokenizer, "[MASK]", top=0)
    fill_mask(model, tokenizer, "[MASK]" + " a" * 14, top=1)
    with pytest.raises(ValueError, match=r"18 tokens .* at most 17: shorten"):
        fill_mask(model, tokenizer, "[MASK]" + " a" * 15)


# --- next_sentence


def test_next_sentence_is_the_probability_of_label_0(
    model: BertForPreTraining, tokenizer: Tokenizer
) -> None:
    encoding = tokenizer.encode("the dog", "runs!")
    hidden = hidden_of(model, encoding.ids, encoding.token_type_ids)
    pooled, _ = model.bert.pooler.forward(hidden)
    probability = next_sentence(model, tokenizer, "the dog", "runs!")
    assert probability == pytest.approx(softmax(model.next_head.logits(pooled))[0, 0], rel=1e-4)
    assert isinstance(probability, float)
    model.next_head.dense.weight.value[:] = 0
    model.next_head.dense.bias.value[:] = [3, 0]
    wanted = 1 / (1 + np.exp(-3))
    assert next_sentence(model, tokenizer, "a", "b") == pytest.approx(wanted, rel=1e-5)


def test_next_sentence_order_matters_and_length_is_checked(
    model: BertForPreTraining, tokenizer: Tokenizer
) -> None:
    forth = next_sentence(model, tokenizer, "the dog", "runs")
    assert forth != next_sentence(model, tokenizer, "runs", "the dog")
    with pytest.raises(ValueError, match=r"18 tokens .* at most 17"):
        next_sentence(model, tokenizer, "a " * 8, "b " * 7)


# --- a model without heads


def without_heads(model: BertForPreTraining) -> BertForPreTraining:
    """The same encoder, and nothing else."""
    encoder = BertForPreTraining(model.config, model.ops, heads=())
    for parameter in encoder.params:
        parameter.value[...] = model.params[parameter.name].value
    return encoder


def test_an_encoder_embeds_and_attends(model: BertForPreTraining, tokenizer: Tokenizer) -> None:
    encoder = without_heads(model)
    for pooling in ("mean", "cls"):
        np.testing.assert_array_equal(
            embed(encoder, tokenizer, ["the dog", "a"], pooling=pooling),  # type: ignore[arg-type]
            embed(model, tokenizer, ["the dog", "a"], pooling=pooling),  # type: ignore[arg-type]
        )
    np.testing.assert_array_equal(
        attention_maps(encoder, tokenizer, "the dog").weights,
        attention_maps(model, tokenizer, "the dog").weights,
    )


def test_what_needs_a_head_says_so(model: BertForPreTraining, tokenizer: Tokenizer) -> None:
    encoder = without_heads(model)
    with pytest.raises(ValueError, match=r"no masked-language head .*: take one saved as BertForM"):
        fill_mask(encoder, tokenizer, "the [MASK]")
    with pytest.raises(ValueError, match=r"no next-sentence head .*: take one saved as BertForN"):
        next_sentence(encoder, tokenizer, "the", "dog")


# --- embed

SENTENCES = ["the dog runs", "a", "", "b c d e f g . ! a b c", "the dog runs", "dogs"]


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_embed_equals_one_sentence_at_a_time(
    model: BertForPreTraining, tokenizer: Tokenizer, pooling: str, batch_size: int
) -> None:
    vectors = embed(model, tokenizer, SENTENCES, pooling=pooling, batch_size=batch_size)  # type: ignore[arg-type]
    assert vectors.shape == (6, 12)
    assert vectors.dtype == np.float32
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        hidden = hidden_of(model, tokenizer.encode(sentence).ids)[0]
        wanted = hidden.mean(axis=0) if pooling == "mean" else hidden[0]
        np.testing.assert_allclose(vector, wanted, atol=1e-5)  # padding may round otherwise
    np.testing.assert_allclose(vectors[0], vectors[4], atol=1e-6)


def test_embed_nothing(model: BertForPreTraining, tokenizer: Tokenizer) -> None:
    assert embed(model, tokenizer, []).shape == (0, 12)


def test_embed_treats_special_tokens_as_text(
    model: BertForPreTraining, tokenizer: Tokenizer
) -> None:
    vectors = embed(model, tokenizer, ["a [SEP] b", "a b"])
    plain = hidden_of(model, tokenizer.encode("a [SEP] b", special_tokens="plain").ids)[0]
    np.testing.assert_allclose(vectors[0], plain.mean(axis=0), atol=1e-5)


def test_embed_cuts_at_the_users_length_quietly_and_at_the_models_with_a_warning(
    model: BertForPreTraining, tokenizer: Tokenizer
) -> None:
    long = "a b c d e f g " * 3
    np.testing.assert_allclose(
        embed(model, tokenizer, [long], max_length=5), embed(model, tokenizer, ["a b c"]), atol=1e-6
    )
    with pytest.warns(UserWarning, match="1 of 2 sentences have more than the model's 17 tokens"):
        vectors = embed(model, tokenizer, [long, "a"])
    np.testing.assert_allclose(vectors[0], embed(model, tokenizer, [long], max_length=17)[0])


def test_embed_wrong_usage(model: BertForPreTraining, tokenizer: Tokenizer) -> None:
    with pytest.raises(TypeError, match=r"got one str: pass \[sentence\]"):
        embed(model, tokenizer, "the dog")
    with pytest.raises(ValueError, match="pooling is 'max'"):
        embed(model, tokenizer, ["a"], pooling="max")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="batch_size is 0"):
        embed(model, tokenizer, ["a"], batch_size=0)
    for length in (1, 18):
        with pytest.raises(ValueError, match=f"max_length is {length}, expected 2"):
            embed(model, tokenizer, ["a"], max_length=length)


def test_encode_equals_the_forward_that_keeps_caches(model: BertForPreTraining) -> None:
    ids = np.array([[2, 7, 9, 3], [2, 8, 3, 0]], np.int32)
    types, mask = np.zeros_like(ids), ids > 0
    np.testing.assert_array_equal(
        encode(model.bert, ids, types, mask), model.bert.forward(ids, types, mask)[0]
    )


# --- attention_maps


def test_attention_maps_are_softmax_of_the_scores(
    model: BertForPreTraining, tokenizer: Tokenizer
) -> None:
    maps = attention_maps(model, tokenizer, "the [MASK] runs", "a dog")
    tokens = ["[CLS]", "the", "[MASK]", "runs", "[SEP]", "a", "dog", "[SEP]"]
    assert maps.tokens == tokens
    T = len(tokens)
    assert maps.weights.shape == (2, 3, T, T)
    np.testing.assert_allclose(maps.weights.sum(axis=-1), 1, atol=1e-5)

    encoding = tokenizer.encode("the [MASK] runs", "a dog", special_tokens="allowed")
    ids, types = (np.array([x], np.int32) for x in (encoding.ids, encoding.token_type_ids))
    x = model.bert.embeddings.forward(ids, types, None)[0][0]
    attention = model.bert.layers[0].attention
    for h in range(3):
        rows = slice(4 * h, 4 * h + 4)  # head h has these columns of queries and keys
        q, k = (
            x @ part.weight.value[rows].T + part.bias.value[rows]
            for part in (attention.query, attention.key)
        )
        np.testing.assert_allclose(maps.weights[0, h], softmax(q @ k.T / 2), atol=1e-5)


def test_attention_maps_check_the_length(model: BertForPreTraining, tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="at most 17"):
        attention_maps(model, tokenizer, "a " * 16)
