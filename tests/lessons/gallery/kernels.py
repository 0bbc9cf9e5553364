TITLES: dict[str, str] = {}
"""The gallery has backwards only, and no kernel is one of its places."""
