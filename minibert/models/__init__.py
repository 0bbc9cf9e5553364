"""Models: the layers put together."""
