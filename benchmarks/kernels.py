"""Is every operation fast?  python benchmarks/kernels.py [--quick] [--json FILE]

Each operation, forward and backward, against PyTorch's (torch.nn.functional, its backward by
autograd) where that is installed, and against the NumPy reference.  The sizes are those of one
training step of the preset "tiny": 32 rows of 64 tokens, 300 of them masked, a vocabulary of 4,096,
dropout 0.1, float32.

Results are compared before anything is timed, without dropout, as PyTorch draws it otherwise;
minibert's two backends drop the same elements, and are compared with dropout, too.

The last column is how often a training step calls the operation, and the last row weighs with it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from programs import Calls, Program, Ratio, check_equal, take_turns
from report import Figure, finish, installed, new_parser, parse, positive

B, T, C, F, V, M, HEADS, SEED, EPS = 32, 64, 128, 512, 4096, 300, 2, 12345, 1e-12
RATE = 0.1
WEIGHTS, DECAYED = 1_000_000, 900_000  # of AdamW's buffers
CLOSE = 2e-5
PER_STEP = {
    "linear forward": 8, "linear backward": 8, "feedforward forward": 2, "feedforward backward": 2,
    "embedding forward": 1, "embedding backward": 1, "layernorm forward": 1,
    "layernorm backward": 1, "add_norm forward": 4, "add_norm backward": 4, "dropout forward": 1,
    "dropout backward": 1, "attention forward": 2,
    "attention backward": 2, "vocab_cross_entropy forward": 1, "vocab_cross_entropy backward": 1,
    "global_norm": 1, "adamw": 1,
}  # fmt: skip


def numbers() -> dict[str, Any]:
    """Return the arguments of all operations, the same for every program."""
    generator = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape).astype(np.float32)

    ids = generator.integers(0, V, (B, T)).astype(np.int32)
    found: dict[str, Any] = {
        "x": normal(B, T, C), "y": normal(B, T, C), "dy": normal(B, T, C),
        "wide": normal(B, T, F), "dwide": normal(B, T, F), "ids": ids, "kinds": ids % 2,
        "labels": ids.reshape(-1)[:M].copy(),
        "mask": np.arange(T) < generator.integers(T // 2, T + 1, (B, 1, 1)),
        "gain": normal(C), "shift": normal(C), "rows": normal(M, C), "bias": normal(V),
        "word": normal(V, C), "position": normal(T, C), "kind": normal(2, C),
        "buffers": [normal(WEIGHTS) for _ in range(3)] + [normal(WEIGHTS) ** 2],
    }  # fmt: skip
    found["linear"] = [normal(C, C), normal(C)]
    scale = np.float32(C**-0.5)  # else what is before GELU would lie where its slope is 0 or 1
    found["feedforward"] = [normal(F, C) * scale, normal(F), normal(C, F), normal(C)]
    return found


def optimizer_settings(checked: bool) -> dict[str, Any]:
    """Return the first step's settings; timed again and again, numbers have to stay what they are.

    So the rate is tiny then, and the factor of clipping, which torch applies in place, is 1.
    """
    return {
        "lr": 1e-2 if checked else 1e-9, "beta1": 0.9, "beta2": 0.999, "eps": 1e-6,
        "decay": 0.01, "decayed": DECAYED, "correction1": 0.1, "correction2": 0.001,
        "grad_scale": 0.5 if checked else 1.0,
    }  # fmt: skip


def operations(backend: str, checked: bool) -> Calls:
    """Return minibert's operations with their arguments; ``checked``: without dropout."""
    from minibert.ops import get_ops

    ops, given, rate = get_ops(backend), numbers(), 0.0 if checked else RATE
    x, y, dy, wide, dwide = (given[name] for name in ("x", "y", "dy", "wide", "dwide"))
    gain, shift, mask, rows = (given[name] for name in ("gain", "shift", "mask", "rows"))
    tables = given["word"], given["position"], given["kind"]
    ids = given["ids"], given["kinds"]
    _, x_hat, rstd = ops.layernorm_forward(x, gain, shift, EPS)
    _, sum_hat, sum_rstd = ops.add_norm_forward(x, y, gain, shift, EPS, rate, SEED)
    _, lse = ops.attention_forward(x, y, dy, mask, HEADS, rate, SEED)
    vocabulary = rows, given["word"], given["bias"], given["labels"]
    _, _, dlogits = ops.vocab_cross_entropy_forward(*vocabulary)
    probs = ops.softmax_forward(wide)
    weight1, _, weight2, _ = given["feedforward"]
    _, before, behind = ops.feedforward_forward(x, *given["feedforward"], "gelu")
    arguments: dict[str, tuple[Any, ...]] = {
        "linear forward": (x, *given["linear"]),
        "linear backward": (dy, x, given["linear"][0]),
        "feedforward forward": (x, *given["feedforward"], "gelu"),
        "feedforward backward": (dy, x, before, behind, weight1, weight2, "gelu"),
        "embedding forward": (*ids, *tables),
        "embedding backward": (dy, *ids, (V, T, 2)),
        "layernorm forward": (x, gain, shift, EPS),
        "layernorm backward": (dy, x_hat, rstd, gain),
        "add_norm forward": (x, y, gain, shift, EPS, rate, SEED),
        "add_norm backward": (dy, sum_hat, sum_rstd, gain, rate, SEED),
        "dropout forward": (x, rate, SEED),
        "dropout backward": (dy, rate, SEED),
        "gelu forward": (wide,),
        "gelu backward": (dwide, wide),
        "gelu_tanh forward": (wide,),
        "gelu_tanh backward": (dwide, wide),
        "softmax forward": (wide,),
        "softmax backward": (dwide, probs),
        "attention forward": (x, y, dy, mask, HEADS, rate, SEED),
        "attention backward": (dy, x, y, dy, mask, lse, HEADS, rate, SEED),
        "vocab_cross_entropy forward": vocabulary,
        "vocab_cross_entropy backward": (1 / M, dlogits, rows, given["word"]),
        "global_norm": (given["buffers"][1],),
    }
    calls: Calls = {}
    for name, inputs in arguments.items():
        calls[name] = partial(getattr(ops, name.replace(" ", "_")), *inputs)
    value, grad, moment1, moment2 = given["buffers"]
    settings = optimizer_settings(checked)

    def adamw() -> np.ndarray:
        ops.adamw(value, grad, moment1, moment2, **settings)
        return value

    calls["adamw"] = adamw
    return calls


