"""From text to batches: documents, sentences, token ids on disk, sentence pairs, masks."""

from minibert.data.batches import BatchSource, PretrainingBatch
from minibert.data.cache import cached_corpus
from minibert.data.corpus import TokenCorpus, build_corpus
from minibert.data.documents import read_documents
from minibert.data.embedded import embedded_documents
from minibert.data.sentences import split_sentences
from minibert.data.split import DocumentSet

__all__ = [
    "BatchSource",
    "DocumentSet",
    "PretrainingBatch",
    "TokenCorpus",
    "build_corpus",
    "cached_corpus",
    "embedded_documents",
    "read_documents",
    "split_sentences",
]
