TITLES = {
    "decoder's table without dloss": "dtable lacks dloss",
    "decoder's dloss squared in dx": "dx has dloss twice",
    "decoder's table 1 % too large": "dtable is 1.009 times the right value",
    "decoder's bias averaged": "dbias: M times too small",
    "last token of the vocabulary missing": (
        "dtable: only the last token of the vocabulary is wrong"
    ),
    "rows taken twice, written once": "a place that was taken twice keeps one gradient only",
}