def in_torch(checked: bool) -> Calls:
    """Return PyTorch's operations, each backward the gradient of a graph that is kept."""
    import torch
    from torch.nn import functional

    rate = 0.0 if checked else RATE
    given = {
        name: [torch.from_numpy(array.copy()) for array in value]
        if isinstance(value, list)
        else torch.from_numpy(value.copy())
        for name, value in numbers().items()
    }
    ids, kinds, labels = (given[name].long() for name in ("ids", "kinds", "labels"))
    mask = given["mask"][:, None]  # (B, 1, 1, T)
    calls: Calls = {}

    def pair(name: str, function: Any, sources: Sequence[Any], upstream: Any) -> None:
        """Add a forward, and the backward that sends ``upstream`` to every source."""
        leaves = [source.clone().requires_grad_() for source in sources]
        result = function(*leaves)
        calls[f"{name} forward"] = partial(function, *leaves)
        calls[f"{name} backward"] = partial(
            torch.autograd.grad, result, leaves, upstream, retain_graph=True
        )

    def feedforward(x: Any, weight1: Any, bias1: Any, weight2: Any, bias2: Any) -> Any:
        bent = functional.gelu(functional.linear(x, weight1, bias1))
        return functional.linear(bent, weight2, bias2)

    def embedding(word: Any, position: Any, kind: Any) -> Any:
        return functional.embedding(ids, word) + position + functional.embedding(kinds, kind)

    def norm(x: Any, gain: Any, shift: Any) -> Any:
        return functional.layer_norm(x, (C,), gain, shift, EPS)

    def add_norm(x: Any, residual: Any, gain: Any, shift: Any) -> Any:
        return norm(functional.dropout(x, rate) + residual, gain, shift)

    def heads(x: Any) -> Any:  # (B, T, C) → (B, H, T, D)
        return x.unflatten(-1, (HEADS, C // HEADS)).transpose(1, 2)

    def attention(q: Any, k: Any, v: Any) -> Any:
        context = functional.scaled_dot_product_attention(
            heads(q), heads(k), heads(v), attn_mask=mask, dropout_p=rate
        )
        return context.transpose(1, 2).flatten(2)

    def vocabulary(rows: Any, table: Any, bias: Any) -> Any:
        scores = functional.linear(rows, table, bias)
        return functional.cross_entropy(scores, labels, reduction="sum")

    x, y, dy, wide, dwide = (given[name] for name in ("x", "y", "dy", "wide", "dwide"))
    gain, shift, rows, word = (given[name] for name in ("gain", "shift", "rows", "word"))
    pair("linear", functional.linear, (x, *given["linear"]), dy)
    pair("feedforward", feedforward, (x, *given["feedforward"]), dy)
    pair("embedding", embedding, (word, given["position"], given["kind"]), dy)
    pair("layernorm", norm, (x, gain, shift), dy)
    pair("add_norm", add_norm, (x, y, gain, shift), dy)
    pair("dropout", partial(functional.dropout, p=rate), (x,), dy)
    pair("gelu", functional.gelu, (wide,), dwide)
    pair("gelu_tanh", partial(functional.gelu, approximate="tanh"), (wide,), dwide)
    pair("softmax", partial(functional.softmax, dim=-1), (wide,), dwide)
    pair("attention", attention, (x, y, dy), dy)
    pair("vocab_cross_entropy", vocabulary, (rows, word, given["bias"]), torch.tensor(1 / M))
    calls["global_norm"] = partial(torch.linalg.vector_norm, given["buffers"][1])
    calls["adamw"] = torch_adamw(given["buffers"], optimizer_settings(checked))
    return calls


def torch_adamw(buffers: Any, settings: dict[str, Any]) -> Any:
    """Return one step of torch's fused AdamW, and before it the factor of gradient clipping."""
    import torch

    value, grad, moment1, moment2 = buffers
    parts = slice(0, settings["decayed"]), slice(settings["decayed"], None)
    groups: list[Any] = []
    leaves = []
    for part, decay in zip(parts, (settings["decay"], 0.0), strict=True):
        leaf = value[part].detach().requires_grad_()
        leaf.grad = grad[part]
        leaves.append(leaf)
        groups.append({"params": [leaf], "weight_decay": decay})
    optimizer = torch.optim.AdamW(
        groups, lr=settings["lr"], betas=(settings["beta1"], settings["beta2"]),
        eps=settings["eps"], fused=True,
    )  # fmt: skip
    for leaf, part in zip(leaves, parts, strict=True):
        optimizer.state[leaf] = {
            "step": torch.tensor(0.0), "exp_avg": moment1[part], "exp_avg_sq": moment2[part],
        }  # fmt: skip

    def step() -> Any:
        grad.mul_(settings["grad_scale"])
        optimizer.step()
        return value

    return step


def program(side: str, checked: bool) -> Calls:
    """Be one side: its operations, and "results" for those of one of them as they can be sent."""
    calls = in_torch(checked) if side == "PyTorch" else operations(side, checked)
    return {**calls, "results": partial(results, calls)}


def results(calls: Calls, name: str) -> list[np.ndarray]:
    """Return what an operation computes; what a forward keeps for its backward is left out."""
    result = calls[name]()
    several = result if isinstance(result, (tuple, list)) else (result,)
    arrays = [np.asarray(r.detach() if hasattr(r, "detach") else r) for r in several]
    return arrays if "backward" in name else arrays[:1]


def compare(names: Sequence[str], ours: Program, theirs: Program, peer: str) -> None:
    """Stop unless all results are equal."""
    for name in names:
        one, other = ours.result("results", name), theirs.result("results", name)
        if len(one) != len(other):
            raise SystemExit(f"{name}: {len(one)} results, {len(other)} from {peer}")
        for mine, yours in zip(one, other, strict=True):
            check_equal(f"{name}, {peer}", mine, yours, CLOSE)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser("Is every operation fast?")
    parser.add_argument("--rounds", type=positive, metavar="N", help="default: 15, quick: 3")
    options = parse(parser, arguments)
    rounds, at_least = options.rounds or (3 if options.quick else 15), 0.02
    peers = ["PyTorch"] * installed("torch") + ["numpy"]
    sides = ["numba", *peers]
    names = list(operations("numpy", checked=True))
    for peer in peers:
        with Program(program, "numba", True) as ours, Program(program, peer, True) as theirs:
            compare(names, ours, theirs, peer)
    programs = {
        side: Program(program, side, False, threads=options.threads, free_blas=side == "numpy")
        for side in sides
    }
    compare(names, programs["numba"], programs["numpy"], "numpy")
    rows, sums = [], dict.fromkeys(sides, 0.0)
    for name in names:
        found = take_turns(programs, name, rounds, at_least)
        times = {side: 1000 * median(found[side]) for side in sides}
        for side in sides:
            sums[side] += times[side] * PER_STEP.get(name, 0)
        faster = [str(Ratio.of(found[side], found["numba"])) for side in peers]
        rows.append([
            name, *(f"{times[side]:.3f}" for side in sides), *faster, str(PER_STEP.get(name, 0))
        ])  # fmt: skip
    ratios = {side: sums[side] / sums["numba"] for side in peers}
    rows.append([
        "one step, sum", *(f"{sums[side]:.1f}" for side in sides),
        *(f"{ratio:.2f}" for ratio in ratios.values()), "",
    ])  # fmt: skip
    for side in programs.values():
        side.close()
    figures = [Figure(f"one step's operations ÷ {side}'s", ratios[side]) for side in peers]
    headers = ["operation", *(f"{side} ms" for side in sides)]
    headers += [*(f"faster than {side}" for side in peers), "per step"]
    return finish(options, headers, rows, figures)


if __name__ == "__main__":
    sys.exit(main())
