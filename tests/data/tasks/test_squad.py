import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.data.tasks import Answer, QuestionExample, read_questions

from .common import DATA, TEXTS, TRICKY, real_data, refused

PASSAGE = "The force β where  is the mass\r\nof 💩 it."


def qa(id="q1", question="What?", **fields):
    return {"id": id, "question": question, **fields}


def gold(text: str, start: int | None = None):
    return {"text": text, "answer_start": PASSAGE.index(text) if start is None else start}


def squad(*qas, context=PASSAGE) -> str:
    return json.dumps(
        {"version": "1.1", "data": [{"paragraphs": [{"context": context, "qas": qas}]}]}
    )


def flat(**fields) -> str:
    return json.dumps({"id": "q1", "question": "What?", "context": PASSAGE, **fields})


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_squad_with_hard_offsets(write, name):
    answers = [gold("where  is the mass"), gold("mass\r\nof"), gold("it")]
    found = read_questions(write(name, "\ufeff" + squad(qa(answers=answers), qa("q2", answers=[]))))
    assert found == [
        QuestionExample(
            "q1", "What?", PASSAGE, [Answer(a["text"], a["answer_start"]) for a in answers], 1
        ),
        QuestionExample("q2", "What?", PASSAGE, [], 2),
    ]
    assert found[0].answers == [(text, PASSAGE.index(text)) for text, _ in found[0].answers]


def test_impossible_questions(write):
    content = squad(
        qa("a", answers=[gold("mass")], is_impossible=False),
        qa("b", answers=[], is_impossible=True, plausible_answers=[gold("force")]),
        qa("c", is_impossible=True),
    )
    assert [e.answers for e in read_questions(write("a.json", content))] == [
        [("mass", PASSAGE.index("mass"))],
        [],
        [],
    ]


def test_flat_forms(write):
    answers = {"text": ["mass", "it"], "answer_start": [PASSAGE.index("mass"), PASSAGE.index("it")]}
    expected = [Answer("mass", PASSAGE.index("mass")), Answer("it", PASSAGE.index("it"))]
    lines = flat(answers=answers) + "\n\n" + flat(id="q2", answers={"text": [], "answer_start": []})
    wanted = [
        QuestionExample("q1", "What?", PASSAGE, expected, 1),
        QuestionExample("q2", "What?", PASSAGE, [], 3),
    ]
    for name in ("a.jsonl", "a.ndjson", "a.json", "a.jsonl.gz"):
        assert read_questions(write(name, lines)) == wanted
    assert read_questions(write("a.json", "[" + lines.replace("\n\n", "\n,\n") + "]")) == wanted
    data = json.dumps({"data": [json.loads(flat(answers=answers))]})
    assert read_questions(write("a.json", data)) == wanted[:1]
    listed = flat(answers=[gold("mass"), gold("it")])
    assert read_questions(write("a.json", listed)) == wanted[:1]


def test_ids(write):
    line = '{"question": "a", "passage": "b", "answers": []}\n'
    found = read_questions(write("a.jsonl", line + "\n" + line + '{"id": 7, ' + line[1:]))
    assert [(e.id, e.row, e.passage) for e in found] == [
        ("1", 1, "b"),
        ("3", 3, "b"),
        ("7", 4, "b"),
    ]
    with_repeats = squad(qa(answers=[]), qa(answers=[]))
    refused(
        read_questions, write("a.json", with_repeats), None, "question 2 (id 'q1')", "question 1:"
    )
    repeated = write("a.jsonl", flat(answers=[]) + "\n" + flat(answers=[]))
    refused(read_questions, repeated, 2, "(id 'q1')", "also that of line 1: give each one")


def test_half_characters(write):
    line = flat(context="ok\ud800bad", answers=[{"text": "\ud800b", "answer_start": 2}])
    assert read_questions(write("a.jsonl", line))[0][2:4] == ("ok\ufffdbad", [("\ufffdb", 2)])


@pytest.mark.parametrize(
    ("text", "start", "there"),
    [
        ("mass", 0, "'The '"),
        ("where is the mass", 12, "'where  is the mas'"),
        ("mass", -5, "nothing"),
        ("mass", 999, "''"),
        ("", 4, "''"),
        ("  ", 17, "'  '"),
        ("Mass", PASSAGE.index("mass"), "'mass'"),
    ],
)
def test_answers_that_do_not_stand_there(write, text, start, there):
    content = squad(
        qa(answers=[gold(text, start), gold("mass")]), qa("q2", answers=[gold(text, start)])
    )
    path = write("a.json", content)
    lines: list[str] = []
    (only,) = read_questions(path, report=lines.append)
    assert only.answers == [("mass", PASSAGE.index("mass"))]
    assert lines == [
        f"{path}, question 1 (id 'q1'): the answer {text!r} is left out, at character {start} of "
        f"the passage stands {there}",
        f"{path}, question 2 (id 'q2'): the answer {text!r} is left out, at character {start} of "
        f"the passage stands {there}",
        f"{path}, question 2 (id 'q2'): left out, none of its answers stands in the passage",
    ]
    assert read_questions(path) == [only]
    lines.clear()
    kept = read_questions(path, answered=False, report=lines.append)
    assert [example.answers for example in kept] == [only.answers, None]  # not []: it is not known
    assert len(lines) == 2
    alone = write("b.json", squad(qa(answers=[gold(text, start)])))
    refused(
        read_questions,
        alone,
        None,
        "none of the 1 questions has an answer",
        "were bytes or tokens counted?",
    )


