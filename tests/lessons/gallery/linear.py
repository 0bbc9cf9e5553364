TITLES = {
    "weight not transposed back": "W is transposed in dx",
    "dx from x": "dx is made from x, not from dy",
    "dweight transposed": "dW is transposed",
    "dweight averaged over rows": "dW is averaged over the rows",
    "dweight of the first sequence only": "dW is that of the first sequence only",
    "dbias of one row only": "db is that of one row only",
    "dbias averaged over rows": "db is averaged over the rows",
    "dbias with the weight": "db has the weight in it",
}
