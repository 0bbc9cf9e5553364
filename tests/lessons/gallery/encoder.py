TITLES = {
    "residual around attention forgotten": "the residual around attention is missing",
    "residual around the feed-forward forgotten": (
        "the residual around the feed-forward is forgotten"
    ),
    "no gradient from the queries to x": "the part of the queries is missing",
    "no gradient from keys and values to x": "the part of the keys and values is missing",
    "no gradient through the feed-forward to x": "nothing comes back through the feed-forward",
    "residual added twice": "the residual around attention is there twice",
}
