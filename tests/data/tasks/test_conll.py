import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.data.tasks import TaggedExample, read_tagged

from .common import DATA, real_data, refused

TAGS = st.sampled_from(["O", "B-PER", "I-PER", "S-creative-work", "E-中"])
WORDS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zs"], exclude_characters="\ufeff"), min_size=1
).filter(lambda word: word.strip() and not word.isdecimal() and word != "-DOCSTART-")


def sentences(write, content: str, name: str = "a.conll", **options):
    return [tuple(example) for example in read_tagged(write(name, content), **options)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("name", ["a.conll", "a.txt.gz"])
def test_two_columns(write, name, mark, end):
    content = mark + "Jim\tB-PER\nHenson\tI-PER \n\t\nwas\t \tO\t\n \t \n\nit O\n"
    assert sentences(write, content.replace("\n", end), name) == [
        (["Jim", "Henson"], ["B-PER", "I-PER"], 1),
        (["was"], ["O"], 4),
        (["it"], ["O"], 7),
    ]


def test_four_columns_and_documents(write):
    content = (
        "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n-DOCSTART- -X- O O\nx y z O"
    )
    assert sentences(write, content) == [
        (["EU", "rejects"], ["B-ORG", "O"], 3),
        (["x"], ["O"], 6),
    ]


def test_comments_and_hashtags(write):
    comments = "# sent_id = 1\n# text = Vitamin O\n#newpar\n# newdoc\n"
    content = comments + "#\tO\n#nlp\tB-X\n\n# O\n#nlp O\n# O\n"
    assert sentences(write, content) == [
        (["#", "#nlp"], ["O", "B-X"], 5),
        (["#", "#nlp", "#"], ["O", "O", "O"], 8),
    ]
    words = "# text = a b\n#nlp\n#\nb\n"
    assert sentences(write, words, tagged=False) == [(["#nlp", "#", "b"], None, 2)]


def test_a_word_may_have_blanks_between_tabs(write):
    assert sentences(write, "1 000\tO\n\xa0\tO\n") == [(["1 000", "\xa0"], ["O", "O"], 1)]


def test_untagged(write):
    assert sentences(write, "Jim\nwas\n\nHe\n", tagged=False) == [
        (["Jim", "was"], None, 1),
        (["He"], None, 4),
    ]
    assert sentences(write, "Jim B-PER\n", tagged=False) == [(["Jim"], ["B-PER"], 1)]


def test_a_mark_at_the_end_is_no_word(write):
    assert sentences(write, "Jim B-PER\n\n\ufeff") == [(["Jim"], ["B-PER"], 1)]


@pytest.mark.parametrize(
    ("content", "row", "words", "options"),
    [
        ("Jim B-PER\n\nwas\n", 3, "'was' has no tag, expected O, B-… or I-…", {}),
        ("Jim\n", 1, "'Jim' has no tag", {}),
        ("Jim B-PER\nwas\n", 2, "'was' has no tag", {"tagged": False}),
        ("Jim B-PER\n#nlp\n", 2, "'#nlp' has no tag", {}),
        ("Jim B-PER\n#nlp B_X\n", 2, "the tag of '#nlp' is 'B_X'", {}),
        ("Jim O\n\n#nlp B_X\n", 3, "the tag of '#nlp' is 'B_X'", {}),
        ("Jim PER\n", 1, "the tag of 'Jim' is 'PER', expected O, B-…", {}),
        ("Jim NNP\n", 1, "or leave only the column of the words", {"tagged": False}),
        ("a B-\n", 1, "is 'B-'", {}),
        ("a o\n", 1, "is 'o'", {}),
        ("a 0\n", 1, "is '0'", {}),
        ("a L-PER\n", 1, "is 'L-PER'", {}),
        ("a\tB-X y\n", 1, "is 'B-X y'", {}),
        ("a O\nNew York B-LOC\n", 2, "3 columns, but the first line with a word has 2", {}),
        (
            "New\nNew York\n",
            2,
            "2 columns, but the first line with a word has 1",
            {"tagged": False},
        ),
        ("# a\n\n-DOCSTART- O\n", 1, "no words, expected lines such as 'Paris B-LOC'", {}),
        ("\n1\tJim\tB-PER\n2\twas\tO\n\n1\tHe\tO\n", 2, "the first column numbers the words", {}),
        ("a O\n\n" + "b" * 99 + " " + "c" * 99, 3, "…'", {}),
        (b"a O\n\xe4 O\n", 2, "byte 0xe4 is not UTF-8", {}),
        ("", 1, "the file is empty", {}),
    ],
)
def test_what_is_refused(write, content, row, words, options):
    refused(read_tagged, write("a.conll", content), row, words, **options)


@given(
    st.lists(st.lists(st.tuples(WORDS, TAGS), min_size=1, max_size=4), min_size=1, max_size=4),
    st.sampled_from([" ", "\t", "\tx\ty z\t"]),
)
def test_round_trip(tmp_path_factory, rows, separator):
    path = tmp_path_factory.mktemp("n") / "a.conll"
    blocks = ["\n".join(word + separator + tag for word, tag in sentence) for sentence in rows]
    path.write_text("\n\n".join(blocks), encoding="utf-8")
    starts = [1 + sum(len(sentence) + 1 for sentence in rows[:i]) for i in range(len(rows))]
    assert read_tagged(path) == [
        TaggedExample([word for word, _ in sentence], [tag for _, tag in sentence], start)
        for sentence, start in zip(rows, starts, strict=True)
    ]


@real_data
@pytest.mark.parametrize(
    ("name", "count", "words", "entities"),
    [
        ("wnut17train.conll", 3394, 62_730, 1975),
        ("emerging.dev.conll", 1009, 15_733, 835),
        ("emerging.test.annotated", 1287, 23_394, 1079),
    ],
)
def test_real_tweets(name, count, words, entities):
    examples = read_tagged(DATA / "wnut17" / name)
    assert len(examples) == count
    assert sum(len(example.words) for example in examples) == words
    tags = [tag for example in examples for tag in example.tags or []]
    assert len(tags) == words
    assert sum(tag.startswith("B-") for tag in tags) == entities
    assert any(word.startswith("#") for example in examples for word in example.words)
