from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from minibert.checkpoint.tensors import write_tensors
from minibert.checkpoint.weights import load_weights
from minibert.models.pretraining import BertForPreTraining

from .conftest import Arrays, refusal, save

WORD, BIAS = "bert.embeddings.word_embeddings.weight", "cls.predictions.bias"
QUERY = "bert.encoder.layer.1.attention.self.query.weight"


def legacy(name: str) -> str:
    name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
    return name.replace("LayerNorm.bias", "LayerNorm.beta")


LAYOUTS: dict[str, Callable[[Arrays], Arrays]] = {
    "plain": lambda a: a,
    "position_ids": lambda a: {**a, "bert.embeddings.position_ids": np.arange(17)[None]},
    "decoder": lambda a: {
        **a,
        "cls.predictions.decoder.weight": a[WORD],
        "cls.predictions.decoder.bias": a[BIAS],
    },
    "decoder alone": lambda a: {
        {WORD: "cls.predictions.decoder.weight", BIAS: "cls.predictions.decoder.bias"}.get(n, n): x
        for n, x in a.items()
    },
    "no prefix": lambda a: {name.removeprefix("bert."): x for name, x in a.items()},
    "gamma and beta": lambda a: {legacy(name): x for name, x in a.items()},
    "another order": lambda a: dict(sorted(a.items(), reverse=True)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_published_layouts_load_to_the_same_values(
    tmp_path: Path,
    arrays: Arrays,
    model: BertForPreTraining,
    other: BertForPreTraining,
    layout: str,
) -> None:
    load_weights(other.params, save(tmp_path, LAYOUTS[layout](arrays)))
    np.testing.assert_array_equal(other.params.value, model.params.value)


def test_everything_wrong_is_listed_at_once(
    tmp_path: Path, arrays: Arrays, other: BertForPreTraining
) -> None:
    del arrays[QUERY]
    arrays["classifier.weight"] = np.ones((3, 12), np.float32)
    arrays[BIAS] = np.ones(9, np.float32)
    arrays["cls.seq_relationship.bias"] = np.ones(2, np.int32)
    message = refusal(other, save(tmp_path, arrays))
    assert f"missing: {QUERY} (12, 12)" in message
    assert "unexpected: classifier.weight (3, 12)" in message
    assert f"of another shape: {BIAS} (9,) instead of (22,)" in message
    assert "of a dtype other than F32, F64, F16, BF16: cls.seq_relationship.bias I32" in message


def test_long_lists_are_cut(tmp_path: Path, arrays: Arrays, other: BertForPreTraining) -> None:
    message = refusal(other, save(tmp_path, {WORD: arrays[WORD]}))
    assert f"and {len(arrays) - 1 - 8} more" in message


def test_a_decoder_of_its_own_is_refused(
    tmp_path: Path, arrays: Arrays, other: BertForPreTraining
) -> None:
    arrays["cls.predictions.decoder.weight"] = arrays[WORD] + 1
    message = refusal(other, save(tmp_path, arrays))
    assert f"tied in minibert, but stored with different values: {WORD} and cls" in message


def write_bfloat16(path: Path, arrays: Arrays) -> Arrays:
    """Write the upper half of every float32; return what that stands for."""
    header, content, kept = {}, b"", {}
    for name, array in arrays.items():
        upper = (array.view(np.uint32) >> 16).astype("<u2")
        stop = len(content) + upper.nbytes
        header[name] = {
            "dtype": "BF16",
            "shape": array.shape,
            "data_offsets": [len(content), stop],
        }
        content += upper.tobytes()
        kept[name] = (upper.astype(np.uint32) << 16).view(np.float32)
    raw = json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + content)
    return kept


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_widths(
    tmp_path: Path, arrays: Arrays, other: BertForPreTraining, dtype: str
) -> None:
    """Narrow numbers are widened exactly; a float64 is rounded to the model's float32."""
    if dtype == "bfloat16":
        wanted = write_bfloat16(tmp_path / "model.safetensors", arrays)
    else:
        wanted = {name: array.astype(dtype) for name, array in arrays.items()}
        save(tmp_path, wanted)
    load_weights(other.params, tmp_path)
    for name, array in wanted.items():
        np.testing.assert_array_equal(other.params[name].value, array.astype(np.float32))


def shard(folder: Path, arrays: Arrays) -> dict[str, str]:
    """Write the arrays as two files with an index, and return the index's map."""
    names = list(arrays)
    parts = {"model-00001-of-00002.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, part in parts.items():
        write_tensors(folder / file, {name: arrays[name] for name in part})
    places = {name: file for file, part in parts.items() for name in part}
    write_index(folder, places)
    return places


def write_index(folder: Path, places: object) -> None:
    text = json.dumps({"metadata": {"total_size": 1}, "weight_map": places})
    (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")


def test_shards(
    tmp_path: Path, arrays: Arrays, model: BertForPreTraining, other: BertForPreTraining
) -> None:
    shard(tmp_path, arrays)
    load_weights(other.params, tmp_path)
    np.testing.assert_array_equal(other.params.value, model.params.value)


def test_shards_with_something_wrong(
    tmp_path: Path, arrays: Arrays, other: BertForPreTraining
) -> None:
    places = shard(tmp_path, arrays)
    (tmp_path / "model-2.safetensors").rename(tmp_path / "elsewhere")
    assert "names files that are not there: model-2.safetensors" in refusal(other, tmp_path)
    (tmp_path / "elsewhere").rename(tmp_path / "model-2.safetensors")
    write_index(tmp_path, {**places, "x.weight": "model-2.safetensors"})
    assert "not there: x.weight in model-2.safetensors" in refusal(other, tmp_path)
    write_index(tmp_path, {**places, "x.weight": "../../secret"})
    assert "not there: ../../secret" in refusal(other, tmp_path)
    for damage in ([], 3, None):
        write_index(tmp_path, damage)
        assert "index.json is damaged" in refusal(other, tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text("{", encoding="utf-8")
    assert "index.json is damaged" in refusal(other, tmp_path)


def test_pickles_are_never_opened(tmp_path: Path, other: BertForPreTraining) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")
    message = refusal(other, tmp_path)
    assert "pytorch_model.bin, a pickle" in message
    assert "weights_only=True" in message
    assert [path.name for path in tmp_path.iterdir()] == ["pytorch_model.bin"]


def test_no_weights_at_all(tmp_path: Path, other: BertForPreTraining) -> None:
    (tmp_path / ".model.safetensors.77.tmp").write_bytes(b"the leftover of a killed process")
    assert "has no model.safetensors" in refusal(other, tmp_path)


def test_cut_short(tmp_path: Path, arrays: Arrays, other: BertForPreTraining) -> None:
    path = save(tmp_path, arrays) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert "model.safetensors is cut short" in refusal(other, tmp_path)


@pytest.mark.parity
def test_the_command_that_converts_a_pickle(
    tmp_path: Path, arrays: Arrays, model: BertForPreTraining, other: BertForPreTraining
) -> None:
    torch = pytest.importorskip("torch")
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    tensors["cls.predictions.decoder.weight"] = tensors[WORD]  # shares its memory
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    message = refusal(other, tmp_path)
    code = message[message.index('-c "') + 4 : -1]
    subprocess.run([sys.executable, "-c", code], check=True)
    load_weights(other.params, tmp_path)
    np.testing.assert_array_equal(other.params.value, model.params.value)
