"""The carico command."""
