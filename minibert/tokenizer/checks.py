"""Arguments of the wrong kind: one line that names the argument, what came and the way out."""

from __future__ import annotations


def check_text(text: object, name: str) -> str:
    """Return `text` where it is a str, else raise TypeError."""
    if isinstance(text, str):
        return text
    if isinstance(text, (bytes, bytearray)):
        raise TypeError(
            f"{name} must be a str, got {type(text).__name__}: "
            "decode it first, data.decode('utf-8', errors='replace')"
        )
    remedy = "use '' for no text" if text is None else "convert it with str(), or pass texts singly"
    raise TypeError(f"{name} must be a str, got {type(text).__name__}: {remedy}")


def check_texts(texts: object, name: str) -> list[str]:
    """Return the texts as a list; a lone string is refused, it would be taken letter by letter."""
    if isinstance(texts, (str, bytes, bytearray)) or not hasattr(texts, "__iter__"):
        raise TypeError(
            f"{name} must be a sequence of str, got one {type(texts).__name__}: pass a list"
        )
    return [check_text(text, f"{name}[{i}]") for i, text in enumerate(texts)]  # pyright: ignore


def check_count(value: object, name: str, least: int, why: str = "") -> int:
    """Return `value` where it is an int of at least `least`, else raise TypeError or ValueError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}: {value!r:.40}")
    if value < least:
        raise ValueError(f"{name} is {value}, but must be at least {least}{why}")
    return value