def test_unanswered(write):
    content = squad(
        qa(), qa("q2", answers=[gold("mass")]), qa("q3", answers=[], is_impossible=False)
    )
    path = write("a.json", content)
    assert [example.answers for example in read_questions(path, answered=False)] == [
        None,
        [("mass", PASSAGE.index("mass"))],
        None,
    ]
    refused(read_questions, path, None, "question 1 (id 'q1'): no answers, expected text and")


@pytest.mark.parametrize(
    ("name", "content", "place", "words"),
    [
        ("a.json", squad(qa(answers=[gold("mass")]))[:-9], "line 1, column", "not JSON (expecting"),
        (
            "a.json",
            '{"data": [\n{"paragraphs": [\n{"context": "ab',
            "line 3,",
            "cut off or damaged",
        ),
        ("a.json", '{"data": ' + "[" * 100_000, "line 1:", "nested too deeply"),
        ("a.jsonl", flat(answers=[]) + '\n{"id": "q2"', "line 2, column", "not JSON"),
        ("a.json", flat(answers=[]) + '\n{"id": "q2"', "line 2, column", "not JSON"),
        ("a.json", "{}", "line 1:", "no list 'data', expected SQuAD JSON"),
        ("a.json", '{"data": 3}', "line 1:", "no list 'data'"),
        ("a.json", '{"data": []}', "line 1:", "no questions in it"),
        ("a.json", '{"data": [3]}', "data[0]:", "no list 'paragraphs'"),
        ("a.json", '{"data": [{"paragraphs": [{}]}]}', "data[0].paragraphs[0]:", "no list 'qas'"),
        ("a.json", squad(3), "question 1:", "found a number"),
        ("a.json", "5", "line 1:", "found a number"),
        (
            "a.json",
            squad(qa(answers=[]), context=None),
            "question 1 (id 'q1'):",
            "context is missing",
        ),
        (
            "a.json",
            squad(qa(answers=[]), context=" "),
            "question 1 (id 'q1'):",
            "the context is ' '",
        ),
        (
            "a.json",
            squad(qa(question=5, answers=[])),
            "question 1 (id 'q1'):",
            "question is a number",
        ),
        ("a.json", squad(qa(id=True, answers=[])), "question 1:", "the id is true or false"),
        ("a.json", squad(qa(answers="mass")), "question 1 (id 'q1'):", "the answers are 'mass'"),
        (
            "a.json",
            squad(qa(answers=["mass"])),
            "question 1 (id 'q1'):",
            "an answer without a text",
        ),
        ("a.json", squad(qa(answers=[{"text": "mass"}])), "question 1 (id 'q1'):", "whole number"),
        ("a.json", squad(qa(answers=[{"text": "a", "answer_start": "4"}])), "question 1", "whole"),
        ("a.json", squad(qa(answers=[{"text": "a", "answer_start": True}])), "question 1", "whole"),
        ("a.json", squad(qa(answers=[gold("it")], is_impossible=True)), "question 1", "remove one"),
        ("a.json", squad(qa(answers=[], is_impossible=False)), "question 1", "correct one"),
        (
            "a.jsonl",
            "\n" + flat(),
            "line 2 (id 'q1'):",
            "no answers, expected text and answer_start",
        ),
        (
            "a.jsonl",
            flat(answers={"text": ["a"]}),
            "line 1 (id 'q1'):",
            "no two lists of one length",
        ),
        ("a.jsonl", flat(answers={"text": ["a"], "answer_start": []}), "line 1", "one length"),
        ("a.jsonl", '{"id": "x"}', "line 1 (id 'x'):", "the question is missing"),
    ],
)
def test_what_is_refused(write, name, content, place, words):
    path = write(name, content)
    with pytest.raises(ValueError) as error:  # noqa: PT011
        read_questions(path)
    message = str(error.value)
    assert message.startswith(f"{path}, {place}")
    assert words in message
    assert "\n" not in message


@given(st.data())
def test_round_trip(tmp_path_factory, data):
    passage = data.draw(TEXTS | TRICKY)
    start = data.draw(st.integers(0, len(passage) - 1))
    text = passage[start : data.draw(st.integers(start + 1, len(passage)))]
    kept = bool(text.strip())
    path = tmp_path_factory.mktemp("q") / "a.json"
    answers = {"text": [text], "answer_start": [start]}
    spare = {
        "id": "spare",
        "question": "?",
        "context": "x",
        "answers": {"text": [], "answer_start": []},
    }
    lines = [
        json.dumps({**spare, "id": "q", "context": passage, "answers": answers}),
        json.dumps(spare),
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    found = read_questions(path)
    assert [example.id for example in found] == ["q", "spare"][not kept :]
    if kept:
        assert found[0] == QuestionExample("q", "?", passage, [Answer(text, start)], 1)


@real_data
@pytest.mark.parametrize("language", ["en", "zh"])
def test_real_questions(language):
    lines: list[str] = []
    examples = read_questions(DATA / "xquad" / f"xquad.{language}.json", report=lines.append)
    assert lines == []
    assert len(examples) == 1190
    assert len({example.passage for example in examples}) == 240
    assert [example.row for example in examples] == list(range(1, 1191))
    assert all(
        example.passage[start : start + len(text)] == text
        for example in examples
        for text, start in example.answers or []
    )
    assert all(example.answers for example in examples)
