TITLES = {
    "dropout mask drawn anew": "another mask than the forward's",
    "dropout not scaled in the backward": "the factor 1 / (1 - rate) is forgotten",
    "dropout scaled by 1 / rate": "scaled by 1 / rate",
    "dropout passed through": "dropped numbers get a gradient",
    "residual branch forgotten": "the residual's gradient is forgotten",
    "dropout on the residual too": "dropout is applied to the residual too",
    "no dropout in the backward": "dropout is left out on the way back",
    "gradient halved between the two terms": "the gradient is shared out between the two terms",
}
