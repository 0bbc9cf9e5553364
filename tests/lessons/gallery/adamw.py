TITLES = {
    "L2 in the gradient for AdamW's decay": "the decay is added to the gradient",
    "decay without the learning rate": "the decay lacks the learning rate",
    "no bias correction": "the moments are not corrected",
    "AdamW's ε inside the root": "ε stands inside the root",
    "second moment of the absolute value": "v averages |g|",
}
