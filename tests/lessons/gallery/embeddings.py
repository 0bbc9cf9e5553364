TITLES = {
    "scatter by fancy-index +=": "of a repeated token only one gradient is kept",
    "segments by fancy-index +=": "of each segment only one gradient is kept",
    "positions of the first sequence only": "positions get the first sequence's gradient only",
    "positions averaged over the batch": "positions are averaged over the batch",
    "token 0 never learns": "token 0 gets no gradient",
    "divided by how often a token comes": "divided by how often a token comes",
    "last column of the table lost": "the last column of the token table stays 0",
    "segments exchanged": "the two segments are exchanged",
}
