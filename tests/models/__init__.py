"""Tests of the models: layers put together."""
