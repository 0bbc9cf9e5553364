"""A model's double in PyTorch, for benchmarks and parity tests: same weights, same loss, same step.

Two of them can be built.  The stock one is transformers' BertForPreTraining as it comes, which
scores the vocabulary at every position, with PyTorch's default AdamW.  The best-effort one is what
somebody who wants speed would write with the same parts: only masked rows reach the vocabulary,
attention is PyTorch's fused one, and so is AdamW.  For races it may also be compiled, or compute in
bfloat16 where PyTorch's autocast thinks it fit.

Needs torch and transformers: pip install -e ".[parity]"
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
import transformers
from torch.nn.functional import cross_entropy

from minibert.arrays import IGNORED, Array
from minibert.data.batches import PretrainingBatch
from minibert.models.pretraining import BertForPreTraining
from minibert.training.adamw import AdamW
from minibert.training.muon import ITERATIONS, MOMENTUM, STEP_SIZE, Muon

INTEGERS = ("input_ids", "token_type_ids", "attention_mask")


class TorchMuon:
    """Muon's half of the update, written again; matrices of one shape are multiplied together.

    torch.optim.Muon would iterate in bfloat16, which most processors have no instructions for.
    """

    def __init__(
        self, model: BertForPreTraining, optimizer: Muon, parameters: dict[str, torch.nn.Parameter]
    ) -> None:
        self.weight_decay = optimizer.weight_decay
        self.groups: dict[tuple[int, ...], list[torch.nn.Parameter]] = {}
        for p in model.params:
            if p.spec.hidden:
                self.groups.setdefault(p.shape, []).append(parameters[p.name])
        self.momenta = {
            shape: torch.zeros_like(torch.stack(group)) for shape, group in self.groups.items()
        }

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        for shape, group in self.groups.items():
            gradient = torch.stack([p.grad for p in group if p.grad is not None])
            momentum = self.momenta[shape].lerp_(gradient, 1 - MOMENTUM)
            ahead = gradient.lerp(momentum, MOMENTUM)
            size = learning_rate * STEP_SIZE * max(shape) ** 0.5
            for p, update in zip(group, self.orthogonal(ahead).unbind(), strict=True):
                p.mul_(1 - learning_rate * self.weight_decay).sub_(update, alpha=size)

    def orthogonal(self, x: torch.Tensor) -> torch.Tensor:  # (n, M, N)
        if x.shape[1] > x.shape[2]:
            return self.orthogonal(x.mT).mT
        x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
        for _ in range(ITERATIONS):
            gram = x @ x.mT
            x = 3.4445 * x + torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315) @ x
        return x


class Twin:
    """A copy of ``model`` that trains as ``optimizer`` with gradient clipping does.

    The optimizer's settings and the choice of decayed weights are read from minibert's, so the two
    cannot drift apart.  PyTorch draws its dropout otherwise, so no number of a model with dropout
    can be compared: its rates must be 0, unless ``dropout=True`` says that only its speed is of
    interest.  A batch needs a masked token and a next-sentence label that count, as a mean over
    none is not a number in PyTorch; the stock form has one label for each place, so no place may be
    masked twice.
    """

    def __init__(
        self,
        model: BertForPreTraining,
        optimizer: AdamW,
        *,
        clip_norm: float = 1.0,
        best_effort: bool = False,
        device: str = "cpu",
        dropout: bool = False,
        compiled: bool = False,
        bfloat16: bool = False,
    ) -> None:
        rates = model.config.hidden_dropout_prob, model.config.attention_probs_dropout_prob
        if any(rates) and not dropout:
            raise ValueError("the model has dropout, which PyTorch draws otherwise: set it to 0")
        if not optimizer.bias_correction:
            raise ValueError("torch's AdamW always corrects its bias: use bias_correction=True")
        self.best_effort, self.clip_norm, self.device = best_effort, clip_norm, device
        config = transformers.BertConfig(
            **asdict(model.config),
            attn_implementation="sdpa" if best_effort else None,  # None: the library's choice
        )
        dtype = torch.float64 if model.params.dtype == np.float64 else torch.float32
        self.model: Any = transformers.BertForPreTraining(config).to(device, dtype)
        # With it, torch leaves the look-ups of [PAD] out of the gradient, as a rule of its own.
        self.model.bert.embeddings.word_embeddings.padding_idx = None
        self.parameters: dict[str, torch.nn.Parameter] = dict(self.model.named_parameters())
        self.copy_weights(model)
        self.muon = (
            TorchMuon(model, optimizer, self.parameters) if isinstance(optimizer, Muon) else None
        )
        left = [p for p in model.params if not (self.muon and p.spec.hidden)]
        decayed = [self.parameters[p.name] for p in left if p.spec.decay]
        others = [self.parameters[p.name] for p in left if not p.spec.decay]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": optimizer.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ],
            betas=(optimizer.beta1, optimizer.beta2),
            eps=optimizer.eps,
            fused=True if best_effort else None,
        )
        self.autocast = torch.autocast(device, torch.bfloat16, enabled=bfloat16)
        # dynamic: the number of masked rows differs from batch to batch
        self.scored = torch.compile(self.loss, dynamic=True) if compiled else self.loss

    def copy_weights(self, model: BertForPreTraining) -> None:
        """Take over all values; the tied decoder has the embedding's, so it is not named."""
        names = {parameter.name for parameter in model.params}
        if names != self.parameters.keys():
            raise RuntimeError(f"not in both: {sorted(names ^ self.parameters.keys())}")
        with torch.no_grad():
            for parameter in model.params:
                self.parameters[parameter.name].copy_(torch.from_numpy(parameter.value))

    def tensors(self, batch: PretrainingBatch) -> dict[str, torch.Tensor]:
        """Return the batch as the forward pass takes it."""
        arrays: dict[str, Array] = {name: getattr(batch, name) for name in INTEGERS}
        if self.best_effort:
            counted = batch.masked_labels != IGNORED
            arrays["positions"] = batch.masked_positions[counted]
            arrays["labels"] = batch.masked_labels[counted]
        else:
            labels = np.full(batch.input_ids.size, IGNORED, np.int64)
            labels[batch.masked_positions] = batch.masked_labels
            arrays["labels"] = labels.reshape(batch.input_ids.shape)
        arrays["next_sentence_label"] = batch.next_labels
        return {
            name: torch.from_numpy(array).to(self.device, torch.int64)
            for name, array in arrays.items()
        }

    def loss(self, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return mean masked-word loss plus mean next-sentence loss."""
        if not self.best_effort:
            return self.model(**tensors).loss
        scores, next_scores = self.scores(tensors)
        masked = cross_entropy(scores, tensors["labels"])
        return masked + cross_entropy(
            next_scores, tensors["next_sentence_label"], ignore_index=IGNORED
        )

    def scores(
        self, tensors: dict[str, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:  # (M, V), (B, 2)
        """Return the best effort's scores, of the masked rows alone and of the pairs."""
        hidden, pooled = self.model.bert(
            **{name: tensors[name] for name in INTEGERS}, return_dict=False
        )
        rows = hidden.flatten(0, 1)[tensors["positions"]]  # (M, C)
        return self.model.cls.predictions(rows), self.model.cls.seq_relationship(pooled)

    def logits(self, batch: PretrainingBatch) -> tuple[Array, Array]:  # (B, T, V), (B, 2)
        tensors = self.tensors(batch)
        with torch.no_grad(), self.evaluating():
            output = self.model(**{name: tensors[name] for name in INTEGERS})
        return output.prediction_logits.numpy(force=True), output.seq_relationship_logits.numpy(
            force=True
        )

    def masked_loss(self, batches: Iterable[PretrainingBatch]) -> float:
        """Return the mean masked-word loss over all batches; best effort only, without dropout."""
        total, count = 0.0, 0
        with torch.no_grad(), self.evaluating():
            for batch in batches:
                tensors = self.tensors(batch)
                scores, _ = self.scores(tensors)
                total += cross_entropy(scores, tensors["labels"], reduction="sum").item()
                count += len(scores)
        return total / max(count, 1)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Switch dropout off for a while."""
        self.model.eval()
        try:
            yield
        finally:
            self.model.train()

    def gradients(self, batch: PretrainingBatch) -> tuple[float, dict[str, Array]]:
        """Return the loss, and the gradient of every parameter by name."""
        self.model.zero_grad()
        loss = self.loss(self.tensors(batch))
        loss.backward()
        return loss.item(), {name: p.grad.numpy(force=True) for name, p in self.parameters.items()}

    def step(self, batch: PretrainingBatch, learning_rate: float) -> float:
        """Make one update, as ``minibert.training.loop.training_step`` does; return the loss."""
        self.model.zero_grad()
        with self.autocast:
            loss = self.scored(self.tensors(batch))
        loss.backward()
        self.clip()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        if self.muon:
            self.muon.step(learning_rate)
        return loss.item()

    def clip(self) -> None:
        """Scale all gradients so that their common norm is at most ``clip_norm``.

        torch's clip_grad_norm_ adds 1e-6 to the norm, which would hide what float64 can show.
        """
        gradients = [p.grad for p in self.parameters.values()]
        norms = torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients])
        norm = torch.linalg.vector_norm(norms)
        scale = (self.clip_norm / norm.clamp(min=1e-12)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(scale)
