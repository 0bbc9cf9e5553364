import numpy as np
import pytest

from minibert.data.masking import Masker
from minibert.keys import Key
from minibert.tokenizer import Vocabulary
from minibert.tokenizer.vocab import SPECIAL_TOKENS

PAD, UNK, CLS, SEP, MASK = range(5)
SMALL = Vocabulary([*SPECIAL_TOKENS, "a", "b", "c", "d", "e"])
WORDS = Vocabulary([*SPECIAL_TOKENS, "un", "##want", "##ed", "the", "dog"])
UN, WANT, ED, THE, DOG = range(5, 10)


def random_rows(B: int, T: int, vocab_size: int, seed: int) -> np.ndarray:
    """Rows of ordinary tokens, some [UNK], with special tokens and padding of random length."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(5, vocab_size, (B, T)).astype(np.int32)
    ids[rng.random((B, T)) < 0.02] = UNK
    ids[:, 0] = CLS
    length = rng.integers(3, T + 1, B)
    ids[np.arange(B), length - 1] = SEP
    ids[np.arange(T) >= length[:, None]] = PAD
    return ids


def test_proportions():
    """80.0 / 10.0 / 10.0 % of a million chosen positions, within 0.2 points."""
    vocab = Vocabulary([*SPECIAL_TOKENS, *(f"w{i}" for i in range(5_000))])
    masker = Masker(vocab, max_length=512)
    rng = Key(1).generator()
    ids = np.random.default_rng(0).integers(5, 5_005, (512, 512)).astype(np.int32)
    counts = np.zeros(3)
    while counts.sum() < 1_000_000:
        masked = masker.mask(ids, rng)
        shown = masked.input_ids.reshape(-1)[masked.positions]
        is_mask, same = shown == MASK, shown == masked.labels
        counts += is_mask.sum(), (~is_mask & ~same).sum(), same.sum()
    assert np.abs(counts / counts.sum() - [0.8, 0.1, 0.1]).max() < 0.002


@pytest.mark.parametrize("whole_word", [False, True])
def test_special_tokens_are_neither_masked_nor_drawn(whole_word):
    masker = Masker(SMALL, max_length=64, whole_word=whole_word)
    rng = Key(2).generator()
    count = 0
    for seed in range(30):
        ids = random_rows(512, 64, len(SMALL), seed)
        masked = masker.mask(ids, rng)
        shown = masked.input_ids.reshape(-1)[masked.positions]
        assert masked.labels.min() >= 5
        assert np.isin(shown, [MASK, *range(5, 10)]).all()
        count += len(masked.labels)
    assert count > 60_000


@pytest.mark.parametrize("whole_word", [False, True])
@pytest.mark.parametrize("shape", [(1, 3), (7, 8), (32, 64), (5, 127)])
def test_what_is_masked_can_be_put_back(shape, whole_word):
    B, T = shape
    masker = Masker(SMALL, max_length=T, whole_word=whole_word)
    ids = random_rows(B, T, len(SMALL), 4)
    before = ids.copy()
    masked = masker.mask(ids, Key(3).generator())
    assert np.array_equal(ids, before)
    assert masked.input_ids.dtype == masked.positions.dtype == masked.labels.dtype == np.int32
    assert (np.diff(masked.positions) > 0).all()
    restored = masked.input_ids.copy()
    restored.reshape(-1)[masked.positions] = masked.labels
    assert np.array_equal(restored, ids)

    ordinary = (ids >= 5).sum(axis=1)
    chosen = np.bincount(masked.positions // T, minlength=B)
    expected = np.minimum(np.maximum(np.rint(0.15 * ordinary), 1), masker.max_predictions)
    assert np.array_equal(chosen, np.where(ordinary > 0, expected, 0))
    assert masker.max_predictions == int(np.ceil(0.15 * T))


def test_rows_without_ordinary_tokens():
    ids = np.array([[CLS, SEP, PAD, PAD], [CLS, UNK, UNK, SEP]], np.int32)
    for whole_word in (False, True):
        masked = Masker(SMALL, max_length=8, whole_word=whole_word).mask(ids, Key(1).generator())
        assert np.array_equal(masked.input_ids, ids)
        assert masked.positions.shape == masked.labels.shape == (0,)


def test_every_position_is_chosen_alike():
    masker = Masker(SMALL, max_length=22)
    ids = np.full((4_000, 22), 6, np.int32)
    ids[:, 0], ids[:, -1] = CLS, SEP
    rng = Key(5).generator()
    counts = sum(np.bincount(masker.mask(ids, rng).positions % 22, minlength=22) for _ in range(10))
    assert counts[0] == counts[-1] == 0
    assert abs(counts[1:-1] / 40_000 - 0.15).max() < 0.01


def test_whole_words_are_chosen_with_all_their_pieces():
    masker = Masker(WORDS, max_length=64, whole_word=True)
    rng = np.random.default_rng(1)
    words = [[UN, WANT, ED], [THE], [DOG, ED], [DOG]]
    rows = []
    for _ in range(400):
        row = [CLS, *(piece for w in rng.integers(0, 4, 40) for piece in words[w])][:63]
        rows.append([*row, SEP] + [PAD] * (63 - len(row)))
    ids = np.array(rows, np.int32)
    masked = masker.mask(ids, Key(7).generator())
    chosen = np.zeros(ids.size, np.bool_)
    chosen[masked.positions] = True
    chosen = chosen.reshape(ids.shape)
    inside = WORDS.continuation[ids]
    assert np.array_equal(chosen[:, 1:][inside[:, 1:]], chosen[:, :-1][inside[:, 1:]])
    budget = np.minimum(np.rint(0.15 * (ids >= 5).sum(axis=1)), masker.max_predictions)
    assert (chosen.sum(axis=1) <= budget).all()
    assert (chosen.sum(axis=1) >= budget - 2).all()
    # Pieces of one word are replaced each by a draw of its own.
    shown = masked.input_ids.reshape(-1)[masked.positions]
    assert 0.75 < (shown == MASK).mean() < 0.85


def test_a_word_longer_than_the_budget():
    ids = np.array([[CLS, UN, WANT, ED, SEP, PAD, PAD, PAD]], np.int32)
    for max_length, expected in [(64, [1, 2, 3]), (14, [1, 2, 3]), (13, []), (8, [])]:
        # 15 % of 13 or fewer is at most 2, and a word of 3 pieces is never predicted in part.
        masker = Masker(WORDS, max_length=max_length, whole_word=True)
        assert masker.mask(ids, Key(1).generator()).positions.tolist() == expected
    # A row may begin within a word, whose pieces there go together.
    ids = np.array([[CLS, WANT, ED, SEP]], np.int32)
    masker = Masker(WORDS, max_length=64, whole_word=True)
    assert masker.mask(ids, Key(1).generator()).positions.tolist() == [1, 2]


def test_masks_depend_on_the_key_alone():
    masker = Masker(SMALL, max_length=32)
    ids = random_rows(8, 32, len(SMALL), 1)
    first, same, other = (masker.mask(ids, Key(k).generator()) for k in (1, 1, 2))
    assert np.array_equal(first.positions, same.positions)
    assert np.array_equal(first.input_ids, same.input_ids)
    assert not np.array_equal(first.input_ids, other.input_ids)


def test_arguments():
    for probability in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError, match="mask_probability"):
            Masker(SMALL, max_length=8, probability=probability)
    with pytest.raises(ValueError, match="special tokens only"):
        Masker(Vocabulary(SPECIAL_TOKENS), max_length=8)
