"""A task's model as transformers has it, with the loop that most people write around it.

It starts from the same folder, sees the rows that minibert's task made, and its scores go through
the same decoding: ``minibert.tasks.predict`` takes it for one of minibert's models.

Needs torch and transformers: pip install -e ".[parity]"
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch.nn.functional import cross_entropy, mse_loss

from minibert.arrays import IGNORED, Array
from minibert.checkpoint.names import TASK_HEADS
from minibert.config import FineTuneConfig
from minibert.models.classifier import TaskBatch
from minibert.tasks.base import Task, TaskModel
from minibert.tasks.predict import predict
from minibert.training.finetune import Preparation
from minibert.training.schedule import warmup_linear

CLASSES = {
    "classify": "BertForSequenceClassification",
    "similarity": "BertForSequenceClassification",
    "tag": "BertForTokenClassification",
    "answer": "BertForQuestionAnswering",
}


class TaskTwin:
    """The model and AdamW; biases and LayerNorm are not decayed."""

    def __init__(self, task: Task, folder: Path, config: FineTuneConfig) -> None:
        self.task, self.config = task, config
        torch.manual_seed(config.seed)
        transformers.utils.logging.set_verbosity_error()  # it would tell that the head is new
        transformers.utils.logging.disable_progress_bar()
        outputs = 2 if task.name == "answer" else max(len(getattr(task, "labels", ())), 1)
        kind = getattr(transformers, CLASSES[task.name])
        self.model: Any = kind.from_pretrained(folder, num_labels=outputs).train()
        named = list(self.model.named_parameters())
        plain = [p for name, p in named if name.endswith("bias") or "LayerNorm" in name]
        decayed = [p for name, p in named if not (name.endswith("bias") or "LayerNorm" in name)]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": config.weight_decay},
                {"params": plain, "weight_decay": 0.0},
            ],
            fused=True,
        )

    def copy_head(self, model: TaskModel) -> None:
        """Take over the head's weights, which no folder holds."""
        parameters = dict(self.model.named_parameters())
        with torch.no_grad():
            for parameter in model.params:
                if parameter.name.startswith(TASK_HEADS):
                    parameters[parameter.name].copy_(torch.from_numpy(parameter.value))

    def output(self, batch: TaskBatch) -> Any:
        return self.model(
            input_ids=torch.from_numpy(batch.input_ids).long(),
            token_type_ids=torch.from_numpy(batch.token_type_ids).long(),
            attention_mask=torch.from_numpy(batch.attention_mask).long(),
        )

    def logits(self, batch: TaskBatch) -> Array:
        """Return what minibert's model of the task returns, without dropout."""
        self.model.eval()
        with torch.no_grad():
            output = self.output(batch)
        self.model.train()
        if self.task.name == "answer":
            return np.stack([output.start_logits.numpy(), output.end_logits.numpy()])
        return output.logits.numpy()

    def loss(self, batch: TaskBatch) -> torch.Tensor:
        output, labels = self.output(batch), torch.from_numpy(batch.labels)
        if self.task.name == "similarity":
            return mse_loss(output.logits[:, 0], labels)
        labels = labels.long()
        if self.task.name == "answer":
            places = zip((output.start_logits, output.end_logits), labels.T, strict=True)
            return sum((cross_entropy(scores, place) for scores, place in places)) / 2
        return cross_entropy(output.logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED)

    def step(self, batch: TaskBatch, learning_rate: float) -> float:
        loss = self.loss(batch)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        return loss.item()

    def train(self, prepared: Preparation) -> list[dict[str, float]]:
        """Train on random batches, and leave the model as it was after its best epoch.

        Returns the dev scores of every epoch.
        """
        config, task, step = self.config, self.task, 0
        generator = np.random.default_rng(config.seed)
        rows = task.rows(prepared.training)
        starts = range(0, len(rows), config.batch_size)
        epochs: list[dict[str, float]] = []
        kept: Any = None
        for _ in range(config.epochs):
            order = generator.permutation(len(rows))
            for start in starts:
                step += 1
                numbers = order[start : start + config.batch_size]
                progress = step / (config.epochs * len(starts) + 1)
                self.step(
                    task.batch([rows[number] for number in numbers]),
                    config.learning_rate * warmup_linear(progress, config.warmup),
                )
            scores = task.scores(predict(task, self, prepared.dev), prepared.dev)  # type: ignore[arg-type]
            if all(scores[task.metric] > epoch[task.metric] for epoch in epochs):
                kept = copy.deepcopy(self.model.state_dict())
            epochs.append(scores)
        self.model.load_state_dict(kept)
        return epochs
