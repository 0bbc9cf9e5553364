import itertools
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.scores import AnswerScores, answer_scores, exact_match, normalize_answer
from minibert.scores.answers import f1

PIECES = [
    *("a", "an", "the", "The", "AN", "cat", "cat", "Cats", "anthem", "1st", "U.S.", "$5", "isn't"),
    *("state-of-the-art", "the_end", "Ünïcode", "a\u0301", "l’a", "–", "«the»", "中a", "İ", "ß"),
    *(" ", " ", " ", "\t", "\n", "\u00a0", "\u3000", "\u200b", ".", "!", "-", "a.n", "'a'"),
]
TEXT = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=6).map(" ".join),
    st.text(max_size=12),
)
WORDS = st.lists(st.sampled_from(["cat", "sat", "mat", "dog"]), max_size=6).map(" ".join)
ANSWERS = st.lists(st.one_of(TEXT, WORDS), max_size=4)
IDS = st.sampled_from("pqrstu")
thorough = settings(max_examples=400)


def plain_normalize(text):
    """The rule once more, without a pattern: runs of letters and digits are looked up whole."""
    kept = "".join(character for character in text.lower() if character not in string.punctuation)
    runs = ("".join(run) for _, run in itertools.groupby(kept, key=str.isalnum))
    words = "".join(" " if run in ("a", "an", "the") else run for run in runs)
    return " ".join(words.split())


def plain_f1(predicted, answer):
    """Take each predicted word out of a list of the right ones, by p, r and 2 p r / (p + r)."""
    words, left = plain_normalize(predicted).split(), plain_normalize(answer).split()
    count = len(left)
    if not words or not left:
        return float(words == left)
    hits = 0
    for word in words:
        if word in left:
            left.remove(word)
            hits += 1
    if hits == 0:
        return 0.0
    precision, recall = hits / len(words), hits / count
    return 2 * precision * recall / (precision + recall)


def plain_answers(answers):
    """The right answers that say something, or else that there is none."""
    return [answer for answer in answers if plain_normalize(answer) != ""] or [""]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("The state-of-the-art, in  Ohio!", "stateoftheart in ohio"),
        ("a an the A AN THE", ""),
        ("anthem theatre banana", "anthem theatre banana"),
        ("the U.S. Navy", "us navy"),
        ("$3,000.50", "300050"),
        ("  tabs\tand\nlines\u00a0\u3000 ", "tabs and lines"),
        ("ÉCOLE d'été", "école dété"),
        ("“The end” – now…", "“ end” – now…"),  # ASCII punctuation only
        ("l’a", "l’"),
        ("a\u0301", "\u0301"),  # a combining accent is no part of a word, so this is an article
        ("\u00e1", "\u00e1"),
        ("the_end", "theend"),
        ("t.h.e end", "end"),  # punctuation goes first
        ("1 a 2", "1 2"),
    ],
)
def test_normalize_by_hand(text, expected):
    assert normalize_answer(text) == expected
    assert plain_normalize(text) == expected


def test_exact_match_by_hand():
    assert exact_match("the Denver Broncos", ["Carolina Panthers", "Denver Broncos!"]) is True
    assert exact_match("Denver", ["Denver Broncos"]) is False
    assert exact_match("", []) is True
    assert exact_match("The.", []) is True
    assert exact_match("Denver", []) is False
    # answers of which nothing is left count only if there is no other
    assert exact_match("", ["The", "a cat"]) is False
    assert exact_match("", ["The"]) is True


def test_f1_by_hand():
    # 2 hits, 3 words predicted, 2 right: p = 2/3, r = 1
    assert f1("Super Bowl 50", ["the Super Bowl"]) == 0.8
    # "cat" is right twice and predicted three times: 2 hits of 3 and of 4 words
    assert f1("cat cat cat", ["cat, cat sat down"]) == pytest.approx(4 / 7, rel=1e-15)
    # the best of all answers: 2/3 and 1
    assert f1("gold", ["gold medal", "Gold"]) == 1.0
    assert f1("gold", ["gold medal", "silver"]) == pytest.approx(2 / 3, rel=1e-15)
    assert f1("gold", ["silver"]) == 0.0
    assert f1("", []) == 1.0
    assert f1("the", []) == 1.0
    assert f1("gold", []) == 0.0
    assert f1("", ["gold"]) == 0.0
    assert f1("", ["the", "gold"]) == 0.0


