TITLES: dict[str, str] = {}  # the gallery has none of masking
