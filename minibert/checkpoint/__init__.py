"""Checkpoints: what a model and a run leave on disk, and the way back."""

from minibert.checkpoint.huggingface import load_model, load_pretrained, save_model
from minibert.checkpoint.resume import load_training, save_training
from minibert.checkpoint.weights import load_weights

__all__ = [
    "load_model",
    "load_pretrained",
    "load_training",
    "load_weights",
    "save_model",
    "save_training",
]
