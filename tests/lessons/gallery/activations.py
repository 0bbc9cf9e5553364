TITLES = {
    "GELU's backward of the tanh form": "it is the slope of the tanh form",
    "tanh form's backward of the exact GELU": "it is the slope of the exact GELU",
    "GELU without x φ(x)": "the x φ(x) term is missing",
    "GELU with φ in place of x φ": "φ lacks its factor x",
    "GELU with x Φ + φ": "the factors have changed places",
    "tanh form without the cubic's 3": "the cubic's 3 is missing",
    "tanh form with 0.134 for 0.134145": "0.134 stands for 3 · 0.044715",
    "ReLU's value for its slope": "dy is multiplied by the value, not by the slope",
    "ReLU always open": "every gradient passes",
    "ReLU by the sign of dy": "the forward is applied to dy",
}