def test_answer_scores_by_hand():
    right = {"1": ["gold"], "2": ["the Super Bowl"], "3": [], "4": ["ten"]}
    predictions = {"1": "Gold.", "2": "Super Bowl 50", "3": "", "of another text": "x"}
    # exact 1, 0, 1; F1 1, .8, 1; the question without a prediction counts 0
    assert answer_scores(predictions, right) == AnswerScores(exact_match=2 / 4, f1=2.8 / 4)
    assert answer_scores({}, right) == (0.0, 0.0)
    # silence is not the answer that there is none
    assert answer_scores({}, {"3": []}) == (0.0, 0.0)


@given(text=TEXT)
def test_normalize_leaves_single_blanks(text):
    found = normalize_answer(text)
    assert found == " ".join(found.split())
    assert not set(found) & set(string.punctuation)
    assert not {"a", "an", "the"} & set(found.split())
    assert normalize_answer(f" The {text}!") == found


@given(predicted=TEXT, answers=ANSWERS)
def test_bounds_and_exact_match_is_the_stricter(predicted, answers):
    score = f1(predicted, answers)
    assert 0.0 <= score <= 1.0
    if exact_match(predicted, answers):
        assert score == 1.0
    if score == 1.0:  # the same words, maybe in another order
        words = sorted(normalize_answer(predicted).split())
        assert any(
            sorted(plain_normalize(text).split()) == words for text in plain_answers(answers)
        )


@given(one=WORDS, other=WORDS)
def test_symmetry(one, other):
    assert f1(one, [other]) == f1(other, [one])
    assert exact_match(one, [other]) == exact_match(other, [one])


@given(predicted=WORDS, answers=st.lists(WORDS.filter(bool), min_size=1, max_size=4), more=WORDS)
def test_more_answers_never_harm(predicted, answers, more):
    assert f1(predicted, [*answers, more]) >= f1(predicted, answers)
    assert exact_match(predicted, [*answers, more]) >= exact_match(predicted, answers)
    assert f1(predicted, answers[::-1]) == f1(predicted, answers)


@given(words=st.lists(st.sampled_from(["cat", "sat", "mat"]), max_size=6), data=st.data())
def test_f1_ignores_the_order_of_words(words, data):
    assert f1(" ".join(data.draw(st.permutations(words))), [" ".join(words)]) == 1.0


@given(
    predictions=st.dictionaries(IDS, WORDS),
    right=st.dictionaries(IDS, st.lists(WORDS, max_size=2), min_size=1),
    data=st.data(),
)
def test_order_of_the_questions_changes_no_bit(predictions, right, data):
    shuffled = dict(data.draw(st.permutations(list(right.items()))))
    scores = answer_scores(predictions, right)
    assert scores == answer_scores(predictions, shuffled)
    assert 0.0 <= scores.exact_match <= scores.f1 <= 1.0


@thorough
@given(predicted=st.one_of(TEXT, WORDS), answers=ANSWERS)
def test_same_as_the_plain_rule(predicted, answers):
    assert normalize_answer(predicted) == plain_normalize(predicted)
    expected = max(plain_f1(predicted, answer) for answer in plain_answers(answers))
    assert f1(predicted, answers) == pytest.approx(expected, rel=1e-14)
    normalized = [plain_normalize(answer) for answer in plain_answers(answers)]
    assert exact_match(predicted, answers) == (plain_normalize(predicted) in normalized)


@thorough
@given(
    predictions=st.dictionaries(IDS, st.one_of(TEXT, WORDS)),
    right=st.dictionaries(IDS, ANSWERS, min_size=1),
)
def test_means_are_those_of_the_plain_rule(predictions, right):
    exact, overlap = [], []
    for key, answers in right.items():
        predicted = predictions.get(key)
        told = predicted is not None
        texts = plain_answers(answers)
        exact.append(told and any(plain_normalize(predicted) == plain_normalize(t) for t in texts))
        overlap.append(max(plain_f1(predicted, t) for t in texts) if told else 0.0)
    scores = answer_scores(predictions, right)
    assert scores.exact_match == pytest.approx(sum(exact) / len(right), rel=1e-14)
    assert scores.f1 == pytest.approx(sum(overlap) / len(right), rel=1e-14)


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="right is empty, expected at least one question"):
        answer_scores({"1": "gold"}, {})
    for score in (exact_match, f1):
        with pytest.raises(ValueError, match=r"answers is the text 'gold', .* use \[answers\]"):
            score("gold", "gold")
        with pytest.raises(ValueError, match="text is None, expected a str"):
            score(None, ["gold"])
        with pytest.raises(ValueError, match="text is 5, expected a str"):
            score("gold", [5])
    with pytest.raises(ValueError, match="answers is the text 'gold'"):
        answer_scores({"1": "gold"}, {"1": "gold"})
