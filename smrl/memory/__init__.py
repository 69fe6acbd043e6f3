"""The replay memory."""
