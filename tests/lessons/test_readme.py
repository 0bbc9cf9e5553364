"""lessons/README.md says of each lesson what the lesson says of itself."""

from __future__ import annotations

import re

import pytest

from minibert.course.lessons import Lesson, all_lessons, published

TEXT = (published() / "README.md").read_text(encoding="utf-8")
ROWS = {
    int(number): (title, int(minutes), numbers_before)
    for number, title, minutes, numbers_before in re.findall(
        r"^\| (\d\d) \| (.+?) \| (\d+) \| (.+?) \| .+ \|$", TEXT, re.MULTILINE
    )
}
COURSES = {
    int(hours): (lessons, int(minutes))
    for hours, lessons, minutes in re.findall(
        r"^\| (\d+) hours \| ([\d to]+) \| (\d+) \| .+ \|$", TEXT, re.MULTILINE
    )
}
LESSONS = all_lessons()


def numbers(text: str) -> set[int]:
    """Return the numbers in a text.

    >>> numbers("lessons 1, 2 and 13"), numbers("nothing")
    ({1, 2, 13}, set())
    """
    return set(map(int, re.findall(r"\d+", text)))


def lessons_of(course: str) -> set[int]:
    """Return the numbers of a course's lessons.

    >>> lessons_of("01 02 05"), lessons_of("00 to 02")
    ({1, 2, 5}, {0, 1, 2})
    """
    if " to " in course:
        first, last = map(int, course.split(" to "))
        return set(range(first, last + 1))
    return numbers(course)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.path.stem)
def test_the_map_agrees_with_the_lesson(lesson: Lesson) -> None:
    facts = re.fullmatch(r"(\d+) minutes\.  Before it: (.+)\.", lesson.facts)
    assert facts is not None, lesson.facts
    title, minutes, before = ROWS[lesson.number]
    assert (title, minutes, numbers(before)) == (lesson.title, int(facts[1]), numbers(facts[2]))


def test_the_map_has_every_lesson_once_and_in_order() -> None:
    assert list(ROWS) == list(range(18))
    assert {lesson.number for lesson in LESSONS} <= set(ROWS)


def test_nothing_builds_on_what_comes_later() -> None:
    for number, (_, _, before) in ROWS.items():
        assert all(earlier < number for earlier in numbers(before)), number


@pytest.mark.parametrize("hours", COURSES)
def test_a_course_has_what_its_lessons_build_on(hours: int) -> None:
    course, minutes = COURSES[hours]
    lessons = lessons_of(course)
    for number in lessons:
        assert numbers(ROWS[number][2]) <= lessons, number
    assert minutes == sum(ROWS[number][1] for number in lessons)
    assert minutes <= 60 * hours


def test_there_are_three_courses() -> None:
    assert list(COURSES) == [3, 6, 12]


def test_the_glossary_has_about_forty_terms_in_order() -> None:
    terms = re.findall(r"^\| (.+) \| .*[一-鿿].* \|$", TEXT.split("## Glossary")[1], re.MULTILINE)[
        1:
    ]
    assert len(terms) >= 40
    assert terms == sorted(terms, key=str.lower)
