import inspect
from collections import Counter

import pytest

from minibert.gradcheck import KinkError
from minibert.ops import get_ops
from tests.gallery import MISTAKES, TOPICS, Mistake, __main__, planted, rejection
from tests.gallery.attention import attention_with
from tests.gallery.encoder import ENCODER, encoder_with
from tests.gallery.layernorm import sample_backward
from tests.gallery.mistake import NUMPY
from tests.gallery.optimisation import STEP, adamw_with, step_with
from tests.gallery.weak import WEAK_TESTS, accepts, right_backward_fails
from tests.gradients import SUITE

BY_NAME = {mistake.name: mistake for mistake in MISTAKES}


@pytest.mark.parametrize("name", BY_NAME)
def test_mistake_is_rejected_by_its_check(name: str) -> None:
    mistake = BY_NAME[name]
    found = rejection(mistake)
    assert found is not None
    check, error = found
    assert check == mistake.check
    assert "wrong" in str(error)
    assert not isinstance(error, KinkError)


def test_right_backward_passes_the_weak_tests() -> None:
    """Of two whole models one is enough here; the command line runs both."""
    assert right_backward_fails(c for n, c in SUITE.items() if n != "whole model") == []


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        ("attention", {"attention_backward": attention_with(lambda *_: {})}),
        ("EncoderLayer", {ENCODER: encoder_with()}),
        ("EncoderLayer, some places", {ENCODER: encoder_with()}),
        ("accumulation of micro-batches", {STEP: step_with()}),
        ("clipping after accumulation", {STEP: step_with()}),
        ("AdamW by hand", {"adamw": adamw_with(lambda given: {})}),
    ],
)
def test_written_out_without_a_mistake_it_passes(check: str, wrong) -> None:
    """So what is rejected above is the one changed line."""
    with planted(Mistake("none", "", "linear", check, wrong)) as ops:
        SUITE[check](ops)


def test_everything_is_right_again_afterwards() -> None:
    before = {name: getattr(NUMPY, name) for name in dir(NUMPY)}
    for mistake in MISTAKES:
        with planted(mistake):
            pass
    assert {name: getattr(NUMPY, name) for name in dir(NUMPY)} == before
    for check in SUITE.values():
        check(get_ops("numpy"))


def slips(name: str) -> set[str]:
    mistake = BY_NAME[name]
    with planted(mistake) as ops:
        check = SUITE[mistake.weak or mistake.check]
        return {test.name for test in WEAK_TESTS if accepts(test, check, ops)}


@pytest.mark.parametrize(
    ("name", "test"),
    [
        ("γ outside LayerNorm's means", "fresh"),
        ("scatter by fancy-index +=", "easy"),
        ("ignored labels counted", "easy"),
        ("padding mask missing in the backward", "easy"),
        ("average of micro-batch averages", "easy"),
        ("clipping per micro-batch", "easy"),
        ("GELU's backward of the tanh form", "float32"),
        ("GELU's backward of the tanh form", "abs"),
        ("missing 1/√D", "abs"),
        ("softmax as if element by element", "abs"),
        ("missing 1/N", "ones"),
    ],
)
def test_what_slips_through_a_weak_test(name: str, test: str) -> None:
    assert test in slips(name)


def test_no_gradient_check_sees_a_mistake_that_forward_and_backward_share() -> None:
    name = "n - 1 variance in forward and backward"
    assert slips(name) == {test.name for test in WEAK_TESTS}
    assert BY_NAME[name].wrong["layernorm_backward"] is sample_backward


def test_entries_are_complete() -> None:
    assert len(MISTAKES) == len(BY_NAME) >= 40
    assert {mistake.topic for mistake in MISTAKES} == set(TOPICS)
    for mistake in MISTAKES:
        assert mistake.check in SUITE
        assert not mistake.weak or mistake.weak in SUITE
        assert mistake.why.endswith(".")
        assert len(mistake.name) <= 48
        assert len(mistake.why) <= 100
    assert Counter(m.topic for m in MISTAKES)["layernorm"] >= 8


def test_table_and_exit_status(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    chosen = [BY_NAME["missing 1/√D"], BY_NAME["decay on LayerNorm"]]
    monkeypatch.setattr(__main__, "MISTAKES", chosen)
    monkeypatch.setattr(__main__, "failures_of_the_right_one", list)
    assert __main__.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert any(line.split()[-6:] == ["rejected", "caught", "caught", "caught", "caught", "SLIPS"]
               for line in lines)  # fmt: skip
    assert any(line.startswith("2 of 2 mistakes rejected by the suite; 1 slip") for line in lines)

    right = Mistake("no mistake", "It is right.", "linear", "linear", {"linear_backward":
                    NUMPY.linear_backward})  # fmt: skip
    monkeypatch.setattr(__main__, "MISTAKES", [*chosen, right])
    assert __main__.main() == 1
    assert "ACCEPTED" in capsys.readouterr().out
    assert inspect.getdoc(__main__)
