TITLES = {
    "missing 1/√D": "1/√D is missing on the way back",
    "1/√C for 1/√D": "the root is of C, not of D",
    "1/D for 1/√D": "1/D stands for 1/√D",
    "padding mask missing in the backward": "the padding mask is missing",
    "attention's softmax without its sum term": "softmax's backward lacks its sum",
    "no dropout on the way to the scores": "no dropout on the way to the scores",
    "undropped weights for dv": "dv uses the weights before dropout",
    "another dropout mask in attention's backward": (
        "dropout's backward has another mask than its forward"
    ),
    "dq from q": "dq is made from q",
    "dk from k": "dk is made from k",
    "dk and dv exchanged": "dk holds what dv should be",
    "heads merged in the wrong order": "the heads' columns are interleaved",
    "heads not moved back": "the heads are not moved back before reshape",
}
