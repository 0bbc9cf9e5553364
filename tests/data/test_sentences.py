import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.data.sentences import ends_sentence, split_sentences

# Sentences are set apart by "|".
CASES = [
    "It rained. | We left! | Why? | Yes.",
    "Dr. Smith met Mrs. Jones at St. Mary's. | They spoke.",
    "J. K. Rowling met W. B. Yeats in St. Louis. | They ate.",
    "Pi is 3.14, not 3. | It never ends.",
    "Version 2.0.1 is out. | See www.example.com/a.b for more.",
    "Is it?! | Yes... | No.",
    '"Stop!" she cried. | "Why?" | He ran.',
    "He said “no.” | Then he left. | (She stayed.) | All was well.",
    "See fig. 3 and eq. 4. | Also No. 5, p. 12, and vol. 2.",
    "No. | He said no. | It was so.",
    "Use a list, e.g. [1], or a tuple, i.e. (1,). | Both work, cf. Knuth.",
    "Tables, chairs, etc. | The rest was sold.",
    "Tables, chairs, etc. were sold.",
    "The U.S. Navy came. | I live in the U.S. | The other lives here.",
    "It opens at 9 a.m. | Closing is at 5 p.m. sharp.",
    "He works at Acme Inc. | The firm is old. | Acme Inc. Products sells.",
    "As shown by Smith et al. 1999, it holds.",
    "1. Open the box. | 2. Take it out. | A. Look at it.",
    "You and I. | We go. | Plan A. | The rest follows.",
    "Wait… | What? | Then… nothing.",
    "In C. F. Gauss's work it is so. | End",
    "nothing to cut here",
    "我来了。|你呢？|他说：「好！」|「走吧。」",
    "今日は。|元気ですか？|はい！ | Yes.",
    "आप कैसे हैं। | मैं ठीक हूँ।",
    "هل أنت بخير؟ | نعم.",
    "A line\nbreak is a blank. | A blank\tline\r\nis not.",
    "No stop before\n\n|a blank line",
]


@pytest.mark.parametrize("marked", CASES)
def test_sentences_end_where_a_reader_ends_them(marked):
    text = marked.replace(" | ", " ").replace("|", "")
    expected = [" ".join(part.split()) for part in marked.split("|")]
    assert split_sentences(text) == expected


@pytest.mark.parametrize("blank", ["", " ", "\n\n\n", "\u3000\t\r\n"])
def test_blank_text_has_no_sentence(blank):
    assert split_sentences(blank) == []


@given(st.text(alphabet="aZ .!?。”\"')(\n1é中IM", max_size=80) | st.text(max_size=80))
def test_nothing_visible_is_lost_and_nothing_is_blank(text):
    sentences = split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence == " ".join(sentence.split()) != "" for sentence in sentences)


@pytest.mark.parametrize("unit", ["a.", "A. ", ". ", "。", "x" * 10, "(", "A.B. "])
def test_time_is_linear(unit):
    def seconds(count: int) -> float:
        start = time.process_time()
        split_sentences(unit * count)
        return time.process_time() - start

    seconds(1_000)
    # 16 times the text; quadratic time would be 256-fold.
    assert seconds(32_000) < 80 * max(seconds(2_000), 1e-3)


def test_ends_sentence():
    ended = ["Yes.", "Yes?” ", '"No!")', "好。」", "So…"]
    assert all(map(ends_sentence, ended))
    assert not any(map(ends_sentence, ["", "and", "First Citizen:", "one, two,"]))
